"""How often polygons wind around each pixel.

Owns: `winding`, which picks an implementation.
Must not: compute anything itself.
Read next: ``reference.py``.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.explicit import Primitive, implementation, run
from pellucid.kernels.polygons import cpu, reference
from pellucid.types import Size

__all__ = ["winding"]


def winding(points: Float[Tensor, "b v 2"], *, size: Size, impl: str = "auto") -> Float[Tensor, "b h w"]:
    """See :func:`pellucid.kernels.polygons.reference.winding`; ``impl`` says who computes it.

    Float32 or float64. Each polygon has one thread, so the bits do not depend on how many there are.
    """
    if implementation(impl, points.device) == "reference":
        return reference.winding(points, size=size)
    return run(_WINDING, (list(size),), points)


def _again(points: Tensor, size: list[int]) -> Tensor:
    return reference.winding(points, size=(size[0], size[1]))


_WINDING = Primitive("winding", _again, *cpu.WINDING)
