"""Dtypes that an image may come in and leave as, in plain PyTorch.

Owns: `compute_dtype`, `to_colors` and `rounded`, the specification of what compiled warps do while they read and write.
Must not: resample.
Read next: ``reference.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.kernels.several import Pictures

__all__ = ["as_before", "as_signed", "compute_dtype", "rounded", "to_colors"]

_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def as_signed(image: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """The same bits as signed integers where torch moves no unsigned ones: it has neither a flip nor a gather for wide ones."""
    return image.view(_SIGNED[image.dtype]) if image.dtype in _SIGNED else image


def as_before(image: Shaped[Tensor, "*shape"], dtype: torch.dtype) -> Shaped[Tensor, "*shape"]:
    """Undo :func:`as_signed`. An image that kept its dtype is returned itself: a view of its bits would cut gradients."""
    return image if image.dtype == dtype else image.view(dtype)


def compute_dtype(image: Tensor | Pictures, src_from_dst: Tensor) -> torch.dtype:
    """The dtype in which coordinates and colours are computed."""
    return torch.promote_types(torch.promote_types(image.dtype, src_from_dst.dtype), torch.float32)


def to_colors(image: Shaped[Tensor, "b c h w"], dtype: torch.dtype, *, levels: bool = False) -> Float[Tensor, "b c h w"]:
    """Convert pixels to the dtype of the computation; 8-bit ones become fractions of 255, or with ``levels`` stay levels."""
    return image.to(dtype) * (1.0 / 255.0) if image.dtype == torch.uint8 and not levels else image.to(dtype)


def rounded(out: Float[Tensor, "b c h w"], dtype: torch.dtype | None, *, levels: bool = False) -> Shaped[Tensor, "b c h w"]:
    """The result in the dtype the caller wants; None leaves it as it is.

    8-bit results are clipped to [0, 1] and are the nearest of 255 steps, halves to even; NaN becomes 0. They have no gradient.
    With ``levels`` the numbers are those steps already.
    """
    if dtype is None:
        return out
    if dtype != torch.uint8:
        return out.to(dtype)
    numbers = out.detach()
    steps = torch.clamp(numbers, 0.0, 255.0) if levels else torch.clamp(numbers, 0.0, 1.0) * 255.0
    return torch.nan_to_num(torch.round(steps), 0.0).to(torch.uint8)
