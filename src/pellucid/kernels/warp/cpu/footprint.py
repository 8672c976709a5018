"""Reading and writing all the pixels that an output pixel spans, with the weights of a table.

Owns: the antialiased gather and its adjoint; inside of the image eight columns at a time, at its borders pixel by pixel.
Must not: know how tables are made (``../footprint.py``), or colours.
Read next: ``sweep.py``.
"""

from typing import TypeAlias

import numpy as np

from pellucid.kernels.jit import fused
from pellucid.kernels.vectors import Array, Lanes, Sum, woven
from pellucid.kernels.warp.cpu.coordinates import FILLED, fold
from pellucid.kernels.warp.cpu.layout import COVER, X, Y
from pellucid.kernels.warp.footprint import BLOCK, PHASES

__all__ = ["add_table", "read_table"]

_FAR = float(1 << 22)
_LAST = PHASES - 1
_EDGES = PHASES + 1


Starts: TypeAlias = tuple[Lanes, Lanes, Lanes]
Place: TypeAlias = tuple[Lanes, Lanes, Lanes, Lanes, Lanes]
"""Index of a weight, steps to the next ones to the right and below, and the point's position between these along x and y."""


def _corners(at: Place, offset: Lanes) -> list[Lanes]:
    """Where a row of weights begins at the four positions around one: two side by side, two further on."""
    first = at[0] + offset
    return [first, first + at[1], first + at[2], first + at[2] + at[1]]


def _between(a: Lanes, b: Lanes, t: Lanes) -> Lanes:
    return a + t * (b - a)


def _blended(weights: Array, at: Place, offset: Lanes) -> Lanes:
    a, b, c, d = (weights.load(place, BLOCK) for place in _corners(at, offset))
    return _between(_between(a, b, at[3]), _between(c, d, at[3]), at[4])


@woven(returns=3)
def _weigh(table: Array, place: Place, step: Lanes, img: Array, starts: Starts, offsets: Array, lines: Lanes) -> list[Lanes]:
    """The weighted sums of ``lines`` rows of eight pixels, of three channels that begin at ``starts``.

    Where rows lie in the image is read from an array: an optimizer that knew that to be multiples would keep too many pointers for
    the registers.
    """
    sums = [Sum(table.zeros(BLOCK)) for _ in starts]
    with lines.loop() as line:
        weight, offset = _blended(table, place, line * step), offsets.load(line)
        for total, start in zip(sums, starts, strict=True):
            total.add(weight * img.load(start + offset, BLOCK).to(weight))
    return [total.found.sums() for total in sums]


@woven()
def _spread(
    table: Array, place: Place, step: Lanes, into: Array, starts: Starts, offsets: Array, lines: Lanes, grads: Starts
) -> None:
    """Add ``grads`` times the weights to such rows of three channels: the adjoint of :func:`_weigh`."""
    with lines.loop() as line:
        weight, offset = _blended(table, place, line * step), offsets.load(line)
        for start, grad in zip(starts, grads, strict=True):
            into.add(start + offset, grad * weight)


@woven(returns=2)
def _tilt(
    table: Array, place: Place, step: Lanes, img: Array, starts: Starts, offsets: Array, lines: Lanes, grads: Starts, sums: Array
) -> list[Lanes]:
    """(along x, along y): slopes of :func:`_weigh`'s results, per phase; adds the gradients of the table's numbers to ``sums``."""
    tx, ty = place[3:]
    shares = (1.0 - tx) * (1.0 - ty), tx * (1.0 - ty), (1.0 - tx) * ty, tx * ty
    along_x, along_y = (Sum(table.zeros(BLOCK)) for _ in range(2))
    with lines.loop() as line:
        offset, read = offsets.load(line), table.zeros(BLOCK)
        for start, grad in zip(starts, grads, strict=True):
            read = read + grad * img.load(start + offset, BLOCK).to(read)
        corners = _corners(place, line * step)
        a, b, c, d = (table.load(corner, BLOCK) for corner in corners)
        along_x.add(read * _between(b - a, d - c, ty))
        along_y.add(read * _between(c - a, d - b, tx))
        for corner, share in zip(corners, shares, strict=True):
            sums.add(corner, share * read)
    return [along_x.found.sums(), along_y.found.sums()]


@fused.noinline
def _table_of(tables, b):  # type: ignore[no-untyped-def]
    """A sample's weights, and (rows, columns with padding, used rows, used columns, where rows lie in image and gradient)."""
    flat, rows, columns, used, read, written = tables
    at = b if len(flat) > 1 else 0
    table, (top, bottom, left, right) = flat[at], used[at]
    at = b if len(read) > 1 else 0
    return table, (rows, columns, top, bottom, left, right, read[at], written[at])


@fused
def _weight(table, at, place):  # type: ignore[no-untyped-def]
    """One weight between four positions, and its slopes along x and y, per phase."""
    _, right, below, tx, ty = place
    a, b, c, d = table[at], table[at + right], table[at + below], table[at + below + right]
    upper, lower = a + tx * (b - a), c + tx * (d - c)
    return upper + ty * (lower - upper), (b - a) + ty * ((d - c) - (b - a)), (c - a) + tx * ((d - b) - (c - a))


@fused
def _share(sums, at, place, read):  # type: ignore[no-untyped-def]
    """Add to ``sums`` the gradients of the four numbers that such a weight lies between."""
    _, right, below, tx, ty = place
    one = sums.dtype.type(1.0)
    sums[at] += (one - tx) * (one - ty) * read
    sums[at + right] += tx * (one - ty) * read
    sums[at + below] += (one - tx) * ty * read
    sums[at + below + right] += tx * ty * read


@fused
def _three(first, c, channels, step):  # type: ignore[no-untyped-def]
    """Where three channels from c on begin; a missing one begins where the first does."""
    start = first + np.uint64(c) * step
    second = start + step if c + 1 < channels else start
    return start, second, start + step + step if c + 2 < channels else start


@fused
def _grads(g, u, c, channels, unit):  # type: ignore[no-untyped-def]
    """The gradients of three channels from c on; zero for a missing one."""
    zero = g.dtype.type(0.0)
    return unit * g[c, u], unit * g[c + 1, u] if c + 1 < channels else zero, unit * g[c + 2, u] if c + 2 < channels else zero


@fused
def _place(x):  # type: ignore[no-untyped-def]
    """(whole pixel, phase, share of the next phase) of a coordinate."""
    number = type(x)
    x = min(max(x, number(-_FAR)), number(_FAR))
    pixel = np.floor(x)
    fine = (x - pixel) * number(PHASES)
    phase = min(np.floor(fine), number(_LAST))
    return np.int64(pixel), np.int64(phase), fine - phase


@fused
def _seen(i, length, mode):  # type: ignore[no-untyped-def]
    return (mode != FILLED) | ((i >= 0) & (i < length))


@fused
def _outside(left, top, lines, columns, shape):  # type: ignore[no-untyped-def]
    return (left + columns <= 0) | (left >= shape[1]) | (top + lines <= 0) | (top >= shape[0])


@fused
def _inside(left, top, lines, columns, shape, strides):  # type: ignore[no-untyped-def]
    return (strides[2] == 1) & (left >= 0) & (left + columns <= shape[1]) & (top >= 0) & (top + lines <= shape[0])


@fused.noinline
def read_table(img, call, tables, b, strip, out):  # type: ignore[no-untyped-def]
    """Write the weighted sums around a strip's points, and the weights inside of the image."""
    table, (rows, right, first, last, begin, end, offsets, _) = _table_of(tables, b)
    base, channels, shape, unit, mode = np.uint64(call.base), call.channels, (call.height, call.width), call.unit, call.mode
    x, y, cover, strides = strip.rows[X], strip.rows[Y], strip.rows[COVER], (call.stride_c, call.stride_y, call.stride_x)
    blocks, line, lines = (end - begin + BLOCK - 1) // BLOCK, right * _EDGES, last - first
    columns, below = blocks * BLOCK, rows * line
    zero, one = cover.dtype.type(0.0), cover.dtype.type(1.0)
    stride_c, stride_y, stride_x = np.uint64(strides[0]), np.uint64(strides[1]), np.uint64(strides[2])
    for u in range(len(x)):
        cover[u] = zero
        for c in range(channels):
            out[c, u] = zero
        if not (np.isfinite(x[u]) & np.isfinite(y[u])):
            continue
        across, g, tx = _place(x[u])
        down, f, ty = _place(y[u])
        left, top = across + 1 - rows // 2 + begin, down + 1 - rows // 2 + first
        if (mode == FILLED) & _outside(left, top, lines, columns, shape):
            continue
        place = (f * below + first * line + g * right + begin, right, below, tx, ty)
        if _inside(left, top, lines, columns, shape, strides):
            cover[u] = one
            start = base + np.uint64(top) * stride_y + np.uint64(left)
            for k in range(blocks):
                here, block = (place[0] + k * BLOCK, right, below, tx, ty), np.uint64(k * BLOCK)
                for c in range(0, channels, 3):
                    found = _weigh(table, here, line, img, _three(start + block, c, channels, stride_c), offsets, lines)
                    out[c, u] += unit * found[0]
                    if c + 1 < channels:
                        out[c + 1, u] += unit * found[1]
                    if c + 2 < channels:
                        out[c + 2, u] += unit * found[2]
            continue
        for r in range(lines):
            v, seen = fold(top + r, shape[0], mode), _seen(top + r, shape[0], mode)
            for k in range(end - begin):
                weight, _, _ = _weight(table, place[0] + r * line + k, place)
                if (weight == zero) | ((not seen) | (not _seen(left + k, shape[1], mode))):
                    continue
                cover[u] += weight
                start = base + np.uint64(v) * stride_y + np.uint64(fold(left + k, shape[1], mode)) * stride_x
                for c in range(channels):
                    out[c, u] += unit * weight * img[start]
                    start += stride_c
        if mode != FILLED:
            cover[u] = one


@fused.noinline
def add_table(img, call, tables, b, needs, strip, g, to_cover, to_image, sums, along):  # type: ignore[no-untyped-def]
    """Pass the gradients of a strip's pixels on: the adjoint of :func:`read_table`.

    Args:
        needs: whether the image's gradient is wanted, and whether those of points and table are.
        g, to_cover: the gradients of the sums and of the coverage.
        to_image: flat.
        sums: to which the table's gradient is added.
        along: where the points' gradients are written.
    """
    table, (rows, right, first, last, begin, end, offsets, written) = _table_of(tables, b)
    base, channels, shape, unit, mode = np.uint64(call.base), call.channels, (call.height, call.width), call.unit, call.mode
    x, y, along_x, along_y, own = strip.rows[X], strip.rows[Y], along[0], along[1], call.own
    strides, (needs_image, needs_slopes) = (call.stride_c, call.stride_y, call.stride_x), needs
    blocks, line, lines = (end - begin + BLOCK - 1) // BLOCK, right * _EDGES, last - first
    columns, below, plane = blocks * BLOCK, rows * line, np.uint64(shape[0] * shape[1])
    zero, scale = to_cover.dtype.type(0.0), to_cover.dtype.type(PHASES)
    stride_c, stride_y, stride_x = np.uint64(strides[0]), np.uint64(strides[1]), np.uint64(strides[2])
    for u in range(len(x)):
        along_x[u] = along_y[u] = zero
        if not (np.isfinite(x[u]) & np.isfinite(y[u])):
            continue
        across, h, tx = _place(x[u])
        down, f, ty = _place(y[u])
        left, top = across + 1 - rows // 2 + begin, down + 1 - rows // 2 + first
        if (mode == FILLED) & _outside(left, top, lines, columns, shape):
            continue
        place = (f * below + first * line + h * right + begin, right, below, tx, ty)
        total_x = total_y = zero
        if _inside(left, top, lines, columns, shape, strides):
            start, into = base + np.uint64(top) * stride_y + np.uint64(left), np.uint64(own + top * shape[1] + left)
            for k in range(blocks):
                here, block = (place[0] + k * BLOCK, right, below, tx, ty), np.uint64(k * BLOCK)
                for c in range(0, channels, 3):
                    grads = _grads(g, u, c, channels, unit)
                    if needs_image:
                        _spread(table, here, line, to_image, _three(into + block, c, channels, plane), written, lines, grads)
                    if needs_slopes:
                        starts = _three(start + block, c, channels, stride_c)
                        tilt = _tilt(table, here, line, img, starts, offsets, lines, grads, sums)
                        total_x, total_y = total_x + tilt[0], total_y + tilt[1]
        else:
            for r in range(lines):
                v, seen = fold(top + r, shape[0], mode), _seen(top + r, shape[0], mode)
                for k in range(end - begin):
                    if (not seen) | (not _seen(left + k, shape[1], mode)):
                        continue
                    i, at = fold(left + k, shape[1], mode), place[0] + r * line + k
                    weight, slope_x, slope_y = _weight(table, at, place)
                    start = base + np.uint64(v) * stride_y + np.uint64(i) * stride_x
                    into = np.uint64(own + v * shape[1] + i)
                    read = to_cover[u] if mode == FILLED else zero
                    for c in range(channels):
                        if needs_image and weight != zero:
                            to_image[into] += unit * g[c, u] * weight
                        if needs_slopes:
                            read += unit * g[c, u] * img[start]
                        start += stride_c
                        into += plane
                    if needs_slopes:
                        total_x, total_y = total_x + read * slope_x, total_y + read * slope_y
                        _share(sums, at, place, read)
        along_x[u], along_y[u] = total_x * scale, total_y * scale
