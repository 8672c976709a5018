"""Per-sample convolution with small kernels.

Owns: the names `separable`, `dense`, `interior` and `median`, which pick an implementation.
Must not: know what the kernels are for.
Read next: ``reference.py``.
"""

from __future__ import annotations

from torch import Tensor

from pellucid.kernels.convolve import cpu, reference, triton
from pellucid.kernels.explicit import AVAILABLE, Primitive, as_it_is, dtypes, implementation, run

__all__ = ["AVAILABLE", "SEPARABLE", "dense", "interior", "median", "separable"]

SEPARABLE: tuple[str, ...] = ("cpu", "triton", "reference")
"""Who can compute the separable filter; ``AVAILABLE`` is for the 3x3 one and medians."""

_NAME = "the separable filter"
_SEPARABLE = {
    name: Primitive(_NAME, reference.separable, *operators, name, linear=as_it_is)
    for name, operators in {"cpu": cpu.SEPARABLE, "triton": triton.SEPARABLE}.items()
}
_DENSE = Primitive("the square filter", reference.dense, *cpu.DENSE, linear=as_it_is)
_INTERIOR = Primitive(
    "the 3x3 filter", lambda image, kernel, clip: reference.interior(image, kernel, clip=bool(clip)), *cpu.INTERIOR
)
_MEDIAN = Primitive("the median", lambda image, gate, down, across: reference.median(image, (down, across), gate), *cpu.MEDIAN)


def separable(image: Tensor, vertical: Tensor, horizontal: Tensor, *, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.convolve.reference.separable`; ``impl`` says who computes it.

    Compiled, taps at a kernel's ends that are too small to change a sum (below 1e-31, in float64 1e-292) are not read: what is not
    finite does not spread through them. 16-bit floats are read as float32.
    """
    chosen = implementation(impl, image.device, SEPARABLE, image, vertical, horizontal)
    if chosen == "reference":
        return reference.separable(image, vertical, horizontal)
    work, result = dtypes(image, vertical, horizontal)
    return run(_SEPARABLE[chosen], (), image.to(work), vertical.to(work), horizontal.to(work)).to(result)


def dense(image: Tensor, kernel: Tensor, *, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.convolve.reference.dense`; ``impl`` says who computes it.

    Compiled, taps too small to change a sum (as in :func:`separable`) are not read. 16-bit floats are read as float32.
    """
    if implementation(impl, image.device, AVAILABLE, image, kernel) == "reference":
        return reference.dense(image, kernel)
    work, result = dtypes(image, kernel)
    return run(_DENSE, (), image.to(work), kernel.to(work)).to(result)


def interior(image: Tensor, kernel: Tensor, *, clip: bool = False, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.convolve.reference.interior`; ``impl`` says who computes it."""
    if implementation(impl, image.device) == "reference":
        return reference.interior(image, kernel, clip=clip)
    work, result = dtypes(image, kernel)
    return run(_INTERIOR, (int(clip),), image.to(work), kernel.to(work)).to(result)


def median(image: Tensor, taps: tuple[int, int], gate: Tensor | None = None, *, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.convolve.reference.median`; ``impl`` says who computes it.

    Compiled, of equal numbers that are a median the first has its gradient, from above and from the left.
    """
    if implementation("reference" if impl == "triton" else impl, image.device) == "reference":
        return reference.median(image, taps, gate)
    gate = image.new_ones((1,)) if gate is None else gate
    work, result = dtypes(image, gate)
    return run(_MEDIAN, taps, image.to(work), gate.to(work)).to(result)
