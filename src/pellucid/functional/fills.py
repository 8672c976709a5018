"""Fill values and parameters as users write them: numbers, one per channel, or tensors with a gradient.

Owns: reading numbers, sequences, arrays and tensors into small tensors beside an image.
Must not: look at their values.
Read next: ``matrices.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import constant, wide_dtype
from pellucid.errors import invalid, wrong_type

__all__ = [
    "Factor", "FillValue", "common_device", "common_dtype", "read_channels", "read_factor", "read_fill", "read_numbers",
    "same_device",
]  # fmt: skip

_ARRAYS = (np.ndarray, np.generic)
_NUMBERS = (int, float, np.integer, np.floating)

FillValue: TypeAlias = float | Sequence[float] | Tensor
"""One value, one per channel, or a tensor (), (C,) or (B, C)."""

Factor: TypeAlias = float | Tensor
"""A number, or a tensor () or (B,) with one number per image."""


def same_device(name: str, value: Tensor, device: torch.device) -> None:
    """Raise if a tensor lives elsewhere than the image; lists and arrays are moved, tensors are the caller's to move."""
    if value.device != device:
        fix = f"Use {name}.to(image.device)."
        raise invalid(name, expected=f"a tensor on {device}, as the image", got=f"one on {value.device}", fix=fix)


def read_numbers(name: str, value: Any, *, device: torch.device, expected: str) -> Float[Tensor, "..."]:
    """Read a tensor, array, number or nested list as a floating-point tensor: tensors keep dtype and graph, the rest is float64."""
    wide = wide_dtype(device)
    if isinstance(value, Tensor):
        same_device(name, value, device)
        if value.dtype.is_complex or value.dtype == torch.bool:
            raise wrong_type(name, expected=expected, got=value.dtype)
        return value if value.dtype.is_floating_point else value.to(wide)
    leaves = _leaves(value)
    if any(isinstance(leaf, Tensor) for leaf in leaves):
        return _stack(name, value, device, expected)
    if isinstance(value, _ARRAYS):
        array = np.array(value)  # a copy: torch would warn of arrays it may not write to, and refuse flipped ones
        if array.dtype.kind not in "iuf":
            raise wrong_type(name, expected=expected, got=f"an array of {array.dtype}")
        return torch.from_numpy(array).to(device, wide)
    if not all(isinstance(leaf, _NUMBERS) and not isinstance(leaf, bool) for leaf in leaves):
        raise wrong_type(name, expected=expected, got=repr(value))
    shape = _shape(value)
    if shape is None:
        raise invalid(name, expected=expected, got=f"rows of different lengths, {value!r}")
    return constant([float(leaf) for leaf in leaves], wide, device).reshape(shape)


def _shape(value: Any) -> tuple[int, ...] | None:
    """The shape of nested sequences; None if they are ragged."""
    if not isinstance(value, Sequence):
        return ()
    shapes = [_shape(part) for part in value]
    if not shapes:
        return (0,)
    first = shapes[0]
    return None if first is None or any(shape != first for shape in shapes) else (len(shapes), *first)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [leaf for part in value for leaf in _leaves(part)]
    return [value]


def _stack(name: str, value: Any, device: torch.device, expected: str) -> Tensor:
    """Nested lists with tensors inside, in float64, with every entry's graph kept."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return read_numbers(name, value, device=device, expected=expected).to(torch.float64)
    try:
        return torch.stack([_stack(name, part, device, expected) for part in value])
    except RuntimeError:
        raise invalid(name, expected=expected, got=f"parts of different shapes in {value!r}") from None


def read_channels(name: str, value: FillValue, *, channels: int, device: torch.device) -> tuple[Float[Tensor, "b_or_1 c"], bool]:
    """One number per channel, for all images or for each, with its graph, and whether the caller gave a batch."""
    expected = f"a number, {channels} numbers (one per channel), or a tensor (), ({channels},) or (B, {channels})"
    numbers = read_numbers(name, value, device=device, expected=expected)
    rows = numbers.reshape(1, -1) if numbers.dim() < 2 else numbers
    if rows.dim() != 2 or rows.shape[1] not in (1, channels):
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
        raise invalid(name, expected=expected, got=got, fix=f"The image has {channels} channel(s).")
    return rows.expand(-1, channels), numbers.dim() == 2


def read_fill(name: str, value: FillValue, *, channels: int, batch: int, like: Tensor) -> Float[Tensor, "b_or_1 c"] | None:
    """One colour per image or for all, in the dtype of ``like``; None stands for zero."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value == 0:
        return None
    fill, _ = read_channels(name, value, channels=channels, device=like.device)
    if fill.shape[0] not in (1, batch):
        raise invalid(name, expected=f"1 or {batch} colours, as the result has {batch} images", got=fill.shape[0])
    if not like.dtype.is_floating_point:
        limits = torch.iinfo(like.dtype if like.dtype != torch.bool else torch.uint8)
        fill = torch.round(fill).clamp(limits.min, limits.max)
    return fill.to(like.dtype)


def read_factor(name: str, value: Factor, *, device: torch.device) -> tuple[Float[Tensor, "b_or_1"], bool]:
    """One number per image or for all, with its graph, and whether the caller gave a batch."""
    expected = "a number, or a tensor () or (B,) with one number per image"
    factor = read_numbers(name, value, device=device, expected=expected)
    if factor.dim() > 1:
        raise invalid(name, expected=expected, got=f"shape {tuple(factor.shape)}")
    return (factor, True) if factor.dim() == 1 else (factor[None], False)


def common_dtype(*values: Any) -> torch.dtype:
    """The precision of a result made of these: that of the floating-point tensors among them, float64 if there is none."""
    dtypes = [
        leaf.dtype for value in values for leaf in _leaves(value) if isinstance(leaf, Tensor) and leaf.dtype.is_floating_point
    ]
    if not dtypes:
        return torch.float64
    return torch.float64 if torch.float64 in dtypes else torch.float32


def common_device(*values: Any) -> torch.device:
    """Where a result made of these lives: with the first tensor among them."""
    return next((leaf.device for value in values for leaf in _leaves(value) if isinstance(leaf, Tensor)), torch.device("cpu"))
