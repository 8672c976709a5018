"""Per-sample convolution with small kernels.

Owns: the names `separable`, `separable_of`, `dense`, `interior` and `median`, which pick an implementation.
Must not: know what the kernels are for.
Read next: ``reference.py``.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pellucid.core.constants import compute_dtype
from pellucid.kernels.convolve import cpu, reference, triton
from pellucid.kernels.explicit import AVAILABLE, dtypes, implementation, run
from pellucid.kernels.primitive import Primitive, as_it_is

__all__ = ["AVAILABLE", "SEPARABLE", "dense", "interior", "median", "separable", "separable_of"]

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

    Compiled passes skip taps at a kernel's ends that are too small to change a sum (below 1e-31, in float64 1e-292), so NaN and
    infinity do not spread through them. 16-bit floats are read as float32.
    """
    chosen = implementation(impl, image.device, SEPARABLE, image, vertical, horizontal)
    if chosen == "reference":
        return reference.separable(image, vertical, horizontal)
    return _run(_SEPARABLE[chosen], (), image, vertical, horizontal)


def separable_of(image: Tensor, impl: str) -> Callable[[Any, Any, Any], Any] | None:
    """Return `separable` for planes of floats like these as a function of memory; None if others compute it."""
    known = image.is_contiguous() and image.dtype in (torch.float32, torch.float64) and image.numel() > 0
    return cpu.separable_in_memory(image) if known and implementation(impl, image.device, SEPARABLE, image) == "cpu" else None


def dense(image: Tensor, kernel: Tensor, *, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.convolve.reference.dense`; ``impl`` says who computes it.

    The compiled pass skips taps too small to change a sum (as in :func:`separable`). 16-bit floats are read as float32.
    """
    if implementation(impl, image.device, AVAILABLE, image, kernel) == "reference":
        return reference.dense(image, kernel)
    return _run(_DENSE, (), image, kernel)


def interior(image: Tensor, kernel: Tensor, *, clip: bool = False, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.convolve.reference.interior`; ``impl`` says who computes it."""
    if implementation(impl, image.device) == "reference":
        return reference.interior(image, kernel, clip=clip)
    return _run(_INTERIOR, (int(clip),), image, kernel)


def median(image: Tensor, taps: tuple[int, int], gate: Tensor | None = None, *, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.convolve.reference.median`; ``impl`` says who computes it.

    In the compiled pass, of several equal medians in a window the first, from above and from the left, gets the gradient.
    """
    if implementation("reference" if impl == "triton" else impl, image.device) == "reference":
        return reference.median(image, taps, gate)
    return _run(_MEDIAN, taps, image, image.new_ones((1,), dtype=compute_dtype(image.dtype)) if gate is None else gate)


def _run(primitive: Primitive, static: tuple[Any, ...], image: Tensor, *others: Tensor) -> Tensor:
    """Run the compiled pass. On the CPU it may read bytes, which count as fractions of 255, and rounds what it writes."""
    work, result = dtypes(image, *others)
    read = image if image.dtype == torch.uint8 else image.to(work)
    out = run(primitive, static, read, *(other.to(work) for other in others))
    return out if image.dtype == torch.uint8 else out.to(result)
