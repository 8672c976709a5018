"""A strip of numbers under a curve of a value alone, forward and backward: by itself, or as a stage of a pass.

Owns: `bent`, `bent_backward`.
Must not: read off a channel what its curve is.
Read next: ``rows.py``.
"""

import numpy as np

from pellucid.kernels.curve.cpu import rows
from pellucid.kernels.curve.cpu.powers import parts_of_power, slope_through_power
from pellucid.kernels.curve.layout import AMOUNT, GAIN, GATE, POWER
from pellucid.kernels.jit import fused
from pellucid.kernels.stages.sums import copy, dot, row_sum

__all__ = ["bent", "bent_backward"]


@fused.noinline
def bent(kind, clip, scale, own, x, y):  # type: ignore[no-untyped-def]
    """Y = the curve of x, by a sample's ``own`` numbers; a power may be clipped to [0, 1]."""
    cast = type(scale)
    if kind == POWER:
        parts_of_power(x, own[AMOUNT], own[GAIN], clip != 0, y, x[:0])
    elif own[GATE] == cast(0.0):
        copy(x, y)
    else:
        rows.curved(kind, x, own[AMOUNT], cast(0.0), scale, y)
        if own[GATE] != cast(1.0):
            rows.mixed(own[GATE], x, y)


@fused.noinline
def bent_backward(options, scale, reach, own, x, g, target, scratch, along, wanted):  # type: ignore[no-untyped-def]
    """The gradient of x from that of the curve, in ``target``; where ``wanted``, adds those of the numbers to ``along``.

    Args:
        options: kind, slope, magnitude, whether to clip.
        reach: of the secant.
        scratch: four rows, at least as long as x.
    """
    kind, slope, magnitude, clip = options
    cast, n = type(scale), len(x)
    y, other, slopes, inside = scratch[0][:n], scratch[1][:n], scratch[2][:n], scratch[3][:n]
    if kind == POWER:
        exponent, gain = own[AMOUNT], own[GAIN]
        parts_of_power(x, exponent, cast(1.0), False, y, other if wanted else other[:0])  # and log x
        slope_through_power(clip != 0, exponent, gain, x, y, g, inside if wanted else inside[:0], target)
        if wanted:
            along[AMOUNT] += rows.sum_of_three(inside, y, other) * gain
            along[GAIN] += dot(inside, y)
        return
    gate, zero = own[GATE], cast(0.0)
    rows.slope_of(kind, slope, x, own[AMOUNT], scale, slopes)
    rows.mixed_slope(gate, g, slopes, target)
    if not wanted:
        return
    rows.curved(kind, x, own[AMOUNT], zero, scale, y)
    along[GATE] += rows.sum_of_differences(g, y, x)
    if magnitude == 1:
        along[AMOUNT] += np.float64(row_sum(g)) * gate
    elif magnitude == 2:
        rows.curved(kind, x, own[AMOUNT] + reach, zero, scale, y)
        rows.curved(kind, x, own[AMOUNT] - reach, zero, scale, other)
        along[AMOUNT] += rows.sum_of_differences(g, y, other) / (2.0 * reach) * gate
