"""NumPy arrays and Pillow's pictures as tensors, without importing Pillow.

Owns: what their axes and modes mean, and pixels in Pillow's own memory.
Must not: change numbers; a picture's bytes stay bytes.
Read next: ``parsing.py``.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from torch import Tensor

from pellucid.errors import invalid, wrong_type
from pellucid.geometry.polygons import rings_of
from pellucid.kernels.pixels import in_pixels

__all__ = ["as_given", "as_tensor", "given_as", "is_array", "pixels_of_pillow"]

_COLORS = (1, 3, 4)
_KEPT = ("L", "RGB", "RGBA", "F", "I", "I;16", "I;16B", "I;16L", "I;16N")
"""Modes of Pillow's that are numbers per pixel; the others are colours that have to be looked up or converted."""


def is_array(value: object) -> bool:
    """Whether this is an array or a picture of Pillow's."""
    return isinstance(value, np.ndarray) or _is_pillow(value)


def as_tensor(name: str, kind: str, value: Any) -> Tensor:
    """Read an array or a picture of Pillow's.

    Args:
        name: of the argument, for errors.
        kind: of target. Images are (H, W), (H, W, C) or more axes before, and become (..., C, H, W); all else keeps its axes.
        value: shared with the result where it can be written to.
    """
    if _is_pillow(value):
        if kind == "image" and value.mode not in _KEPT:
            value = value.convert("RGB")
        pixels = pixels_of_pillow(value)
        return pixels if kind != "image" else pixels[None] if pixels.dim() == 2 else pixels.movedim(-1, 0)
    strides = value.flags.writeable and all(stride >= 0 for stride in value.strides)
    try:
        tensor = torch.from_numpy(value if strides else value.copy())
    except TypeError as error:
        raise wrong_type(name, expected="an array of numbers that torch has, too", got=f"dtype {value.dtype}") from error
    if kind != "image" or tensor.dim() < 2:
        return tensor
    if tensor.dim() == 2:
        return tensor[None]
    first, last = tensor.shape[-3], tensor.shape[-1]
    if first in _COLORS and last not in _COLORS:
        got = f"shape {tuple(tensor.shape)}, which reads as {last} channels"
        raise invalid(name, expected="an array (H, W, C)", got=got, fix="Channels that stand first: torch.from_numpy(array).")
    return tensor.permute(2, 0, 1) if tensor.dim() == 3 else tensor.movedim(-1, -3)


def given_as(value: object, kind: str, out: str) -> str:
    """How a result is handed back, for `as_given`.

    Args:
        value: what came.
        kind: of target.
        out: ``tensor``; ``same`` for arrays where arrays came, pictures of Pillow's where such came, and rows where rows did;
            ``numpy`` for arrays of everything.
    """
    if out == "tensor" or (out == "same" and isinstance(value, Tensor)):
        return ""
    if out == "same" and _is_pillow(value):
        return "picture"
    if out == "same" and isinstance(value, list | tuple):
        return "rings" if kind in ("polygons", "polylines") else "list"
    if kind != "image":
        return "array"
    return "plane" if isinstance(value, np.ndarray) and value.ndim == 2 else "image"


def as_given(value: Any, how: str, *, listed: bool = False) -> Any:
    """A result as `given_as` says: an image as an array (..., H, W, C) or (H, W), contiguous; else with its own axes. ``listed``:
    each of several by itself.
    """
    if listed and isinstance(value, Tensor) and how == "image":  # all at once
        return list(as_given(value, how))
    if listed or isinstance(value, list):
        return [as_given(one, how) for one in value]
    if not how or not isinstance(value, Tensor):
        return value
    if how == "picture":
        return _as_pillow(value)
    value = value.detach().cpu()
    if how == "rings":
        return [[ring.flatten().tolist() for ring in rings_of(one)] for one in value]
    if how == "list":
        return value.tolist() if value.dim() < 3 or value.shape[1:] == (4, 2) else [one.contiguous().numpy() for one in value]
    if how == "image":
        return in_pixels(value).numpy()
    return (value[0] if how == "plane" else value).contiguous().numpy()


def _as_pillow(image: Tensor) -> Any:
    """Bytes (C, H, W) or (H, W) as a picture of Pillow's; other numbers stay a tensor, as do several pictures."""
    if image.dtype != torch.uint8 or image.dim() > 3:
        return image
    image = image[0] if image.dim() == 3 and len(image) == 1 else image
    pixels = in_pixels(image.cpu()) if image.dim() == 3 else image.cpu().contiguous()
    return sys.modules["PIL.Image"].fromarray(pixels.numpy())


def _is_pillow(value: object) -> bool:
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)


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
