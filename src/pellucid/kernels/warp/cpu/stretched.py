"""Reading and writing all the pixels that an output pixel spans, where each has a footprint of its own.

Owns: the kernel stretched over a footprint, normalised; its gather and its adjoint.
Must not: know how footprints are made (``../footprint.py``), or colours.
Read next: ``footprint.py``, where all of them share one.
"""

import numpy as np

from pellucid.kernels.jit import fused
from pellucid.kernels.warp.cpu.coordinates import FILLED, fold
from pellucid.kernels.warp.cpu.layout import COVER, X, Y

__all__ = ["add_stretched", "read_stretched"]

_FAR = float(1 << 22)


@fused
def _kernel(t, cubic):  # type: ignore[no-untyped-def]
    """(weight, slope) at a distance: a tent, or with a parameter that is not zero the cubic kernel."""
    number = type(t)
    zero, one, two, three = number(0.0), number(1.0), number(2.0), number(3.0)
    s, sign = abs(t), one if t >= zero else -one
    if cubic == zero:
        return max(one - s, zero), -sign if s < one else zero
    a, b = cubic + two, cubic + three
    inner, outer = (a * s - b) * s * s + one, cubic * (((s - number(5.0)) * s + number(8.0)) * s - number(4.0))
    slope_in, slope_out = s * (three * a * s - two * b), cubic * ((three * s - number(10.0)) * s + number(8.0))
    weight, slope = inner if s < one else outer, slope_in if s < one else slope_out
    return weight if s < two else zero, sign * slope if s < two else zero


@fused
def _tap(frame, across, down, cubic):  # type: ignore[no-untyped-def]
    """The weight of a pixel so far from the point, and its slopes along the footprint's two axes."""
    one, slope_one = _kernel(frame[0] * across + frame[1] * down, cubic)
    two, slope_two = _kernel(frame[2] * across + frame[3] * down, cubic)
    return one * two, slope_one * two, one * slope_two


@fused
def _place(x, y, frame, cubic):  # type: ignore[no-untyped-def]
    """(first column, last, first row, last, x, y) that a kernel in this frame reaches around a point."""
    number = type(x)
    x, y = min(max(x, number(-_FAR)), number(_FAR)), min(max(y, number(-_FAR)), number(_FAR))
    support = number(1.0) if cubic == number(0.0) else number(2.0)
    part = support / abs(frame[0] * frame[3] - frame[1] * frame[2])
    wide, high = part * (abs(frame[3]) + abs(frame[1])), part * (abs(frame[0]) + abs(frame[2]))
    ends = np.ceil(x - wide), np.floor(x + wide), np.ceil(y - high), np.floor(y + high)
    return np.int64(ends[0]), np.int64(ends[1]), np.int64(ends[2]), np.int64(ends[3]), x, y


@fused
def _total(place, frame, cubic):  # type: ignore[no-untyped-def]
    left, right, top, bottom, x, y = place
    total = type(x)(0.0)
    for v in range(top, bottom + 1):
        for u in range(left, right + 1):
            total += _tap(frame, type(x)(u) - x, type(x)(v) - y, cubic)[0]
    return total


@fused
def _frames(shapes, row, p):  # type: ignore[no-untyped-def]
    """For a pixel: the parallelogram's frame, that along the axes, and the share of the first."""
    s = shapes[row]
    zero = s.dtype.type(0.0)
    return (s[0, p], s[1, p], s[2, p], s[3, p]), (s[4, p], zero, zero, s[5, p]), s[6, p]


@fused
def _parameter(call, x):  # type: ignore[no-untyped-def]
    """The cubic kernel's parameter; 0 stands for a tent."""
    return x.dtype.type(call.cubic if call.taps == 4 else 0.0)


@fused
def _pixel(call, spot, u):  # type: ignore[no-untyped-def]
    """Which pixel of the result a strip's pixel u is."""
    return spot.v * call.out_width + spot.first + u // spot.width * call.out_width + u % spot.width


@fused.noinline
def _read(img, call, frame, cubic, share, x, y, u, out, cover):  # type: ignore[no-untyped-def]
    """Add a share of the mean around a point, three channels at a time."""
    base, channels, shape, unit, mode = np.uint64(call.base), call.channels, (call.height, call.width), call.unit, call.mode
    number, zero = type(x), type(x)(0.0)
    left, right, top, bottom, x, y = _place(x, y, frame, cubic)
    inside = (left >= 0) & (right < shape[1]) & (top >= 0) & (bottom < shape[0])
    if (mode == FILLED) & ((right < 0) | (left >= shape[1]) | (bottom < 0) | (top >= shape[0])):
        return
    step_c, step_y, step_x = np.uint64(call.stride_c), np.uint64(call.stride_y), np.uint64(call.stride_x)
    for c in range(0, channels, 3):
        two, three = step_c if c + 1 < channels else np.uint64(0), step_c + step_c if c + 2 < channels else np.uint64(0)
        total = seen = red = green = blue = zero
        for v in range(top, bottom + 1):
            missing = (mode == FILLED) & ((v < 0) | (v >= shape[0]))
            line = base + np.uint64(c) * step_c + np.uint64(v if inside else fold(v, shape[0], mode)) * step_y
            for k in range(left, right + 1):
                weight = _tap(frame, number(k) - x, number(v) - y, cubic)[0]
                total += weight
                if not inside and (missing | ((mode == FILLED) & ((k < 0) | (k >= shape[1])))):
                    continue
                seen += weight
                at = line + np.uint64(k if inside else fold(k, shape[1], mode)) * step_x
                red, green, blue = red + weight * img[at], green + weight * img[at + two], blue + weight * img[at + three]
        part = share / total
        if c == 0:
            cover[u] += part * seen
        out[c, u] += unit * part * red
        if c + 1 < channels:
            out[c + 1, u] += unit * part * green
        if c + 2 < channels:
            out[c + 2, u] += unit * part * blue


@fused.noinline
def read_stretched(img, call, shapes, spot, strip, out):  # type: ignore[no-untyped-def]
    """Write the weighted means around a strip's points, and the weights inside of the image.

    Args:
        shapes: (samples or 1, 7, pixels), as ``../footprint.py`` describes them.
    """
    x, y, cover, channels, mode = strip.rows[X], strip.rows[Y], strip.rows[COVER], call.channels, call.mode
    zero, one, cubic, row = x.dtype.type(0.0), x.dtype.type(1.0), _parameter(call, x), spot.b if len(shapes) > 1 else 0
    for u in range(len(x)):
        cover[u] = zero
        for c in range(channels):
            out[c, u] = zero
        if not (np.isfinite(x[u]) & np.isfinite(y[u])):
            continue
        frame, straight, share = _frames(shapes, row, _pixel(call, spot, u))
        if share > zero:
            _read(img, call, frame, cubic, share, x[u], y[u], u, out, cover)
        if share < one:
            _read(img, call, straight, cubic, one - share, x[u], y[u], u, out, cover)
        if mode != FILLED:
            cover[u] = one


@fused.noinline
def _add(img, call, frame, cubic, share, needs_image, to_image, x, y, u, g, to_cover):  # type: ignore[no-untyped-def]
    """Pass one share of a pixel's gradient on: the adjoint of :func:`_read`.

    Returns:
        The gradient of the share, and those of the frame's four numbers, of x and of y.
    """
    base, channels, shape, unit, mode = np.uint64(call.base), call.channels, (call.height, call.width), call.unit, call.mode
    number, zero, own = type(x), type(x)(0.0), call.own
    place = _place(x, y, frame, cubic)
    left, right, top, bottom, x, y = place
    if (mode == FILLED) & ((right < 0) | (left >= shape[1]) | (bottom < 0) | (top >= shape[0])):
        return zero, (zero, zero, zero, zero), zero, zero
    whole = number(1.0) / _total(place, frame, cubic)
    plane = np.uint64(shape[0] * shape[1])
    total = one_0 = one_x = one_y = two_0 = two_x = two_y = zero  # sums of slopes times the pixels read
    bare_10 = bare_1x = bare_1y = bare_20 = bare_2x = bare_2y = zero  # and of slopes alone
    for v in range(top, bottom + 1):
        down = number(v) - y
        for k in range(left, right + 1):
            across = number(k) - x
            weight, one, two = _tap(frame, across, down, cubic)
            read = zero
            if (mode != FILLED) | ((v >= 0) & (v < shape[0]) & (k >= 0) & (k < shape[1])):
                i, j = fold(v, shape[0], mode), fold(k, shape[1], mode)
                start = base + np.uint64(i) * np.uint64(call.stride_y) + np.uint64(j) * np.uint64(call.stride_x)
                into = np.uint64(own + i * shape[1] + j)
                read = to_cover[u] if mode == FILLED else zero
                for c in range(channels):
                    read += unit * g[c, u] * img[start]
                    if needs_image:
                        to_image[into] += share * whole * weight * unit * g[c, u]
                    start += np.uint64(call.stride_c)
                    into += plane
            total += weight * read
            one_0, one_x, one_y = one_0 + one * read, one_x + one * across * read, one_y + one * down * read
            two_0, two_x, two_y = two_0 + two * read, two_x + two * across * read, two_y + two * down * read
            bare_10, bare_1x, bare_1y = bare_10 + one, bare_1x + one * across, bare_1y + one * down
            bare_20, bare_2x, bare_2y = bare_20 + two, bare_2x + two * across, bare_2y + two * down
    total, part = total * whole, share * whole
    to_frame = (
        part * (one_x - total * bare_1x),
        part * (one_y - total * bare_1y),
        part * (two_x - total * bare_2x),
        part * (two_y - total * bare_2y),
    )
    along_one, along_two = part * (one_0 - total * bare_10), part * (two_0 - total * bare_20)
    return total, to_frame, -(frame[0] * along_one + frame[2] * along_two), -(frame[1] * along_one + frame[3] * along_two)


@fused.noinline
def add_stretched(img, call, shapes, spot, needs, strip, g, to_cover, to_image, sums, along):  # type: ignore[no-untyped-def]
    """Pass the gradients of a strip's pixels on: the adjoint of :func:`read_stretched`.

    Args:
        needs: whether the image's gradient is wanted, and whether those of points and footprints are.
        g, to_cover: the gradients of the means and of the coverage.
        to_image: flat.
        sums: (7 * pixels,), where the footprints' gradients are written.
        along: where the points' gradients are written.
    """
    x, y, along_x, along_y, pixels = strip.rows[X], strip.rows[Y], along[0], along[1], shapes.shape[2]
    zero, one, cubic, row = x.dtype.type(0.0), x.dtype.type(1.0), _parameter(call, x), spot.b if len(shapes) > 1 else 0
    for u in range(len(x)):
        along_x[u] = along_y[u] = zero
        if not (np.isfinite(x[u]) & np.isfinite(y[u])):
            continue
        p = _pixel(call, spot, u)
        frame, straight, share = _frames(shapes, row, p)
        # The share's gradient is the difference of the two means, so both are read where it may move.
        turned, to_frame, turned_x, turned_y = zero, (zero, zero, zero, zero), zero, zero
        plain, to_straight, plain_x, plain_y = zero, (zero, zero, zero, zero), zero, zero
        between = (share > zero) & (share < one)
        if share > zero:
            turned, to_frame, turned_x, turned_y = _add(
                img, call, frame, cubic, share, needs[0], to_image, x[u], y[u], u, g, to_cover
            )
        if share < one:
            plain, to_straight, plain_x, plain_y = _add(
                img, call, straight, cubic, one - share, needs[0], to_image, x[u], y[u], u, g, to_cover
            )
        along_x[u], along_y[u] = turned_x + plain_x, turned_y + plain_y
        if needs[1]:
            sums[p], sums[pixels + p], sums[2 * pixels + p], sums[3 * pixels + p] = to_frame
            sums[4 * pixels + p], sums[5 * pixels + p] = to_straight[0], to_straight[3]
            sums[6 * pixels + p] = turned - plain if between else zero
