"""Pixels of Pillow's pictures, in its own memory.

Owns: `pixels_of_pillow`.
Must not: import Pillow, change numbers, or keep the memory.
Read next: ``arrays.py``.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["pixels_of_pillow"]


def pixels_of_pillow(picture: Any) -> Tensor:
    """The numbers of a picture: (H, W, C), or (H, W); not to be written to.

    Pillow keeps four bytes for a pixel in colours, and hands out copies of three, put together from pieces. Where it shows its own
    memory (Arrow's interface for C; rows that follow one another), that is seen, and nothing is copied.
    """
    memory = _shown(picture) if picture.mode == "RGB" else None
    if memory is None:
        pixels = np.array(picture)
        return torch.from_numpy(pixels.astype(pixels.dtype.newbyteorder("="), copy=False))
    return torch.from_numpy(memory.reshape(picture.height, picture.width, 4))[..., :3]


class _Array(ctypes.Structure):
    """Arrow's array, as its interface for C lays it out."""


_Array._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    *((name, ctypes.c_void_p) for name in ("dictionary", "release", "private_data")),
]


def _shown(picture: Any) -> NDArray[np.uint8] | None:
    """The memory of a picture in colours, four bytes a pixel; None where Pillow is too old, or keeps it in pieces."""
    show = getattr(picture, "__arrow_c_array__", None)
    if show is None:
        return None
    picture.load()
    try:
        _, capsule = show()
    except ValueError:  # rows in several blocks
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    pixels = ctypes.cast(pointer(capsule, b"arrow_array"), ctypes.POINTER(_Array)).contents
    count = 4 * picture.height * picture.width
    if pixels.n_children != 1 or pixels.length * 4 != count or pixels.offset:
        return None
    first = _Byte.from_address(pixels.children[0].contents.buffers[1])
    first.capsule = capsule  # type: ignore[attr-defined]  # the memory lives as long as it
    return as_strided(np.ctypeslib.as_array(first), (count,), (1,))


_Byte = ctypes.c_uint8 * 1
