"""Reading and writing all the pixels that an output pixel spans, where each has a footprint of its own.

Owns: the kernel stretched over a footprint, normalised; its gather and its adjoint.
Must not: know how footprints are made (``../footprint.py``), or colours.
Read next: ``footprint.py``, where all of them share one.
"""

from typing import Any, NamedTuple

import numpy as np

from pellucid.kernels.jit import fused
from pellucid.kernels.warp.cpu.coordinates import FILLED, fold
from pellucid.kernels.warp.cpu.layout import COVER, X, Y

__all__ = ["add_stretched", "read_stretched"]

_FAR = float(1 << 22)


class Stretch(NamedTuple):
    """A kernel around a point: the four numbers of its axes, the cubic kernel's parameter (0: a tent), its share of the result."""

    frame: Any
    cubic: Any
    share: Any


class Slopes(NamedTuple):
    """The gradients of a kernel's share and of its frame, and of the point's x and y."""

    share: Any
    frame: Any
    x: Any
    y: Any


class Moments(NamedTuple):
    """Sums over pixels: of slopes, and of slopes times the pixel's distance along x and along y."""

    plain: Any
    x: Any
    y: Any


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
def _stretches(call, shapes, row, p):  # type: ignore[no-untyped-def]
    """For a pixel: the kernel over a parallelogram, and that along the axes."""
    s = shapes[row]
    zero, one, cubic = s.dtype.type(0.0), s.dtype.type(1.0), s.dtype.type(call.cubic if call.taps == 4 else 0.0)
    turned = Stretch((s[0, p], s[1, p], s[2, p], s[3, p]), cubic, s[6, p])
    return turned, Stretch((s[4, p], zero, zero, s[5, p]), cubic, one - s[6, p])


@fused
def _pixel(call, spot, u):  # type: ignore[no-untyped-def]
    """Which pixel of the result a strip's pixel u is."""
    return spot.v * call.out_width + spot.first + u // spot.width * call.out_width + u % spot.width


@fused.noinline
def _read(img, call, stretch, x, y, u, out, cover):  # type: ignore[no-untyped-def]
    """Add a share of the mean around a point, three channels at a time."""
    frame, cubic, share = stretch
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
    zero, one, row = x.dtype.type(0.0), x.dtype.type(1.0), spot.b if len(shapes) > 1 else 0
    for u in range(len(x)):
        cover[u] = zero
        for c in range(channels):
            out[c, u] = zero
        if not (np.isfinite(x[u]) & np.isfinite(y[u])):
            continue
        turned, straight = _stretches(call, shapes, row, _pixel(call, spot, u))
        if turned.share > zero:
            _read(img, call, turned, x[u], y[u], u, out, cover)
        if turned.share < one:
            _read(img, call, straight, x[u], y[u], u, out, cover)
        if mode != FILLED:
            cover[u] = one


@fused
def _add_pixel(img, call, v, k, part, needs_image, to_image, u, g, to_cover):  # type: ignore[no-untyped-def]
    """The gradient of the weight of a pixel; its own gradient, by its part of the mean, is added to the image's."""
    (height, width), unit, mode = (call.height, call.width), call.unit, call.mode
    read = type(part)(0.0)
    if (mode != FILLED) | ((v >= 0) & (v < height) & (k >= 0) & (k < width)):
        i, j = fold(v, height, mode), fold(k, width, mode)
        start = np.uint64(call.base) + np.uint64(i) * np.uint64(call.stride_y) + np.uint64(j) * np.uint64(call.stride_x)
        into = np.uint64(call.own + i * width + j)
        read = to_cover[u] if mode == FILLED else read
        for c in range(call.channels):
            read += unit * g[c, u] * img[start]
            if needs_image:
                to_image[into] += part * unit * g[c, u]
            start += np.uint64(call.stride_c)
            into += np.uint64(height * width)
    return read


@fused
def _plus(sums, slope, across, down, factor):  # type: ignore[no-untyped-def]
    """The moments with those of one more pixel, times a factor."""
    return Moments(sums.plain + slope * factor, sums.x + slope * across * factor, sums.y + slope * down * factor)


@fused.noinline
def _add(img, call, stretch, needs_image, to_image, x, y, u, g, to_cover):  # type: ignore[no-untyped-def]
    """Pass one share of a pixel's gradient on: the adjoint of :func:`_read`. Returns the `Slopes`.

    A mean is a sum of pixels by their weights over the sum of the weights, so both kinds of slopes are summed: those times what the
    pixels give, and those of the weights alone.
    """
    (frame, cubic, share), number, zero, unit = stretch, type(x), type(x)(0.0), type(x)(1.0)
    place = _place(x, y, frame, cubic)
    left, right, top, bottom, x, y = place
    if (call.mode == FILLED) & ((right < 0) | (left >= call.width) | (bottom < 0) | (top >= call.height)):
        return Slopes(zero, (zero, zero, zero, zero), zero, zero)
    whole, total, none = number(1.0) / _total(place, frame, cubic), zero, Moments(zero, zero, zero)
    given_one = given_two = bare_one = bare_two = none  # of slopes along the first and the second axis
    for v in range(top, bottom + 1):
        down = number(v) - y
        for k in range(left, right + 1):
            across = number(k) - x
            weight, one, two = _tap(frame, across, down, cubic)
            read = _add_pixel(img, call, v, k, share * whole * weight, needs_image, to_image, u, g, to_cover)
            total += weight * read
            given_one, given_two = _plus(given_one, one, across, down, read), _plus(given_two, two, across, down, read)
            bare_one, bare_two = _plus(bare_one, one, across, down, unit), _plus(bare_two, two, across, down, unit)
    total, part = total * whole, share * whole
    to_frame = (
        part * (given_one.x - total * bare_one.x),
        part * (given_one.y - total * bare_one.y),
        part * (given_two.x - total * bare_two.x),
        part * (given_two.y - total * bare_two.y),
    )
    along_one, along_two = part * (given_one.plain - total * bare_one.plain), part * (given_two.plain - total * bare_two.plain)
    to_x, to_y = -(frame[0] * along_one + frame[2] * along_two), -(frame[1] * along_one + frame[3] * along_two)
    return Slopes(total, to_frame, to_x, to_y)


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
    zero, one, row = x.dtype.type(0.0), x.dtype.type(1.0), spot.b if len(shapes) > 1 else 0
    for u in range(len(x)):
        along_x[u] = along_y[u] = zero
        if not (np.isfinite(x[u]) & np.isfinite(y[u])):
            continue
        p = _pixel(call, spot, u)
        turned, straight = _stretches(call, shapes, row, p)
        # The share's gradient is the difference of the two means, so both are read where it may move.
        by_turned = by_straight = Slopes(zero, (zero, zero, zero, zero), zero, zero)
        between = (turned.share > zero) & (turned.share < one)
        if turned.share > zero:
            by_turned = _add(img, call, turned, needs[0], to_image, x[u], y[u], u, g, to_cover)
        if turned.share < one:
            by_straight = _add(img, call, straight, needs[0], to_image, x[u], y[u], u, g, to_cover)
        along_x[u], along_y[u] = by_turned.x + by_straight.x, by_turned.y + by_straight.y
        if needs[1]:
            sums[p], sums[pixels + p], sums[2 * pixels + p], sums[3 * pixels + p] = by_turned.frame
            sums[4 * pixels + p], sums[5 * pixels + p] = by_straight.frame[0], by_straight.frame[3]
            sums[6 * pixels + p] = by_turned.share - by_straight.share if between else zero
