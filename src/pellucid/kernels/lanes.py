"""Helpers of Triton kernels and printed stages: broadcast a number over a block, and keep NaN in minima and maxima as torch does.

Owns: `over`, `fused`, `lesser`, `greater`, `raised`.
Must not: be imported where Triton is not.
Read next: ``stages/printed/blocks.py``.
"""

import triton
import triton.language as tl

__all__ = ["fused", "greater", "lesser", "over", "raised"]


@triton.jit
def over(number, block):  # type: ignore[no-untyped-def]
    """One number for all pixels of a block."""
    if isinstance(number, tl.tensor):
        spread = tl.broadcast_to(number.to(block.dtype), block.shape)
    else:
        spread = tl.full(block.shape, number, block.dtype)
    return spread


@triton.jit
def fused(number, block, total):  # type: ignore[no-untyped-def]
    """Number * block + total, rounded once; the number is one for all pixels."""
    return tl.fma(over(number, block), block, total)


@triton.jit
def lesser(a, b):  # type: ignore[no-untyped-def]
    """The minimum; NaN where either is. Without ``PropagateNan`` a GPU takes the other number, while the interpreter gives NaN."""
    return tl.minimum(a, b, tl.PropagateNan.ALL)


@triton.jit
def greater(a, b):  # type: ignore[no-untyped-def]
    """The maximum; NaN where either is."""
    return tl.maximum(a, b, tl.PropagateNan.ALL)


@triton.jit
def raised(x, exponent):  # type: ignore[no-untyped-def]
    """X ** exponent, for x > 0."""
    return tl.exp2(exponent * tl.log2(x))
