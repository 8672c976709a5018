"""One clipped colour step on a strip of pixels, forward and backward.

Owns: brightness, contrast, saturation and hue as the reference's ``jitter_steps`` computes them, but for the clip.
Must not: loop over an image, or know the order of steps.
Read next: ``sweep.py``.
"""

from pellucid.kernels.color.cpu.rows import hue
from pellucid.kernels.jit import exact, fused, summing
from pellucid.kernels.stages.printed.hue import hue_backward
from pellucid.kernels.stages.sums import row_sum

__all__ = [
    *("BRIGHTNESS", "CONTRAST", "HUE", "SATURATION", "add_to_rows", "grey_row", "step", "step_backward"),
]

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


@exact.noinline
def grey_row(x, weights, out):  # type: ignore[no-untyped-def]
    """The luma of every pixel."""
    row, weight = x[0], weights[0]
    for u in range(len(out)):
        out[u] = weight * row[u]
    for c in range(1, len(weights)):
        row, weight = x[c], weights[c]
        for u in range(len(out)):
            out[u] += weight * row[u]


@exact
def _mixed(x, factor, shift, out):  # type: ignore[no-untyped-def]
    for u in range(len(out)):
        out[u] = factor * x[u] + shift


@exact
def _blended(x, factor, grey, out):  # type: ignore[no-untyped-def]
    rest = type(factor)(1.0) - factor
    for u in range(len(out)):
        out[u] = factor * x[u] + rest * grey[u]


@exact.noinline
def step(kind, factor, pivot, weights, x, z, grey):  # type: ignore[no-untyped-def]
    """Compute the step's unclipped result z from x, (channels, n) each; ``grey`` is scratch."""
    one = type(factor)(1.0)
    if kind == HUE:
        hue(factor, x, z)
        return
    if kind == SATURATION:
        grey_row(x, weights, grey)
    for c in range(len(weights)):
        if kind == SATURATION:
            _blended(x[c], factor, grey, z[c])
        else:
            _mixed(x[c], factor, (one - factor) * pivot if kind == CONTRAST else type(factor)(0.0), z[c])


@summing
def _products(g, x, level):  # type: ignore[no-untyped-def]
    """Sum of g * (x - level), and of g."""
    product = alone = x.dtype.type(0.0)
    for u in range(len(x)):
        product += g[u] * (x[u] - level)
        alone += g[u]
    return product, alone


@summing
def _products_with_row(g, x, level):  # type: ignore[no-untyped-def]
    product = x.dtype.type(0.0)
    for u in range(len(x)):
        product += g[u] * (x[u] - level[u])
    return product


@fused
def _scale(g, factor):  # type: ignore[no-untyped-def]
    for u in range(len(g)):
        g[u] *= factor


@fused
def _spread(g, factor, share, whole):  # type: ignore[no-untyped-def]
    for u in range(len(g)):
        g[u] = factor * g[u] + share * whole[u]


@fused.noinline
def step_backward(kind, factor, pivot, weights, x, g, grey, whole):  # type: ignore[no-untyped-def]
    """Replace the gradients g of z by those of x, the pivot held.

    Returns:
        The gradients of the factor and of the pivot.
    """
    cast = type(factor)
    along, to_pivot, rest = 0.0, 0.0, cast(1.0) - factor
    if kind == HUE:
        hue_backward(factor, x, g, (whole,))
        return float(row_sum(whole)), 0.0
    if kind == SATURATION:
        grey_row(x, weights, grey)
        whole[:] = cast(0.0)
        for c in range(len(weights)):
            along += _products_with_row(g[c], x[c], grey)
            row = g[c]
            for u in range(len(whole)):
                whole[u] += row[u]
        for c in range(len(weights)):
            _spread(g[c], factor, weights[c] * rest, whole)
        return along, 0.0
    for c in range(len(weights)):
        product, alone = _products(g[c], x[c], pivot if kind == CONTRAST else cast(0.0))
        along += product
        to_pivot += alone
        _scale(g[c], factor)
    return along, to_pivot * float(rest)


@fused.noinline
def add_to_rows(image, shares):  # type: ignore[no-untyped-def]
    """Add a number to each plane."""
    for c in range(len(shares)):
        row, share = image[c], shares[c]
        for u in range(len(row)):
            row[u] += share
