"""Canvases between the warps of a run, which are never painted: where a chain of maps reads, and what it shows beside the image.

Owns: `through` and `laid_over`, which pick who computes.
Must not: resample.
Read next: ``reference.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from pellucid.compilers import numba_works
from pellucid.kernels.canvases import cpu, reference
from pellucid.kernels.canvases.values import Chained
from pellucid.kernels.derivatives import needs_grad
from pellucid.tape import is_plain_eager
from pellucid.types import Size

__all__ = ["Chained", "laid_over", "through"]


def through(
    maps: Float[Tensor, "#b k1 3 3"],
    windows: Float[Tensor, "#b k 4"],
    fills: Float[Tensor, "#b k c"] | None,
    *,
    size: Size,
    modes: Sequence[str],
    hard: Sequence[bool],
    impl: str = "auto",
) -> Chained:
    """See :func:`pellucid.kernels.canvases.reference.through`; compiled for the CPU, unless the reference is asked for."""
    compute = cpu.through if _compiled(maps, impl) else reference.through
    return compute(maps, windows, fills, size=size, modes=modes, hard=hard)


def laid_over(found: Tensor, share: Tensor, ground: Tensor | None, *, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.canvases.reference.laid_over`; may write into what was found where no gradient needs it."""
    alike = found.dtype == share.dtype and found.is_contiguous()
    plain = alike and _compiled(found, impl) and not needs_grad(found, share, ground)
    return (cpu if plain else reference).laid_over(found, share, ground)


def _compiled(like: Tensor, impl: str) -> bool:
    return impl in ("auto", "cpu") and like.is_cpu and is_plain_eager() and numba_works()


cpu.differentiate_again_with(reference.through)
