"""Convert NumPy arrays and PIL images to tensors and back, without importing Pillow.

Owns: the meaning of their axes and modes, and reading pixels from Pillow's own memory.
Must not: change numbers: a picture's bytes stay bytes.
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
"""Pillow's modes whose pixels are plain numbers; images of other modes are converted to RGB."""


def is_array(value: object) -> bool:
    """Return whether this is an array or a PIL image."""
    return isinstance(value, np.ndarray) or _is_pillow(value)


def as_tensor(name: str, kind: str, value: Any) -> Tensor:
    """Convert an array or a PIL image to a tensor.

    Args:
        name: of the argument, for errors.
        kind: of target. Images (H, W) or (..., H, W, C) become (..., C, H, W); other kinds keep their axes.
        value: the array or image; a writeable array shares its memory with the result.
    """
    if _is_pillow(value):
        if kind == "image" and value.mode not in _KEPT:
            value = value.convert("RGB")
        pixels = pixels_of_pillow(value)
        return pixels if kind != "image" else pixels[None] if pixels.dim() == 2 else pixels.movedim(-1, 0)
    if not value.dtype.isnative:  # as FITS and some TIFF files have them
        fix = "Convert it: array.astype(array.dtype.newbyteorder('='))."
        raise wrong_type(name, expected="an array in this machine's byte order", got=f"dtype {value.dtype.str}", fix=fix)
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
        raise invalid(name, expected="an array (H, W, C)", got=got, fix="If the channels come first: torch.from_numpy(array).")
    return tensor.permute(2, 0, 1) if tensor.dim() == 3 else tensor.movedim(-1, -3)


def given_as(value: object, kind: str, out: str) -> str:
    """Return the name of the form in which `as_given` hands a result back; "" for a tensor.

    Args:
        value: the input of the call.
        kind: of target.
        out: ``tensor``; ``same`` for the form of the input (an array, a PIL image, or lists of rows); ``numpy`` for arrays of
            everything.
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
    """Convert a result to the form that `given_as` names: images become contiguous arrays (..., H, W, C) or (H, W), others keep
    their axes. ``listed``: the value holds several results, and each is converted by itself.
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
    """Convert bytes (C, H, W) or (H, W) to a PIL image; other dtypes and batches of pictures stay tensors."""
    if image.dtype != torch.uint8 or image.dim() > 3:
        return image
    image = image[0] if image.dim() == 3 and len(image) == 1 else image
    pixels = in_pixels(image.cpu()) if image.dim() == 3 else image.cpu().contiguous()
    return sys.modules["PIL.Image"].fromarray(pixels.numpy())


def _is_pillow(value: object) -> bool:
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)


def pixels_of_pillow(picture: Any) -> Tensor:
    """Return the pixels of a PIL image, (H, W, C) or (H, W). Do not write to them.

    Pillow stores four bytes for each RGB pixel, and its array interface copies three of them. If Pillow exports its memory by
    Arrow's C interface, in one block, the result is a view of that memory, and nothing is copied.
    """
    memory = _shown(picture) if picture.mode == "RGB" else None
    if memory is None:
        pixels = np.array(picture)
        return torch.from_numpy(pixels.astype(pixels.dtype.newbyteorder("="), copy=False))
    return torch.from_numpy(memory.reshape(picture.height, picture.width, 4))[..., :3]


class _Array(ctypes.Structure):
    """The struct ``ArrowArray`` of Arrow's C interface."""


_Array._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    *((name, ctypes.c_void_p) for name in ("dictionary", "release", "private_data")),
]


def _shown(picture: Any) -> NDArray[np.uint8] | None:
    """Return the memory of an RGB image, four bytes per pixel; None if Pillow is too old or stores the image in several blocks."""
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
    first.capsule = capsule  # type: ignore[attr-defined]  # keeps the memory alive
    return as_strided(np.ctypeslib.as_array(first), (count,), (1,))


_Byte = ctypes.c_uint8 * 1
