"""The compiled passes: pyramids, patches, and the gradients to frames and to the image.

Owns: the loops over patches and planes, and what a thread may write.
Must not: allocate, or compute anything the reference does not.
Read next: ``../reference.py`` one folder up.

A patch is handled whole, in three steps that each run over flat buffers: where its samples lie, which pixels they touch, and the
sums.
"""

from typing import Any, NamedTuple

import numpy as np

from pellucid.kernels.jit import entry, exact, fused, summing
from pellucid.kernels.patches.cpu.pyramid import build, give_back
from pellucid.kernels.vectors import Array, Lanes, woven

__all__ = ["Call", "pyramids", "sample", "to_frames", "to_images"]


@exact.noinline
def _locate(frame, u, v, shrink, low_x, low_y, x, y):  # type: ignore[no-untyped-def]
    """Coordinates of all samples in a level's own pixels, bit for bit the reference's."""
    a, b, c, d, e, f = frame[0], frame[1], frame[2], frame[3], frame[4], frame[5]
    for k in range(len(x)):
        x[k] = (a * u[k] + (b * v[k] + c)) * shrink - low_x
        y[k] = (d * u[k] + (e * v[k] + f)) * shrink - low_y


@fused.noinline
def _touch(x, y, height, width, start, index, right, down):  # type: ignore[no-untyped-def]
    """Turn coordinates into fractions, and find the first pixel and the steps to its neighbours.

    Outside, and on the ends, a step is 0: the neighbour is the pixel itself, so the value repeats and the slope is 0. NaN counts
    as 0.
    """
    cast = x.dtype.type
    last_x, last_y, zero = cast(width - 1), cast(height - 1), cast(0)
    for k in range(len(x)):
        at_x = x[k] if x[k] > zero else zero
        at_x = at_x if at_x < last_x else last_x
        at_y = y[k] if y[k] > zero else zero
        at_y = at_y if at_y < last_y else last_y
        column, row = np.int32(at_x), np.int32(at_y)
        right[k] = 1 if (at_x > zero) & (at_x < last_x) else 0
        down[k] = width if (at_y > zero) & (at_y < last_y) else 0
        index[k] = start + row * width + column
        x[k], y[k] = at_x - cast(column), at_y - cast(row)


@woven()
def _between(planes: tuple[Array, ...], places: tuple[Array, ...], tx: Array, ty: Array, k: Lanes, out: tuple[Array, ...]) -> None:
    """Interpolate one sample of each plane; positions are read once for all."""
    i, right, down = (place.load(k).to(k) for place in places)
    across, along, found = tx.load(k), ty.load(k), []
    for plane in planes:
        p, q, r, s = (plane.load(at) for at in (i, i + right, i + down, i + down + right))
        top = p + across * (q - p)
        found.append(top + along * (r + across * (s - r) - top))
    for into, value in zip(out, found, strict=True):
        into.store(k, value)


@fused.noinline
def _read(planes, places, tx, ty, out):  # type: ignore[no-untyped-def]
    for k in range(len(tx)):
        _between(planes, places, tx, ty, k, out)


@fused.noinline
def _mix(out, other, weight):  # type: ignore[no-untyped-def]
    for k in range(len(out)):
        out[k] += weight * (other[k] - out[k])


@fused.noinline
def _slopes(plane, index, right, down, tx, ty, g, value, along_x, along_y, first):  # type: ignore[no-untyped-def]
    """Gradient times value and slopes, summed over channels."""
    for k in range(len(g)):
        i, step = np.uint64(index[k]), np.uint64(right[k])
        j = i + np.uint64(down[k])
        p, q, r, s = plane[i], plane[i + step], plane[j], plane[j + step]
        upper, lower = q - p, s - r
        top = p + tx[k] * upper
        fall = r + tx[k] * lower - top
        v, gx, gy = g[k] * (top + ty[k] * fall), g[k] * (upper + ty[k] * (lower - upper)), g[k] * fall
        value[k] = v if first else value[k] + v
        along_x[k] = gx if first else along_x[k] + gx
        along_y[k] = gy if first else along_y[k] + gy


@fused.noinline
def _slopes_of_three(plane0, plane1, plane2, index, right, down, tx, ty, g0, g1, g2, value, along_x, along_y):  # type: ignore[no-untyped-def]
    """The same for three channels at once: their pixels are summed with the gradient first, because the rest is linear."""
    for k in range(len(g0)):
        i, step = np.uint64(index[k]), np.uint64(right[k])
        j = i + np.uint64(down[k])
        a, b, c = g0[k], g1[k], g2[k]
        p = a * plane0[i] + b * plane1[i] + c * plane2[i]
        q = a * plane0[i + step] + b * plane1[i + step] + c * plane2[i + step]
        r = a * plane0[j] + b * plane1[j] + c * plane2[j]
        s = a * plane0[j + step] + b * plane1[j + step] + c * plane2[j + step]
        upper, lower = q - p, s - r
        top = p + tx[k] * upper
        fall = r + tx[k] * lower - top
        value[k], along_x[k], along_y[k] = top + ty[k] * fall, upper + ty[k] * (lower - upper), fall


@summing.noinline
def _total(a):  # type: ignore[no-untyped-def]
    total = a.dtype.type(0)
    for k in range(len(a)):
        total += a[k]
    return total


@summing.noinline
def _totals(a, u, v):  # type: ignore[no-untyped-def]
    """Sums of a * u, a * v and a."""
    with_u = with_v = alone = a.dtype.type(0)
    for k in range(len(a)):
        with_u += a[k] * u[k]
        with_v += a[k] * v[k]
        alone += a[k]
    return with_u, with_v, alone


@fused.noinline
def _scatter(plane, index, right, down, tx, ty, g, weight):  # type: ignore[no-untyped-def]
    for k in range(len(g)):
        i, step = np.uint64(index[k]), np.uint64(right[k])
        j = i + np.uint64(down[k])
        upstream = weight * g[k]
        lower = ty[k] * upstream
        upper = upstream - lower
        upper_right, lower_right = tx[k] * upper, tx[k] * lower
        plane[i] += upper - upper_right
        plane[i + step] += upper_right
        plane[j] += lower - lower_right
        plane[j + step] += lower_right


@fused
def _blend(span, levels):  # type: ignore[no-untyped-def]
    """(finer level, weight of the next, derivative of that weight in the span), in the span's precision."""
    cast = type(span)
    fine = 0
    shrink = cast(1)
    while fine < levels - 2 and span * shrink >= cast(4):
        fine += 1
        shrink *= cast(0.25)
    t = (span * shrink - cast(1)) / cast(3)
    if levels == 1 or not t > cast(0):
        return fine, cast(0), cast(0)
    if t >= cast(1):
        return fine, cast(1), cast(0)
    return fine, t * t * (cast(3) - cast(2) * t), cast(2) * t * (cast(1) - t) * shrink


@entry
def pyramids(images, coarse, table, line, start, stop):  # type: ignore[no-untyped-def]
    """Build the pyramids of planes [start, stop)."""
    for plane in range(start, stop):
        build(images[plane], coarse[plane], table, line)


class Call(NamedTuple):
    """What one call's patches share.

    Args:
        images, coarse: (planes, pixels), the pictures and the levels below them; ``table`` says where a level begins.
        frames, span: (patches, 6) and (patches,), of which ``patches`` belong to each image.
        u, v: coordinates of every sample of a patch in its frame.
    """

    images: Any
    coarse: Any
    table: Any
    frames: Any
    span: Any
    patches: int
    u: Any
    v: Any


@fused
def _placed(call, n, level, floats, places):  # type: ignore[no-untyped-def]
    """Where the samples of patch n lie between pixels of a level, in the first two of ``floats``, and which they touch."""
    low_y, low_x, height, width, begin = call.table[level]
    cast, x, y = floats.dtype.type, floats[0], floats[1]
    _locate(call.frames[n], call.u, call.v, cast(0.5**level), cast(low_x), cast(low_y), x, y)
    _touch(x, y, height, width, begin, places[0], places[1], places[2])
    return x, y, places[0], places[1], places[2]


@fused
def _pixels(call, n, level, channels):  # type: ignore[no-untyped-def]
    """The planes of a level that patch n reads."""
    plane = n // call.patches * channels
    return call.images[plane : plane + channels] if level == 0 else call.coarse[plane : plane + channels]


@entry
def sample(call, out, floats, places, start, stop):  # type: ignore[no-untyped-def]
    """Patches [start, stop) of all images. out: (patches, channels, samples)."""
    zero, other, channels = floats.dtype.type(0), floats[5:], out.shape[1]
    for n in range(start, stop):
        fine, weight, _ = _blend(call.span[n], len(call.table))
        for level in range(fine, fine + (2 if weight > zero else 1)):
            x, y, index, right, down = _placed(call, n, level, floats, places)
            pixels, into = _pixels(call, n, level, channels), out[n] if level == fine else other
            if channels == 3:
                _read((pixels[0], pixels[1], pixels[2]), (index, right, down), x, y, (into[0], into[1], into[2]))
            else:
                for c in range(channels):
                    _read((pixels[c],), (index, right, down), x, y, (into[c],))
            if level > fine:
                for c in range(channels):
                    _mix(out[n, c], other[c], weight)


@entry
def to_frames(call, grad, sums, floats, places, start, stop):  # type: ignore[no-untyped-def]
    """Gradients of the frames (six numbers) and of the span (one) of patches [start, stop), in float64."""
    zero, value, along, channels = floats.dtype.type(0), floats[2], (floats[3], floats[4]), grad.shape[1]
    for n in range(start, stop):
        fine, weight, slope = _blend(call.span[n], len(call.table))
        g, into = grad[n], sums[n]
        into[:] = 0.0
        for level in range(fine, fine + (2 if weight > zero else 1)):
            x, y, index, right, down = _placed(call, n, level, floats, places)
            pixels = _pixels(call, n, level, channels)
            if channels == 3:
                planes = pixels[0], pixels[1], pixels[2]
                _slopes_of_three(*planes, index, right, down, x, y, g[0], g[1], g[2], value, along[0], along[1])
            else:
                for c in range(channels):
                    _slopes(pixels[c], index, right, down, x, y, g[c], value, along[0], along[1], c == 0)
            sign = 1.0 if level > fine else -1.0
            into[6] += sign * np.float64(slope) * np.float64(_total(value))
            share = 0.5**level * (np.float64(weight) if level > fine else 1.0 - np.float64(weight))
            for axis in range(2):
                by_u, by_v, alone = _totals(along[axis], call.u, call.v)
                into[3 * axis] += share * by_u
                into[3 * axis + 1] += share * by_v
                into[3 * axis + 2] += share * alone


@entry
def to_images(call, grad, planes, coarse, line, floats, places, start, stop):  # type: ignore[no-untyped-def]
    """Gradients of the planes [start, stop), each of which this thread alone owns, patch after patch in order.

    ``coarse`` is one plane's scratch memory for the other levels.
    """
    cast, channels = floats.dtype.type, grad.shape[1]
    for plane in range(start, stop):
        image, channel = plane // channels, plane % channels
        planes[plane][:] = cast(0)
        coarse[:] = cast(0)
        for n in range(image * call.patches, (image + 1) * call.patches):
            fine, weight, _ = _blend(call.span[n], len(call.table))
            for level in range(fine, fine + (2 if weight > cast(0) else 1)):
                x, y, index, right, down = _placed(call, n, level, floats, places)
                share = weight if level > fine else cast(1) - weight
                _scatter(planes[plane] if level == 0 else coarse, index, right, down, x, y, grad[n, channel], share)
        give_back(planes[plane], coarse, call.table, line)
