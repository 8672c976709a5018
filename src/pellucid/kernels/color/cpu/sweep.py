"""The chain of clipped steps, sample by sample, forward and backward.

Owns: each step, as the reference's ``jitter_steps`` has it; their order, and the passes that the contrast's mean makes necessary.
Must not: know of tensors; everything comes as contiguous arrays.
Read next: ``rows.py``.

A strip of pixels goes through all steps in a close cache. The contrast pivots on the mean of its input, so the steps
before it run over the whole sample first; backward likewise, because that mean's gradient goes to every pixel.
"""

import numpy as np

from pellucid.kernels.color.cpu.rows import clip, clip_backward, hue
from pellucid.kernels.jit import entry, exact, fused, summing
from pellucid.kernels.stages.printed.hue import hue_backward
from pellucid.kernels.stages.sums import load, row_sum, store

__all__ = ["BRIGHTNESS", "CONTRAST", "HUE", "SATURATION", "add_to_rows", "backward", "forward", "grey_row", "step", "step_backward"]

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
    """Replace the gradients g of z by those of x, with the pivot held fixed.

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


@fused
def _wanted(order, present, kinds):  # type: ignore[no-untyped-def]
    """Write the steps that take part, in order. Returns their number and the place of the contrast, -1 where there is none."""
    count, pivotal = 0, -1
    for turn in range(4):
        kind = order[turn]
        if 0 <= kind < 4 and (present >> kind) & 1:
            if kind == CONTRAST:
                pivotal = count
            kinds[count] = kind
            count += 1
    return count, pivotal


@fused.noinline
def _run(kinds, first, last, factors, pivot, weights, states, values, grey):  # type: ignore[no-untyped-def]
    """Steps [first, last): states[k] is the input of step k, values[k] its result before the clip."""
    for k in range(first, last):
        step(kinds[k], factors[kinds[k]], pivot, weights, states[k], values[k], grey)
        clip(values[k], states[k + 1], len(weights))


@fused
def _place(first, strip):  # type: ignore[no-untyped-def]
    """Where a strip lies in a sample's planes, as `store` takes it."""
    return np.int64(0), first, len(strip[0]), len(strip[0])


@fused.noinline
def _mean(image, kinds, last, factors, weights, out, keep, floats, length):  # type: ignore[no-untyped-def]
    """The mean luma after the first steps, which are kept in ``out`` if asked."""
    pixels, channels = image.shape[1], len(weights)
    cast = floats.dtype.type
    summed = 0.0
    for first in range(0, pixels, length):
        n = min(length, pixels - first)
        states, values, _, grey, _ = _buffers(floats, channels, n)
        load(image, _place(first, states[0]), states[0], channels)
        _run(kinds, 0, last, factors, cast(0.0), weights, states, values, grey)
        if keep:
            store(states[last], out, _place(first, states[last]), channels)
        grey_row(states[last], weights, grey)
        summed += row_sum(grey)
    return cast(summed / pixels)


@fused
def _buffers(floats, channels, n):  # type: ignore[no-untyped-def]
    """Inputs and unclipped results of four steps, the gradients, and two rows."""
    size = channels * n
    states = floats[: 5 * size].reshape(5, channels, n)
    values = floats[5 * size : 9 * size].reshape(4, channels, n)
    g = floats[9 * size : 10 * size].reshape(channels, n)
    rows = floats[10 * size : 10 * size + 2 * n].reshape(2, n)
    return states, values, g, rows[0], rows[1]


@entry
def forward(images, orders, factors, weights, present, out, length, floats, kinds, start, stop):  # type: ignore[no-untyped-def]
    """Samples [start, stop). images, out: (batch, channels, pixels); orders, factors: (batch or 1, 4)."""
    pixels, channels = images.shape[2], images.shape[1]
    for b in range(start, stop):
        count, pivotal = _wanted(orders[b % len(orders)], present, kinds)
        factor = factors[b % len(factors)]
        done, pivot = 0, floats.dtype.type(0.0)
        if pivotal >= 0:
            pivot = _mean(images[b], kinds, pivotal, factor, weights, out[b], pivotal > 0, floats, length)
            done = pivotal
        for first in range(0, pixels, length):
            states, values, _, grey, _ = _buffers(floats, channels, min(length, pixels - first))
            load(out[b] if done > 0 else images[b], _place(first, states[done]), states[done], channels)
            _run(kinds, done, count, factor, pivot, weights, states, values, grey)
            store(states[count], out[b], _place(first, states[count]), channels)


@fused.noinline
def _back(kinds, first, last, factors, pivot, weights, states, values, g, grey, whole, sums):  # type: ignore[no-untyped-def]
    """The gradients g through steps last - 1 down to first. Returns the gradient of the pivot."""
    to_pivot = 0.0
    for k in range(last - 1, first - 1, -1):
        kind = kinds[k]
        clip_backward(values[k], g, len(weights))
        along, level = step_backward(kind, factors[kind], pivot, weights, states[k], g, grey, whole)
        sums[kind] += along
        if kind == CONTRAST:
            to_pivot += level
    return to_pivot


@fused.noinline
def _sweep_back(image, grad, out, kinds, cut, count, factors, pivot, weights, floats, length, sums):  # type: ignore[no-untyped-def]
    """A sample's gradient, strip by strip through steps count - 1 down to ``cut``. Returns the gradient of the pivot."""
    to_pivot, channels, pixels = 0.0, len(weights), image.shape[1]
    for first in range(0, pixels, length):
        states, values, g, grey, whole = _buffers(floats, channels, min(length, pixels - first))
        load(image, _place(first, states[0]), states[0], channels)
        _run(kinds, 0, count, factors, pivot, weights, states, values, grey)
        load(grad, _place(first, g), g, channels)
        to_pivot += _back(kinds, cut, count, factors, pivot, weights, states, values, g, grey, whole, sums)
        store(g, out, _place(first, g), channels)
    return to_pivot


@entry
def backward(grad, images, orders, factors, weights, present, to_images, sums, length, floats, kinds, shares, start, stop):  # type: ignore[no-untyped-def]
    """Gradients of samples [start, stop), and of their factors: (batch, 4) float64 sums. shares: (channels,) scratch."""
    for b in range(start, stop):
        count, pivotal = _wanted(orders[b % len(orders)], present, kinds)
        factor, into = factors[b % len(factors)], sums[b]
        into[:] = 0.0
        pivot = floats.dtype.type(0.0)
        if pivotal >= 0:
            pivot = _mean(images[b], kinds, pivotal, factor, weights, to_images[b], False, floats, length)
        cut = max(pivotal, 0)
        to_pivot = _sweep_back(images[b], grad[b], to_images[b], kinds, cut, count, factor, pivot, weights, floats, length, into)
        if pivotal < 0:
            continue
        for c in range(len(weights)):
            shares[c] = weights[c] * floats.dtype.type(to_pivot / images.shape[2])
        add_to_rows(to_images[b], shares)
        if cut > 0:
            _sweep_back(images[b], to_images[b], to_images[b], kinds, 0, cut, factor, pivot, weights, floats, length, into)
