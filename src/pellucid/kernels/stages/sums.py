"""Sums over rows of pixels, and strips copied out of planes and back.

Owns: one of each for all kernels of the CPU.
Must not: be imported by anything that ``import pellucid`` imports.
Read next: ``../color/cpu/rows.py``.
"""

from pellucid.kernels.jit import fused, summing

__all__ = ["add_rows", "copy", "copy_rows", "dot", "load", "mask_row", "row_sum", "store"]


@summing.wide
def row_sum(x):  # type: ignore[no-untyped-def]
    """Sum over a row."""
    total = x.dtype.type(0.0)
    for u in range(len(x)):
        total += x[u]
    return total


@summing.wide
def dot(x, y):  # type: ignore[no-untyped-def]
    """Sum of products over a row."""
    total = x.dtype.type(0.0)
    for u in range(len(x)):
        total += x[u] * y[u]
    return total


@fused
def mask_row(x, g):  # type: ignore[no-untyped-def]
    """Zero the gradient where a number was clipped to [0, 1]; the ends count as inside, as in ``torch.clamp``."""
    zero, one = g.dtype.type(0.0), g.dtype.type(1.0)
    for u in range(len(g)):
        a, z = x[u], g[u]  # read in any case, or nothing is vectorised
        g[u] = z if (a >= zero) & (a <= one) else zero


@fused
def copy(x, y):  # type: ignore[no-untyped-def]
    """Copy a row."""
    for u in range(len(x)):
        y[u] = x[u]


@fused
def copy_rows(source, target, rows):  # type: ignore[no-untyped-def]
    """Copy a row set."""
    for o in range(rows):
        copy(source[o], target[o])


@fused.noinline
def add_rows(source, target):  # type: ignore[no-untyped-def]
    """Add a row set to another."""
    for o in range(len(target)):
        x, y = source[o], target[o]
        for u in range(len(y)):
            y[u] += x[u]


@fused.noinline
def store(source, target, place, rows):  # type: ignore[no-untyped-def]
    """Copy a strip, rows of ``width`` pixels, to its ``place``: (first plane, first pixel there, width, from line to line)."""
    first, at, width, step = place
    for o in range(rows):
        lines = len(source[o]) // width
        for k in range(1 if width == step else lines):
            x, y = source[o][k * width :], target[first + o][at + k * step :]
            for u in range(lines * width if width == step else width):
                y[u] = x[u]


@fused.noinline
def load(source, place, target, rows):  # type: ignore[no-untyped-def]
    """Copy a strip from a place, as `store` takes it."""
    first, at, width, step = place
    for o in range(rows):
        lines = len(target[o]) // width
        for k in range(1 if width == step else lines):
            x, y = source[first + o][at + k * step :], target[o][k * width :]
            for u in range(lines * width if width == step else width):
                y[u] = x[u]
