"""The fused resample: warp, colour map, coverage and fill in one pass.

Owns: `warp` and `sample`, which pick an implementation.
Must not: compute anything itself.
Read next: ``reference.py``.
"""

from __future__ import annotations

from torch import Tensor

from pellucid.kernels.dispatch import choose
from pellucid.kernels.warp import reference
from pellucid.types import Size

__all__ = ["AVAILABLE", "sample", "warp"]

AVAILABLE: tuple[str, ...] = ("reference",)


def warp(
    image: Tensor,
    src_from_dst: Tensor,
    *,
    size: Size,
    interpolation: str = "bilinear",
    padding_mode: str = "zeros",
    fill: Tensor | None = None,
    matrix: Tensor | None = None,
    offset: Tensor | None = None,
    window: Tensor | None = None,
    footprint: Size | None = None,
    impl: str = "auto",
) -> Tensor:
    """See :func:`pellucid.kernels.warp.reference.warp`; ``impl`` says who computes it."""
    choose(impl, available=AVAILABLE, device=image.device.type)
    return reference.warp(
        image,
        src_from_dst,
        size=size,
        interpolation=interpolation,
        padding_mode=padding_mode,
        fill=fill,
        matrix=matrix,
        offset=offset,
        window=window,
        footprint=footprint,
    )


def sample(
    image: Tensor,
    x: Tensor,
    y: Tensor,
    *,
    interpolation: str = "bilinear",
    padding_mode: str = "zeros",
    fill: Tensor | None = None,
    impl: str = "auto",
) -> Tensor:
    """See :func:`pellucid.kernels.warp.reference.sample`; ``impl`` says who computes it."""
    choose(impl, available=AVAILABLE, device=image.device.type)
    return reference.sample(image, x, y, interpolation=interpolation, padding_mode=padding_mode, fill=fill)
