"""The hue rotation on a strip of pixels, forward and backward, without a branch per pixel.

Owns: the arithmetic of ``color.hsv.shift_hue`` with the same choices at grey and at ties.
Must not: clip.
Read next: ``sweep.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.color.hsv import FAINT
from pellucid.kernels.jit import fused, noinline, wide

__all__ = ["hue", "hue_backward"]


@fused
def hue(hue_shift, source, target):  # type: ignore[no-untyped-def]
    """Rotate the hue of three rows."""
    noinline()
    wide()
    cast = source.dtype.type
    red, green, blue = source[0], source[1], source[2]
    to_red, to_green, to_blue = target[0], target[1], target[2]
    zero, one, two, three, four, six = cast(0.0), cast(1.0), cast(2.0), cast(3.0), cast(4.0), cast(6.0)
    sixth, faint = cast(1.0 / 6.0), cast(FAINT)
    shift = six * hue_shift
    for u in range(len(red)):
        r, g, b = red[u], green[u], blue[u]
        value = max(max(r, g), b)
        chroma = value - min(min(r, g), b)
        grey = chroma < faint
        is_red, is_green = value == r, value == g
        start = zero if is_red else (two if is_green else four)
        ahead, behind = (g if is_red else (b if is_green else r)), (b if is_red else (r if is_green else g))
        h = (zero if grey else start + (ahead - behind) * (one / (one if grey else chroma))) + shift
        h -= six * np.floor(h * sixth)  # in [0, 6]: how much of the chroma each channel lacks is a trapezium of it
        to_red[u] = value - chroma * max(min(two - abs(h - three), one), zero)
        to_green[u] = value - chroma * max(min(abs(h - two) - one, one), zero)
        to_blue[u] = value - chroma * max(min(abs(h - four) - one, one), zero)


@fused
def hue_backward(hue_shift, red, green, blue, g0, g1, g2, along):  # type: ignore[no-untyped-def]
    """Replace the gradients g of the result by those of its input (red, green, blue), and write that of 6 * hue_shift."""
    noinline()
    wide()
    cast = red.dtype.type
    zero, one, two, three, four, six = cast(0.0), cast(1.0), cast(2.0), cast(3.0), cast(4.0), cast(6.0)
    half, third, sixth, faint = cast(0.5), cast(1.0 / 3.0), cast(1.0 / 6.0), cast(FAINT)
    shift = six * hue_shift
    for u in range(len(red)):
        r, g, b = red[u], green[u], blue[u]
        value, low = max(max(r, g), b), min(min(r, g), b)
        chroma = value - low
        grey = chroma < faint
        scale = one / (one if grey else chroma)
        is_red, is_green = value == r, value == g
        start = zero if is_red else (two if is_green else four)
        ahead, behind = (g if is_red else (b if is_green else r)), (b if is_red else (r if is_green else g))
        offset = (ahead - behind) * scale
        h = (zero if grey else start + offset) + shift
        h -= six * np.floor(h * sixth)
        again = h + six if h < one else h  # on red, blue has the slope from below
        taken0, taken1, taken2 = two - abs(h - three), abs(h - two) - one, abs(again - four) - one
        s0 = (one if h < three else -one) if (taken0 >= zero) & (taken0 <= one) else zero
        s1 = (one if h > two else -one) if (taken1 >= zero) & (taken1 <= one) else zero
        s2 = (one if again > four else -one) if (taken2 >= zero) & (taken2 <= one) else zero
        a0, a1, a2 = g0[u], g1[u], g2[u]
        to_hue = -chroma * (a0 * s0 + a1 * s1 + a2 * s2)
        to_chroma = -(a0 * max(min(taken0, one), zero) + a1 * max(min(taken1, one), zero) + a2 * max(min(taken2, one), zero))
        along[u] = to_hue
        to_offset = zero if grey else to_hue * scale
        to_chroma -= to_offset * offset
        # A tie shares the gradient of the largest (smallest) channel evenly, as torch's amax and amin do.
        to_value = a0 + a1 + a2 + to_chroma
        top0, top1, top2 = (one if r == value else zero), (one if is_green else zero), (one if b == value else zero)
        end0, end1, end2 = (one if r == low else zero), (one if g == low else zero), (one if b == low else zero)
        tops, ends = top0 + top1 + top2, end0 + end1 + end2
        to_value *= one if tops < two else (half if tops < three else third)
        to_low = -to_chroma * (one if ends < two else (half if ends < three else third))
        # The channel after the largest (in the order red, green, blue, red) raises the hue, the one before lowers it.
        third_is_blue = (not is_red) & (not is_green)
        g0[u] = to_value * top0 + to_low * end0 + (zero if is_red else (-to_offset if is_green else to_offset))
        g1[u] = to_value * top1 + to_low * end1 + (to_offset if is_red else (-to_offset if third_is_blue else zero))
        g2[u] = to_value * top2 + to_low * end2 + (-to_offset if is_red else (to_offset if is_green else zero))
