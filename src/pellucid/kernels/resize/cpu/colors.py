"""The colours of a strip after its pixels are known: the stages of a parameter row in order, and their gradients.

Owns: the order of the stages and which buffer holds what.
Must not: read the image.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from pellucid.kernels.jit import fused, noinline
from pellucid.kernels.warp.cpu.hue import hue, hue_backward
from pellucid.kernels.warp.cpu.stages import clip, clip_backward, copy_rows, mix, mix_backward, mix_sums, row_sum
from pellucid.kernels.warp.layout import CLIP, FIRST_MIX, HUE, LAST_MIX, MATRIX, SECOND_MIX

__all__ = ["paint", "paint_backward", "repaint"]


@fused
def _places(flags, channels, out_channels):  # type: ignore[no-untyped-def]
    """Where the stages' numbers lie in a sample's parameters: first matrix (or -1), first offset, hue_shift, second, last mix."""
    matrix, offset = -1, 0
    if flags & MATRIX:
        matrix, offset = 0, out_channels * channels
    hue_shift = offset + 2 * out_channels if flags & FIRST_MIX else 0
    second = hue_shift + 1 if flags & HUE else hue_shift
    last = second + out_channels * out_channels + 2 * out_channels if flags & SECOND_MIX else second
    return matrix, offset, hue_shift, second, last


@fused
def paint(p, flags, channels, out_channels, cover, ones, source, result):  # type: ignore[no-untyped-def]
    """Run the stages on the pixels in ``source`` (in ``result`` where there is no first mix).

    Returns:
        Which of the two holds the colours in the end.
    """
    noinline()
    matrix, offset, hue_shift, second, last = _places(flags, channels, out_channels)
    size = out_channels * out_channels
    if flags & FIRST_MIX:
        mix(p, matrix, offset, offset + out_channels, cover, source, channels, result, out_channels)
    if flags & HUE:
        hue(p[hue_shift], result[0], result[1], result[2])
    for flag, place in ((SECOND_MIX, second), (LAST_MIX, last)):
        if flag == LAST_MIX and flags & CLIP:
            clip(result, out_channels)
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
    """Run the stages but the last mix, and keep what each leaves in ``rows`` (four times ``out_channels`` of them)."""
    noinline()
    matrix, offset, hue_shift, second, _ = _places(flags, channels, out_channels)
    first, hued, mixed, clipped = _kept(flags, out_channels, source, rows)
    if flags & FIRST_MIX:
        mix(p, matrix, offset, offset + out_channels, cover, source, channels, first, out_channels)
    if flags & HUE:
        copy_rows(first, hued, out_channels)
        hue(p[hue_shift], hued[0], hued[1], hued[2])
    if flags & SECOND_MIX:
        bias = second + out_channels * out_channels
        mix(p, second, bias, bias + out_channels, ones, hued, out_channels, mixed, out_channels)
    if flags & CLIP:
        copy_rows(mixed, clipped, out_channels)
        clip(clipped, out_channels)


@fused
def paint_backward(p, flags, channels, out_channels, cover, ones, source, rows, g, spare, along, to_source, sums, needed):  # type: ignore[no-untyped-def]
    """From the gradient g of the colours to that of the pixels; where ``needed``, adds the parameters' gradients to ``sums``.

    Args:
        rows: as :func:`repaint` left them.
        g, spare: as many rows as outputs; both are used up.
        along: a row of scratch.
    """
    noinline()
    matrix, offset, hue_shift, second, last = _places(flags, channels, out_channels)
    size = out_channels * out_channels
    first, hued, mixed, clipped = _kept(flags, out_channels, source, rows)
    if flags & LAST_MIX:
        if needed:
            bias = last + size
            mix_sums(sums, last, bias, bias + out_channels, ones, g, clipped, out_channels, out_channels)
        mix_backward(p, last, g, out_channels, spare, out_channels)
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
        hue_backward(p[hue_shift], first[0], first[1], first[2], g[0], g[1], g[2], along)
        if needed:
            sums[hue_shift] += 6.0 * row_sum(along)
    if flags & FIRST_MIX:
        if needed:
            mix_sums(sums, matrix, offset, offset + out_channels, cover, g, source, channels, out_channels)
        mix_backward(p, matrix, g, out_channels, to_source, channels)
    else:
        copy_rows(g, to_source, channels)
