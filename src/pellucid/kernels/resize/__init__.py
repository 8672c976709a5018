"""The separable antialiased resample of crops and resizes.

Owns: `resize`, which picks an implementation.
Must not: compute anything itself.
Read next: ``reference.py``.
"""

from __future__ import annotations

from torch import Tensor

from pellucid.kernels.dispatch import choose
from pellucid.kernels.resize import reference
from pellucid.types import Size

__all__ = ["AVAILABLE", "resize"]

AVAILABLE: tuple[str, ...] = ("reference",)


def resize(
    image: Tensor,
    src_from_dst: Tensor,
    *,
    size: Size,
    window: Tensor,
    filled: bool,
    interpolation: str = "bilinear",
    fill: Tensor | None = None,
    matrix: Tensor | None = None,
    offset: Tensor | None = None,
    impl: str = "auto",
) -> Tensor:
    """See :func:`pellucid.kernels.resize.reference.resize`; ``impl`` says who computes it."""
    choose(impl, available=AVAILABLE, device=image.device.type)
    return reference.resize(
        image,
        src_from_dst,
        size=size,
        window=window,
        filled=filled,
        interpolation=interpolation,
        fill=fill,
        matrix=matrix,
        offset=offset,
    )
