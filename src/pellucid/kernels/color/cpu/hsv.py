"""Hue, saturation and value changed by addition, strip by strip, forward and backward.

Owns: the arithmetic of ``color.hsv.shift_hsv`` with the same choices at grey, at black and at ties, and its gate.
Must not: know of tensors; everything comes as contiguous arrays.
Read next: ``../shift.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.color.hsv import FAINT
from pellucid.kernels.color.cpu.steps import total
from pellucid.kernels.jit import entry, fused, noinline, without_refcount

__all__ = ["hsv", "hsv_backward"]


@fused
def _unit(x):  # type: ignore[no-untyped-def]
    """Clipped to [0, 1]; what is no number stays so."""
    one, zero = type(x)(1.0), type(x)(0.0)
    return one if x > one else (zero if x < zero else x)


@fused
def _strip(image, first, length):  # type: ignore[no-untyped-def]
    """The channels of a strip, each known to be contiguous."""
    last = min(first + length, image.shape[1])
    return image[0, first:last], image[1, first:last], image[2, first:last]


@fused
def _shift(hue, saturation, value, image, out):  # type: ignore[no-untyped-def]
    noinline()
    (red, green, blue), (to_red, to_green, to_blue) = image, out
    cast = red.dtype.type
    zero, one, two, three, four, six = cast(0.0), cast(1.0), cast(2.0), cast(3.0), cast(4.0), cast(6.0)
    sixth, faint, none, shift = cast(1.0 / 6.0), cast(FAINT), cast(np.nan), six * hue
    for u in range(len(red)):
        r, g, b = red[u], green[u], blue[u]
        bright = none if (r != r) | (g != g) | (b != b) else max(max(r, g), b)
        chroma = bright - min(min(r, g), b)
        flat = chroma < faint
        grey = flat | (bright < faint)
        is_red, is_green = bright == r, bright == g
        start = zero if is_red else (two if is_green else four)
        ahead, behind = (g if is_red else (b if is_green else r)), (b if is_red else (r if is_green else g))
        h = (zero if flat else start + (ahead - behind) * (one / (one if flat else chroma))) + shift
        h -= six * np.floor(h * sixth)  # in [0, 6]: how much of the chroma each channel lacks is a trapezium of it
        level = _unit(bright + value)
        left = _unit((zero if grey else chroma) / (one if grey else bright) + (zero if grey else saturation)) * level
        to_red[u] = level - left * _unit(two - abs(h - three))
        to_green[u] = level - left * _unit(abs(h - two) - one)
        to_blue[u] = level - left * _unit(abs(h - four) - one)


@fused
def _shift_backward(hue, saturation, value, gate, image, grad, into, along):  # type: ignore[no-untyped-def]
    """The gradients of the image, and by pixel those of 6 * hue, saturation, value and gate."""
    noinline()
    (red, green, blue), (g0, g1, g2), (to0, to1, to2) = image, grad, into
    along_hue, along_saturation, along_value, along_gate = along
    cast = red.dtype.type
    zero, one, two, three, four, six = cast(0.0), cast(1.0), cast(2.0), cast(3.0), cast(4.0), cast(6.0)
    sixth, faint, none, shift = cast(1.0 / 6.0), cast(FAINT), cast(np.nan), six * hue
    for u in range(len(red)):
        r, g, b = red[u], green[u], blue[u]
        bright = none if (r != r) | (g != g) | (b != b) else max(max(r, g), b)
        low = min(min(r, g), b)
        chroma = bright - low
        flat = chroma < faint
        grey = flat | (bright < faint)
        is_red, is_green = bright == r, bright == g
        start = zero if is_red else (two if is_green else four)
        ahead, behind = (g if is_red else (b if is_green else r)), (b if is_red else (r if is_green else g))
        scale = one / (one if flat else chroma)
        offset = (ahead - behind) * scale
        h = (zero if flat else start + offset) + shift
        k0, k1, k2 = h + cast(5.0), h + three, h + one
        k0 -= six * np.floor(k0 * sixth)
        k1 -= six * np.floor(k1 * sixth)
        k2 -= six * np.floor(k2 * sixth)
        taken0, taken1, taken2 = min(k0, four - k0), min(k1, four - k1), min(k2, four - k2)
        s0 = (one if k0 < two else -one) if (taken0 >= zero) & (taken0 <= one) else zero
        s1 = (one if k1 < two else -one) if (taken1 >= zero) & (taken1 <= one) else zero
        s2 = (one if k2 < two else -one) if (taken2 >= zero) & (taken2 <= one) else zero
        taken0, taken1, taken2 = _unit(taken0), _unit(taken1), _unit(taken2)
        inverse = one / (one if grey else bright)
        own = (zero if grey else chroma) * inverse
        wanted, lit = own + (zero if grey else saturation), bright + value
        share, level = _unit(wanted), _unit(lit)
        left = share * level
        a0, a1, a2 = g0[u], g1[u], g2[u]
        along_gate[u] = a0 * (level - left * taken0 - r) + a1 * (level - left * taken1 - g) + a2 * (level - left * taken2 - b)
        p0, p1, p2 = gate * a0, gate * a1, gate * a2
        to_hue = -left * (p0 * s0 + p1 * s1 + p2 * s2)
        to_left = -(p0 * taken0 + p1 * taken1 + p2 * taken2)
        to_share = to_left * level if (wanted >= zero) & (wanted <= one) & (not grey) else zero
        to_level = p0 + p1 + p2 + to_left * share if (lit >= zero) & (lit <= one) else zero
        along_hue[u], along_saturation[u], along_value[u] = to_hue, to_share, to_level
        to_offset = zero if flat else to_hue * scale
        to_chroma = to_share * inverse - to_offset * offset
        # A tie shares the gradient of the largest (smallest) channel evenly, as torch's amax and amin do.
        to_bright = to_level - to_share * own * inverse + to_chroma
        top0, top1, top2 = (one if r == bright else zero), (one if is_green else zero), (one if b == bright else zero)
        end0, end1, end2 = (one if r == low else zero), (one if g == low else zero), (one if b == low else zero)
        to_bright /= max(top0 + top1 + top2, one)
        to_low = -to_chroma / max(end0 + end1 + end2, one)
        # The channel after the largest (in the order red, green, blue, red) raises the hue, the one before lowers it.
        is_blue, rest = (not is_red) & (not is_green), one - gate
        to0[u] = to_bright * top0 + to_low * end0 + (zero if is_red else (-to_offset if is_green else to_offset)) + rest * a0
        to1[u] = to_bright * top1 + to_low * end1 + (to_offset if is_red else (-to_offset if is_blue else zero)) + rest * a1
        to2[u] = to_bright * top2 + to_low * end2 + (-to_offset if is_red else (to_offset if is_green else zero)) + rest * a2


@fused
def _mix(gate, x, y):  # type: ignore[no-untyped-def]
    rest = type(gate)(1.0) - gate
    for u in range(len(x)):
        y[u] = gate * y[u] + rest * x[u]


@entry
def hsv(images, numbers, length, out, start, stop):  # type: ignore[no-untyped-def]
    """Strips of ``length`` pixels; strip s belongs to sample s // (strips per sample).

    Args:
        images, out: (batch, 3, pixels).
        numbers: (batch or 1, 3 or 4): added to hue, saturation and value; and the gate, where there is one.
    """
    images, numbers, out = without_refcount((images, numbers, out))
    pixels = images.shape[2]
    strips = (pixels + length - 1) // length
    for s in range(start, stop):
        i = s // strips
        first, row = (s - i * strips) * length, numbers[i % len(numbers)]
        x, y = _strip(images[i], first, length), _strip(out[i], first, length)
        _shift(row[0], row[1], row[2], x, y)
        if len(row) == 4:
            for c in range(3):
                _mix(row[3], x[c], y[c])


@entry
def hsv_backward(grad, images, numbers, length, into, sums, scratch, start, stop):  # type: ignore[no-untyped-def]
    """Gradients of strips, and of their numbers: (strips, 4) float64. scratch: (4, length)."""
    grad, images, numbers, into, sums, scratch = without_refcount((grad, images, numbers, into, sums, scratch))
    pixels = images.shape[2]
    strips = (pixels + length - 1) // length
    for s in range(start, stop):
        i = s // strips
        first, row = (s - i * strips) * length, numbers[i % len(numbers)]
        g, x, y = _strip(grad[i], first, length), _strip(images[i], first, length), _strip(into[i], first, length)
        n = len(x[0])
        gate = row[3] if len(row) == 4 else images.dtype.type(1.0)
        along = scratch[0, :n], scratch[1, :n], scratch[2, :n], scratch[3, :n]
        _shift_backward(row[0], row[1], row[2], gate, x, g, y, along)
        for k in range(4):
            sums[s, k] = total(scratch[k, :n])
        sums[s, 0] *= 6.0
