"""The codec's declared slopes to the picture, one sample after the other.

Owns: `slopes`: the gradient of ``reference.compress`` where shifts only divide and coefficients pass their rounding as declared.
Must not: know of tensors; everything comes as contiguous arrays of float32 or float64.
Read next: ``sweep.py``, ``../surrogate.py``.

Levels are counted from their middle, so that a level of 128 is 0. The gradient depends on what was clipped and rounded, so
the picture first goes through the codec again, in floating point, and then the gradient goes backward.
"""

import math

import numpy as np

from pellucid.kernels.codec.cpu.blocks import LANES, transform, untransform
from pellucid.kernels.codec.cpu.sweep import HIGH, LOW, enlarge, halve, limited, repeat_edges
from pellucid.kernels.codec.tables import SLOPES, SPREAD
from pellucid.kernels.jit import entry, fused

__all__ = ["PLANES", "slopes"]

PLANES = 10
_LUMA, _BLUE, _RED = 0, 1, 2  # planes that go into blocks; then the slopes of their rounding
_DECODED = 3  # to 5: planes that come out of blocks, unclipped; then their gradients
_SHOWN = 6  # and 7: colour differences at full size; then their gradients, halved along the rows
_SHARES = 8  # and 9: the gradients of colour differences at full size
PROXIMITY, CUBIC = SLOPES.index("proximity"), SLOPES.index("cubic")
_TO_YCC = tuple(x / 65536 for x in (19595, 38470, 7471, 11059, 21709, 32768, 27439, 5329))
_TO_RGB = tuple(x / 65536 for x in (91881, 22554, 46802, 116130))
_EXP = tuple(
    (-0.125) ** k / math.factorial(k) for k in range(11)
)  # exp(-u / 8), so that its eighth power is good to 1e-11, for u < 3.2


@fused
def _clipped(x, slope, low, high):  # type: ignore[no-untyped-def]
    """The slope where ``x`` is between the ends, else 0."""
    return slope if (x >= low) & (x <= high) else type(slope)(0.0)


@fused.noinline
def _clip(x, slopes, height, width, low, high, out):  # type: ignore[no-untyped-def]
    """`_clipped`, for a plane."""
    for v in range(height):
        for u in range(width):
            out[v, u] = _clipped(x[v, u], slopes[v, u], low, high)


@fused.noinline
def _planes_of(image, planes):  # type: ignore[no-untyped-def]
    """Luma and colour differences of the image, clipped to [0, 1]."""
    cast = image.dtype.type
    zero, one, scale, middle = cast(0.0), cast(1.0), cast(255.0), cast(128.0)
    a, b, c, d, e, f, g, h = _TO_YCC
    ya, yb, yc, ba, bb, half, rb, rc = cast(a), cast(b), cast(c), cast(d), cast(e), cast(f), cast(g), cast(h)
    for y in range(image.shape[1]):
        reds, greens, blues = image[0, y], image[len(image) // 2, y], image[len(image) - 1, y]
        luma, cb, cr = planes[_LUMA, y], planes[_BLUE, y], planes[_RED, y]
        for x in range(len(reds)):
            red, green, blue = min(max(reds[x], zero), one), min(max(greens[x], zero), one), min(max(blues[x], zero), one)
            red, green, blue = scale * red, scale * green, scale * blue
            luma[x] = (ya * red + yb * green + yc * blue if len(image) > 1 else red) - middle
            cb[x] = half * blue - ba * red - bb * green
            cr[x] = half * red - rb * green - rc * blue


@fused.noinline
def _passed(kind, tile, steps, slope):  # type: ignore[no-untyped-def]
    """Turn coefficients times 8 into stored ones over 8; write their slopes over 64, as two transforms multiply by 64."""
    cast = tile.dtype.type
    half, one, eighth, share = cast(0.5), cast(1.0), cast(0.125), cast(1.0 / 64.0)
    peak, sharp = cast(1.0 / (64.0 * SPREAD * math.sqrt(2.0 * math.pi))), cast(0.5 / SPREAD**2)
    a, b, c, d, e, f, g, h, i, j, k = _EXP
    e0, e1, e2, e3, e4, e5 = cast(a), cast(b), cast(c), cast(d), cast(e), cast(f)
    e6, e7, e8, e9, e10 = cast(g), cast(h), cast(i), cast(j), cast(k)
    for u in range(len(tile)):
        step = cast(steps[u])
        level = tile[u] * eighth / step
        nearest = np.rint(level)
        rest = level - nearest
        if kind == CUBIC:
            slope[u] = cast(3.0) * share * rest * rest
            nearest += rest * rest * rest
        elif kind == PROXIMITY:
            from_jump = half - abs(rest)
            v = sharp * from_jump * from_jump
            vv = v * v
            low, high = (e0 + v * e1) + vv * (e2 + v * e3), (e4 + v * e5) + vv * (e6 + v * e7)
            root = low + (vv * vv) * (high + (vv * vv) * ((e8 + v * e9) + vv * e10))
            root = root * root
            root = root * root
            slope[u] = peak * root * root
        else:
            slope[u] = one * share
        tile[u] = nearest * step * eighth


@fused.noinline
def _through(kind, plane, height, width, steps, decoded, tiles):  # type: ignore[no-untyped-def]
    """Repeat the last row and column to whole tiles, write the decoded plane, and replace the plane by its slopes."""
    rows, columns, pitch = (height + 7) // 8 * 8, (width + LANES - 1) // LANES * LANES, plane.shape[1]
    repeat_edges(plane, height, width, rows, columns)
    flat, into, tile, slope = plane.reshape(plane.size), decoded.reshape(decoded.size), tiles[0], tiles[1]
    for y in range(0, rows, 8):
        for x in range(0, columns, LANES):
            at = y * pitch + x
            transform(flat, at, pitch, tile)
            _passed(kind, tile, steps, slope)
            untransform(tile, into, at, pitch)
            for v in range(8):
                flat[at + v * pitch : at + v * pitch + LANES] = slope[LANES * v : LANES * v + LANES]


@fused.noinline
def _back(slope, grad, height, width, tile):  # type: ignore[no-untyped-def]
    """Turn the gradient of the decoded plane, in place, into that of the plane; repeated pixels add theirs to the edge."""
    rows, columns, pitch = (height + 7) // 8 * 8, (width + LANES - 1) // LANES * LANES, grad.shape[1]
    flat, factors = grad.reshape(grad.size), slope.reshape(slope.size)
    zero = grad.dtype.type(0.0)
    for y in range(rows):
        grad[y, (width if y < height else 0) : columns] = zero
    for y in range(0, rows, 8):
        for x in range(0, columns, LANES):
            at = y * pitch + x
            transform(flat, at, pitch, tile)
            for v in range(8):
                for u in range(LANES):
                    tile[LANES * v + u] *= factors[at + v * pitch + u]
            untransform(tile, flat, at, pitch)
    _fold_edges(grad, height, width, rows, columns)


@fused
def _fold_edges(grad, height, width, rows, columns):  # type: ignore[no-untyped-def]
    """The adjoint of ``repeat_edges``."""
    for y in range(height, rows):
        for x in range(columns):
            grad[height - 1, x] += grad[y, x]
    for y in range(height):
        for x in range(width, columns):
            grad[y, width - 1] += grad[y, x]


@fused.noinline
def _spread(grad, height, width, down, into):  # type: ignore[no-untyped-def]
    """The adjoint of ``_halve``."""
    columns, share = (width + 15) // 16 * 8, grad.dtype.type(0.5 / down)
    for y in range(height):
        row, means = into[y], grad[y // down]
        part = share + share if down == 2 and y == height - 1 and y % 2 == 0 else share
        for x in range(columns):
            row[2 * x] = part * means[x]
            row[2 * x + 1] = part * means[x]
        for x in range(width, 2 * columns):
            row[width - 1] += row[x]


@fused.noinline
def _gathered(grad, height, width, down, wait, halves):  # type: ignore[no-untyped-def]
    """The adjoint of ``_enlarge``: the gradient of the samples that ``halves`` holds, in their place."""
    cast = grad.dtype.type
    low, high, three, zero, part = cast(LOW), cast(HIGH), cast(3.0), cast(0.0), cast(0.0625 if down == 2 else 0.25)
    rows, columns = (height + down - 1) // down, (width + 1) // 2
    for y in range(height):
        row, line = grad[y], wait[y]
        row[width] = zero  # where an odd number of columns was cut off
        if columns <= 2:
            for x in range(columns):
                line[x] = row[2 * x] + row[2 * x + 1]
            continue
        for x in range(1, columns - 1):
            line[x] = part * (three * (row[2 * x] + row[2 * x + 1]) + row[2 * x + 2] + row[2 * x - 1])
        end = 2 * columns - 2
        line[0] = part * (three * (row[0] + row[1]) + row[0] + row[2])
        line[columns - 1] = part * (three * (row[end] + row[end + 1]) + row[end + 1] + row[end - 1])
    for y in range(rows):
        into = halves[y]
        if down == 1:
            for x in range(columns):
                into[x] = _clipped(into[x], wait[y, x], low, high)
            continue
        # The large rows whose nearest sample is this row's, and one more to either side, which at the edges is one of these.
        upper, lower, before, after = wait[2 * y], wait[min(2 * y + 1, height - 1)], wait[max(2 * y - 1, 0)], wait[2 * y + 2]
        near, both = three if columns > 2 else cast(1.0), cast(1.0 if 2 * y + 1 < height else 0.0)
        first = cast(1.0 if columns > 2 else 0.0)
        last = first if 2 * y + 2 < height else zero
        end = first if y == rows - 1 else zero
        for x in range(columns):
            total = near * (upper[x] + both * lower[x]) + first * before[x]
            total += (last * after[x] if 2 * y + 2 < height else zero) + end * both * lower[x]
            into[x] = _clipped(into[x], total, low, high)


@fused.noinline
def _colors_back(grad, planes, blue, red):  # type: ignore[no-untyped-def]
    """The gradient of colours to that of luma, in its place, and of colour differences, in the planes ``_SHARES``.

    Args:
        blue, red: the planes of colour differences as they are shown, clipped or not.
    """
    cast = grad.dtype.type
    low, high = cast(LOW), cast(HIGH)
    p, q, s, t = _TO_RGB
    ra, ga, gb, ba = cast(p), cast(q), cast(s), cast(t)
    for y in range(grad.shape[1]):
        reds, greens, blues = grad[0, y], grad[1, y], grad[2, y]
        luma, cb, cr = planes[_DECODED, y], planes[blue, y], planes[red, y]
        to_blue, to_red = planes[_SHARES, y], planes[_SHARES + 1, y]
        for x in range(len(reds)):
            light, b, r = limited(luma[x]), limited(cb[x]), limited(cr[x])
            to_r = _clipped(light + ra * r, reds[x], low, high)
            to_g = _clipped(light - ga * b - gb * r, greens[x], low, high)
            to_b = _clipped(light + ba * b, blues[x], low, high)
            to_blue[x] = ba * to_b - ga * to_g
            to_red[x] = ra * to_r - gb * to_g
            luma[x] = _clipped(luma[x], to_r + to_g + to_b, low, high)


@fused.noinline
def _to_image(image, planes, blue, out):  # type: ignore[no-untyped-def]
    """The gradient of luma and of colour differences, the planes from ``blue`` on, to that of the picture."""
    cast = image.dtype.type
    zero, one = cast(0.0), cast(1.0)
    a, b, c, d, e, f, g, h = _TO_YCC
    ya, yb, yc, ba, bb, half, rb, rc = cast(a), cast(b), cast(c), cast(d), cast(e), cast(f), cast(g), cast(h)
    for y in range(image.shape[1]):
        luma, cb, cr = planes[_DECODED, y], planes[blue, y], planes[blue + 1, y]
        for x in range(image.shape[2]):
            out[0, y, x] = _clipped(image[0, y, x], ya * luma[x] - ba * cb[x] + half * cr[x], zero, one)
            out[1, y, x] = _clipped(image[1, y, x], yb * luma[x] - bb * cb[x] - rb * cr[x], zero, one)
            out[2, y, x] = _clipped(image[2, y, x], yc * luma[x] + half * cb[x] - rc * cr[x], zero, one)


@entry
def slopes(kind, grad, image, steps, down, across, out, planes, tiles, line, start, stop):  # type: ignore[no-untyped-def]
    """Write the gradients of samples [start, stop) to ``out``.

    Args:
        kind: one of ``SLOPES``.
        grad, image, out: (batch, channels, height, width), of one dtype; grad: of the decoded picture, out: of the image.
        steps: (batch or 1, 2, 128), of luma and of colour differences, for two blocks side by side.
        down, across: pixels per colour difference.
        planes: scratch (PLANES, rows, columns), both sizes rounded up to 16, and 16 more.
        tiles: scratch (2, 128).
        line: scratch, a row and two numbers.
    """
    channels, height, width = image.shape[1:]
    cast = image.dtype.type
    low, high, zero, one = cast(LOW), cast(HIGH), cast(0.0), cast(1.0)
    rows, columns = ((height + down - 1) // down, (width + 15) // 16 * 8) if across == 2 else (height, width)
    for b in range(start, stop):
        table = steps[b if len(steps) > 1 else 0]
        _planes_of(image[b], planes)
        _through(kind, planes[_LUMA], height, width, table[0], planes[_DECODED], tiles)
        if channels == 1:
            _clip(planes[_DECODED], grad[b, 0], height, width, low, high, planes[_DECODED])
            _back(planes[_LUMA], planes[_DECODED], height, width, tiles[0])
            _clip(image[b, 0], planes[_DECODED], height, width, zero, one, out[b, 0])
            continue
        for c in range(1, 3):
            if across == 2:
                halve(planes[c], height, width, down, planes[c])
            _through(kind, planes[c], rows, columns, table[1], planes[_DECODED + c], tiles)
            if across == 2:
                enlarge(planes[_DECODED + c], height, width, down, planes[_SHOWN - 1 + c], line)
        shown = _SHOWN if across == 2 else _DECODED + 1
        _colors_back(grad[b], planes, shown, shown + 1)
        _back(planes[_LUMA], planes[_DECODED], height, width, tiles[0])
        for c in range(1, 3):
            shares, decoded = planes[_SHARES - 1 + c], planes[_DECODED + c]
            if across == 2:
                _gathered(shares, height, width, down, planes[_SHOWN - 1 + c], decoded)
                decoded[:rows, (width + 1) // 2 : columns] = zero
                _back(planes[c], decoded, rows, columns, tiles[0])
                _spread(decoded, height, width, down, shares)
            else:
                _clip(decoded, shares, height, width, low, high, decoded)
                _back(planes[c], decoded, height, width, tiles[0])
        _to_image(image[b], planes, _SHARES if across == 2 else _DECODED + 1, out[b])
