"""The colours of a strip after its pixels are known: the stages of a parameter row in order, and their gradients.

Owns: the order of the stages and which buffer holds what.
Must not: read the image.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from pellucid.color.curves import NUMBERS
from pellucid.kernels.jit import fused, noinline
from pellucid.kernels.stages.chain import CLIP, CURVE, FIRST_MIX, HUE, LAST_MIX, MATRIX, SECOND_MIX
from pellucid.kernels.stages.printed.hue import hue_backward
from pellucid.kernels.warp.cpu.hue import hue
from pellucid.kernels.warp.cpu.stages import (
    bend,
    bend_backward,
    clip,
    clip_backward,
    copy_rows,
    mix,
    mix_backward,
    mix_sums,
    row_sum,
)

__all__ = ["paint", "paint_backward", "repaint"]


@fused
def _places(flags, channels, out_channels):  # type: ignore[no-untyped-def]
    """Where the stages' numbers lie in a sample's row: first matrix (or -1), first offset, hue_shift, second mix, curve, last."""
    matrix, offset = -1, 0
    if flags & MATRIX:
        matrix, offset = 0, out_channels * channels
    hue_shift = offset + 2 * out_channels if flags & FIRST_MIX else 0
    second = hue_shift + 1 if flags & HUE else hue_shift
    curve = second + out_channels * out_channels + 2 * out_channels if flags & SECOND_MIX else second
    last = curve + NUMBERS if flags & CURVE else curve
    return matrix, offset, hue_shift, second, curve, last


@fused
def paint(p, flags, bends, channels, out_channels, cover, ones, source, result):  # type: ignore[no-untyped-def]
    """Run the stages on the pixels in ``source`` (in ``result`` where there is no first mix).

    Args:
        bends: None where there is no curve, which is not compiled then.

    Returns:
        Which of the two holds the colours in the end.
    """
    noinline()
    matrix, offset, hue_shift, second, curve, last = _places(flags, channels, out_channels)
    size = out_channels * out_channels
    if flags & FIRST_MIX:
        mix(p, matrix, offset, offset + out_channels, cover, source, channels, result, out_channels)
    if flags & HUE:
        hue(p[hue_shift], result, source)
        source, result = result, source
    for flag, place in ((SECOND_MIX, second), (LAST_MIX, last)):
        if flag == LAST_MIX and flags & CLIP:
            clip(result, source, out_channels)
            source, result = result, source
        if bends is not None and flag == LAST_MIX:
            bend(p, curve, flags, result, source, out_channels)
            source, result = result, source
        if flags & flag:
            bias = place + size
            mix(p, place, bias, bias + out_channels, ones, result, out_channels, source, out_channels)
            source, result = result, source
    return result


@fused
def _kept(flags, out_channels, source, rows):  # type: ignore[no-untyped-def]
    """The buffers after the first mix, the hue, the second mix and the clip; a stage that is not there has its input's."""
    first = rows[:out_channels] if flags & FIRST_MIX else source
    hued = rows[out_channels : 2 * out_channels] if flags & HUE else first
    second = rows[2 * out_channels : 3 * out_channels] if flags & SECOND_MIX else hued
    clipped = rows[3 * out_channels : 4 * out_channels] if flags & CLIP else second
    return first, hued, second, clipped


@fused
def repaint(p, flags, channels, out_channels, cover, ones, source, rows):  # type: ignore[no-untyped-def]
    """Run the stages up to the first clip, and keep what each leaves in ``rows`` (four times ``out_channels`` of them)."""
    noinline()
    matrix, offset, hue_shift, second, _, _ = _places(flags, channels, out_channels)
    first, hued, mixed, clipped = _kept(flags, out_channels, source, rows)
    if flags & FIRST_MIX:
        mix(p, matrix, offset, offset + out_channels, cover, source, channels, first, out_channels)
    if flags & HUE:
        hue(p[hue_shift], first, hued)
    if flags & SECOND_MIX:
        bias = second + out_channels * out_channels
        mix(p, second, bias, bias + out_channels, ones, hued, out_channels, mixed, out_channels)
    if flags & CLIP:
        clip(mixed, clipped, out_channels)


@fused
def paint_backward(  # type: ignore[no-untyped-def]
    p, flags, bends, channels, out_channels, cover, ones, source, rows, g, spare, along, to_source, sums, needed
):
    """From the gradient g of the colours to that of the pixels; where ``needed``, adds the parameters' gradients to ``sums``.

    Args:
        bends: None where there is no curve.
        rows: as :func:`repaint` left them; where there is a curve, further ``out_channels`` and four of scratch.
        g, spare: as many rows as outputs; both are used up.
        along: a row of scratch.
    """
    noinline()
    matrix, offset, hue_shift, second, curve, last = _places(flags, channels, out_channels)
    size = out_channels * out_channels
    first, hued, mixed, clipped = _kept(flags, out_channels, source, rows)
    if flags & LAST_MIX:
        if needed:
            bias = last + size
            before = clipped if bends is None else rows[4 * out_channels : 5 * out_channels]
            if bends is not None:
                bend(p, curve, flags, clipped, before, out_channels)
            mix_sums(sums, last, bias, bias + out_channels, ones, g, before, out_channels, out_channels)
        mix_backward(p, last, g, out_channels, spare, out_channels)
        g, spare = spare, g
    if bends is not None:
        bend_backward(p, curve, flags, clipped, g, spare, rows[5 * out_channels :], sums, needed)
        g, spare = spare, g
    if flags & CLIP:
        clip_backward(mixed, g, out_channels)
    if flags & SECOND_MIX:
        if needed:
            bias = second + size
            mix_sums(sums, second, bias, bias + out_channels, ones, g, hued, out_channels, out_channels)
        mix_backward(p, second, g, out_channels, spare, out_channels)
        g, spare = spare, g
    if flags & HUE:
        hue_backward(p[hue_shift], first, g, (along,))
        if needed:
            sums[hue_shift] += row_sum(along)
    if flags & FIRST_MIX:
        if needed:
            mix_sums(sums, matrix, offset, offset + out_channels, cover, g, source, channels, out_channels)
        mix_backward(p, matrix, g, out_channels, to_source, channels)
    else:
        copy_rows(g, to_source, channels)
