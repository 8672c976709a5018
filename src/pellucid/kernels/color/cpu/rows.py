"""The stages of a chain on rows of pixels, forward and backward: channel mixes, the hue, the clip, the curve.

Owns: each stage, one row of pixels per channel, written so that the compiler vectorises over pixels.
Must not: read an image, or know which stage follows which.
Read next: ``paint.py``.
"""

import numpy as np

from pellucid.color.hsv import FAINT
from pellucid.kernels.curve.cpu.rows import bent, bent_backward
from pellucid.kernels.curve.layout import REACH
from pellucid.kernels.jit import fused, summing
from pellucid.kernels.stages.sums import copy_rows, dot, mask_row, row_sum

__all__ = ["bend", "bend_backward", "clip", "clip_backward", "finish", "hue", "mix", "mix_backward", "mix_sums", "mix_whole"]


@fused.wide
def _mix3(p, at, bias, fill, cover, x0, x1, x2, y0, y1, y2):  # type: ignore[no-untyped-def]
    m00, m01, m02, m10, m11, m12, m20, m21, m22 = p[at : at + 9]
    b0, b1, b2 = p[bias : bias + 3]
    f0, f1, f2 = p[fill : fill + 3]
    one = p.dtype.type(1.0)
    for u in range(len(x0)):
        a, b, c, k = x0[u], x1[u], x2[u], cover[u]
        rest = one - k
        y0[u] = m00 * a + m01 * b + m02 * c + b0 * k + f0 * rest
        y1[u] = m10 * a + m11 * b + m12 * c + b1 * k + f1 * rest
        y2[u] = m20 * a + m21 * b + m22 * c + b2 * k + f2 * rest


@fused.noinline.wide
def mix_whole(p, at, bias, unit, x0, x1, x2, target):  # type: ignore[no-untyped-def]
    """Target = matrix @ pixel + offset for three outputs of three channels, straight from the image."""
    m00, m01, m02, m10, m11, m12, m20, m21, m22 = p[at : at + 9]
    b0, b1, b2 = p[bias : bias + 3]
    y0, y1, y2 = target[0], target[1], target[2]
    cast = p.dtype.type
    for u in range(len(x0)):
        a, b, c = cast(x0[u]) * unit, cast(x1[u]) * unit, cast(x2[u]) * unit
        y0[u] = m00 * a + m01 * b + m02 * c + b0
        y1[u] = m10 * a + m11 * b + m12 * c + b1
        y2[u] = m20 * a + m21 * b + m22 * c + b2


@fused.noinline.wide
def mix(p, at, bias, fill, cover, source, count, target, rows):  # type: ignore[no-untyped-def]
    """Target = matrix @ source + offset * cover + fill * (1 - cover), for ``rows`` outputs of ``count`` inputs.

    Where ``at`` is negative the matrix is the identity; ``bias`` and ``fill`` index the parameters p too.
    """
    if at >= 0 and rows == 3 and count == 3:
        _mix3(p, at, bias, fill, cover, source[0], source[1], source[2], target[0], target[1], target[2])
        return
    one = p.dtype.type(1.0)
    for o in range(rows):
        row = target[o]
        b, f = p[bias + o], p[fill + o]
        if at < 0:
            x = source[o]
            for u in range(len(row)):
                row[u] = x[u] + b * cover[u] + f * (one - cover[u])
            continue
        x, weight = source[0], p[at + o * count]
        for u in range(len(row)):
            row[u] = weight * x[u]
        for c in range(1, count):
            x, weight = source[c], p[at + o * count + c]
            for u in range(len(row)):
                row[u] += weight * x[u]
        for u in range(len(row)):
            row[u] += b * cover[u] + f * (one - cover[u])


@summing.wide
def _sums4(g, x0, x1, x2, cover):  # type: ignore[no-untyped-def]
    zero = g.dtype.type(0.0)
    s0 = s1 = s2 = covered = whole = zero
    for u in range(len(g)):
        s0 += g[u] * x0[u]
        s1 += g[u] * x1[u]
        s2 += g[u] * x2[u]
        covered += g[u] * cover[u]
        whole += g[u]
    return s0, s1, s2, covered, whole


@fused.noinline.wide
def mix_sums(sums, at, bias, fill, cover, g, source, count, rows):  # type: ignore[no-untyped-def]
    """Add this row's gradients of matrix, offset and fill to the float64 sums. ``source`` is the stage's input."""
    for o in range(rows):
        if count == 3 and at >= 0:
            s0, s1, s2, covered, whole = _sums4(g[o], source[0], source[1], source[2], cover)
            sums[at + 3 * o] += s0
            sums[at + 3 * o + 1] += s1
            sums[at + 3 * o + 2] += s2
        else:
            covered, whole = dot(g[o], cover), row_sum(g[o])
            if at >= 0:
                for c in range(count):
                    sums[at + o * count + c] += dot(g[o], source[c])
        sums[bias + o] += covered
        sums[fill + o] += whole - covered


@fused.wide
def _mix3_backward(p, at, x0, x1, x2, y0, y1, y2):  # type: ignore[no-untyped-def]
    m00, m01, m02, m10, m11, m12, m20, m21, m22 = p[at : at + 9]
    for u in range(len(x0)):
        a, b, c = x0[u], x1[u], x2[u]
        y0[u] = m00 * a + m10 * b + m20 * c
        y1[u] = m01 * a + m11 * b + m21 * c
        y2[u] = m02 * a + m12 * b + m22 * c


@fused.noinline.wide
def mix_backward(p, at, g, rows, target, count):  # type: ignore[no-untyped-def]
    """Target = matrix^T @ g: the gradient of the stage's input."""
    if at < 0:
        copy_rows(g, target, rows)
        return
    if rows == 3 and count == 3:
        _mix3_backward(p, at, g[0], g[1], g[2], target[0], target[1], target[2])
        return
    for c in range(count):
        row = target[c]
        row[:] = p.dtype.type(0.0)
        for o in range(rows):
            x, weight = g[o], p[at + o * count + c]
            for u in range(len(row)):
                row[u] += weight * x[u]


@fused
def _held(z, low, high):  # type: ignore[no-untyped-def]
    """A number clipped to an interval; NaN stays."""
    z = low if z < low else z
    return high if z > high else z


@fused.noinline.wide
def clip(source, target, rows):  # type: ignore[no-untyped-def]
    """Clip to [0, 1]; NaN stays."""
    zero, one = target.dtype.type(0.0), target.dtype.type(1.0)
    for o in range(rows):
        x, y = source[o], target[o]
        for u in range(len(x)):
            y[u] = _held(x[u], zero, one)


@fused.wide
def _finish3(p, at, bias, low, high, x0, x1, x2, y0, y1, y2):  # type: ignore[no-untyped-def]
    m00, m01, m02, m10, m11, m12, m20, m21, m22 = p[at : at + 9]
    b0, b1, b2 = p[bias : bias + 3]
    for u in range(len(x0)):
        a, b, c = _held(x0[u], low, high), _held(x1[u], low, high), _held(x2[u], low, high)
        y0[u] = m00 * a + m01 * b + m02 * c + b0
        y1[u] = m10 * a + m11 * b + m12 * c + b1
        y2[u] = m20 * a + m21 * b + m22 * c + b2


@fused.noinline.wide
def finish(p, at, bias, clipped, source, target, place):  # type: ignore[no-untyped-def]
    """Write matrix @ colour + offset of three rows to their place in the output; ``clipped``: the colours are clipped first."""
    first, start, width, step = place
    cast = source.dtype.type
    low, high = (cast(0.0), cast(1.0)) if clipped else (-cast(np.inf), cast(np.inf))
    x0, x1, x2 = source[0], source[1], source[2]
    y0, y1, y2 = target[first], target[first + 1], target[first + 2]
    n = len(x0)
    piece = n if width == step else width
    for k in range(n // piece):
        i, j = k * piece, start + k * step
        _finish3(
            p, at, bias, low, high, x0[i : i + piece], x1[i : i + piece], x2[i : i + piece],
            y0[j : j + piece], y1[j : j + piece], y2[j : j + piece],
        )  # fmt: skip


@fused.noinline.wide
def hue(hue_shift, source, target):  # type: ignore[no-untyped-def]
    """Rotate the hue of three rows, without a branch per pixel: the value of ``color.hsv.shift_hue``.

    The printed stage computes two things more, which the gradient needs: whether a channel is NaN, and blue's slope on
    red itself. They make a kernel of 46 instructions slower by 17 percent.
    """
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
        h = (zero if grey else start) + (ahead - behind) * (one / (one if grey else chroma)) + shift
        h -= six * np.floor(h * sixth)  # in [0, 6]: how much of the chroma each channel lacks is a trapezium of it
        to_red[u] = value - chroma * max(min(two - abs(h - three), one), zero)
        to_green[u] = value - chroma * max(min(abs(h - two) - one, one), zero)
        to_blue[u] = value - chroma * max(min(abs(h - four) - one, one), zero)


@fused.wide
def clip_backward(source, g, rows):  # type: ignore[no-untyped-def]
    """The gradient of a clip to [0, 1], by the clip's input."""
    for o in range(rows):
        mask_row(source[o], g[o])


@fused
def _options(how, dtype):  # type: ignore[no-untyped-def]
    """Decode a curve's step: (kind, slope, magnitude, whether to clip), and the scale."""
    code = how >> 1
    scale = dtype.type(255.0 if code >> 6 & 1 else 1.0)
    return (code & 3, code >> 2 & 3, code >> 4 & 3, how & 1), scale


@fused.noinline
def bend(p, at, how, source, target, rows):  # type: ignore[no-untyped-def]
    """Target = the curve of the source, clipped if its step says so; its numbers begin at ``at``."""
    (kind, _, _, clip), scale = _options(how, p.dtype)
    for o in range(rows):
        bent(kind, clip, scale, p[at:], source[o], target[o])


@fused.noinline
def bend_backward(p, at, how, source, g, target, scratch, sums, needed):  # type: ignore[no-untyped-def]
    """Write the gradient of the source to ``target``; if ``needed``, add the gradients of the curve's numbers to ``sums``.

    Args:
        scratch: four rows.
    """
    options, scale = _options(how, p.dtype)
    for o in range(len(target)):
        bent_backward(options, scale, p[at + REACH], p[at:], source[o], g[o], target[o], scratch, sums[at:], needed)
