"""How much of each pixel polygons cover.

Owns: `coverage`, which picks an implementation.
Must not: compute anything itself.
Read next: ``reference.py``.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.explicit import implementation, run
from pellucid.kernels.polygons import cpu, reference
from pellucid.kernels.primitive import Primitive
from pellucid.types import Size

__all__ = ["coverage"]


def coverage(points: Float[Tensor, "b v 2"], *, size: Size, impl: str = "auto") -> Float[Tensor, "b h w"]:
    """See :func:`pellucid.kernels.polygons.reference.coverage`; ``impl`` says who computes it.

    Float32 or float64. Each polygon has one thread, so the bits do not depend on how many there are.
    """
    if implementation(impl, points.device) == "reference":
        return reference.coverage(points, size=size)
    return run(_COVERAGE, (list(size),), points)


_COVERAGE = Primitive("coverage", lambda points, size: reference.coverage(points, size=tuple(size)), *cpu.COVERAGE)
