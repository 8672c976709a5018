"""NumPy arrays and Pillow's pictures as tensors, without importing Pillow.

Owns: what their axes and modes mean.
Must not: change numbers; a picture's bytes stay bytes.
Read next: ``parsing.py``.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.errors import invalid, wrong_type
from pellucid.targets.pillow import pixels_of_pillow

__all__ = ["as_tensor", "is_array"]

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
        raise invalid(
            name,
            expected="an array (H, W, C)",
            got=f"shape {tuple(tensor.shape)}, which reads as {last} channels",
            fix="Channels that stand first: torch.from_numpy(array).",
        )
    return tensor.movedim(-1, -3)


def _is_pillow(value: object) -> bool:
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)
