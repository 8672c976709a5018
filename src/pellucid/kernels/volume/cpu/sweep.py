"""Row by row through a volume, forward and backward.

Owns: the arithmetic of ``../reference.py``, compiled.
Must not: know of tensors.
Read next: ``__init__.py``.

A row of the output has one height and one depth: there the field is a spline along x alone, whose numbers are made once a row, and
whose cells are runs of voxels. Each step of a row is a loop of its own, over rows of scratch memory, so that it becomes vectors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid.kernels.jit import entry, fused, inlined, noinline, summing, without_refcount

__all__ = ["Call", "pick", "sample", "unsample"]

_POINT, _AT, _WEIGHT, _SLOPE = 0, 3, 6, 12  # rows of scratch: x, y, z twice; of each axis what the first and second voxel count


class Call(NamedTuple):
    """What one call's rows share.

    Args:
        image: (b, channels, voxels), of a ``shape`` (depth, height, width).
        maps, control: (b or 1, 12), and numbers of the spline (b or 1, n), n of a ``grid``; where there is none, none.
        first, weights: of each axis, as ``../knots.py`` has them.
        runs, along: the voxels of a row where each cell of the spline begins, and its end; and the row's weights, number by number.
        size: of the output.
        border, nearest: as the reference takes them.
    """

    image: Any
    shape: Any
    maps: Any
    control: Any
    grid: Any
    first: Any
    weights: Any
    runs: Any
    along: Any
    size: Any
    border: bool
    nearest: bool


@fused
def _plane(call, b, z, plane):  # type: ignore[no-untyped-def]
    """The spline's numbers in a slice."""
    noinline()
    numbers, first, weights = call.control[b % len(call.control)], call.first[0][z], call.weights[0][z]
    size = plane.shape[1]
    for c in range(3):
        at, into = (c * call.grid[0] + first) * size, plane[c]
        p, q, r, s = numbers[at:], numbers[at + size :], numbers[at + 2 * size :], numbers[at + 3 * size :]
        for k in range(size):
            into[k] = weights[0] * p[k] + weights[1] * q[k] + weights[2] * r[k] + weights[3] * s[k]


@fused
def _line(call, plane, y, line):  # type: ignore[no-untyped-def]
    """The spline's numbers in a row of the slice."""
    noinline()
    first, weights, size = call.first[1][y], call.weights[1][y], line.shape[1]
    for c in range(3):
        rows, into = plane[c, first * size :], line[c]
        for k in range(size):
            into[k] = (
                weights[0] * rows[k]
                + weights[1] * rows[size + k]
                + weights[2] * rows[2 * size + k]
                + weights[3] * rows[3 * size + k]
            )


@fused
def _start(start, point):  # type: ignore[no-untyped-def]
    for u in range(len(point)):
        point[u] = start


@fused
def _bend(a, b, c, d, w0, w1, w2, w3, point):  # type: ignore[no-untyped-def]
    noinline()
    for u in range(len(point)):
        point[u] += a * w0[u] + b * w1[u] + c * w2[u] + d * w3[u]


@fused
def _mapped(p, q, r, s, x, y, z, at):  # type: ignore[no-untyped-def]
    noinline()
    for u in range(len(at)):
        at[u] = p * x[u] + q * y[u] + r * z[u] + s


@fused
def _places(call, b, z, y, spline, floats):  # type: ignore[no-untyped-def]
    """Where a row's voxels lie after the field, and where they read; returns the map. A slice begins with its first row."""
    noinline()
    m, cast, runs, along = call.maps[b % len(call.maps)], floats.dtype.type, call.runs, call.along
    plane, line = spline
    for u in range(floats.shape[1]):
        floats[0, u] = cast(u)
    _start(cast(y), floats[1])
    _start(cast(z), floats[2])
    if call.grid[2] > 0:
        if y == 0:
            _plane(call, b, z, plane)
        _line(call, plane, y, line)
        for c in range(3):
            for k in range(len(runs) - 1):
                o, e = runs[k], runs[k + 1]
                _bend(
                    line[c, k], line[c, k + 1], line[c, k + 2], line[c, k + 3],
                    along[0, o:e], along[1, o:e], along[2, o:e], along[3, o:e], floats[c, o:e],
                )  # fmt: skip
    for i in range(3):
        _mapped(m[4 * i], m[4 * i + 1], m[4 * i + 2], m[4 * i + 3], floats[0], floats[1], floats[2], floats[_AT + i])
    return m


@fused
def _nearest(at, length, border, place, seen):  # type: ignore[no-untyped-def]
    """The nearest voxel along an axis, and whether there is one."""
    noinline()
    cast = at.dtype.type
    zero, last, far = cast(0.0), cast(length - 1), cast(np.inf)
    for u in range(len(at)):
        known = abs(at[u]) < far
        a = at[u] if known else zero
        low = np.floor((min(max(a, zero), last) if border else a) + cast(0.5))
        inside = known & (low >= zero) & (low <= last)
        place[u], seen[u] = np.int32(low if inside else zero), np.int32(1) if inside else np.int32(0)


@fused
def _join_nearest(i, j, k, shape, seen, base):  # type: ignore[no-untyped-def]
    noinline()
    tall, wide = np.int64(shape[1]), np.int64(shape[2])
    for u in range(len(base)):
        inside = (seen[0, u] & seen[1, u] & seen[2, u]) != 0
        base[u] = (np.int64(k[u]) * tall + np.int64(j[u])) * wide + np.int64(i[u]) if inside else np.int64(-1)


@fused
def _find_nearest(call, floats, whole, base):  # type: ignore[no-untyped-def]
    """The voxel that each of a row's points reads, or -1."""
    for i in range(3):
        _nearest(floats[_AT + i], call.shape[2 - i], call.border, whole[i], whole[3 + i])
    _join_nearest(whole[0], whole[1], whole[2], call.shape, whole[3:], base)


@fused
def _taps(at, length, border, place, step, low, high, down, up):  # type: ignore[no-untyped-def]
    """Along an axis the first of two voxels, the way to the second, their weights, and how these grow with the coordinate."""
    noinline()
    cast = at.dtype.type
    zero, one, two, last = cast(0.0), cast(1.0), cast(2.0), cast(length - 1)
    for u in range(len(at)):
        a = at[u]
        if border:
            moves = (a >= zero) & (a < last)
            a = a if a > zero else zero
            a = a if a < last else last
        else:
            moves = (a > -two) & (a < last + two)
            a = a if moves else -two
        base = np.floor(a)
        share, here, there = a - base, (base >= zero) & (base <= last), (base >= -one) & (base < last)
        low[u], high[u] = one - share if here else zero, share if there else zero
        down[u], up[u] = -one if here & moves else zero, one if there & moves else zero
        place[u] = np.int32(min(max(base, zero), last))
        step[u] = np.int32(1) if here & there else np.int32(0)


@fused
def _join(i, j, k, steps, at, shape, base):  # type: ignore[no-untyped-def]
    """Each point's first voxel, -1 where it is not known, and the ways to those behind it."""
    noinline()
    cast = at.dtype.type
    far, tall, wide = cast(np.inf), np.int64(shape[1]), np.int64(shape[2])
    for u in range(base.shape[1]):
        known = (abs(at[0, u]) < far) & (abs(at[1, u]) < far) & (abs(at[2, u]) < far)
        place = (np.int64(k[u]) * tall + np.int64(j[u])) * wide + np.int64(i[u])
        base[0, u] = place if known else np.int64(-1)
        base[1, u], base[2, u], base[3, u] = steps[0, u], steps[1, u] * wide, steps[2, u] * (tall * wide)


@fused
def _find(call, floats, whole, base):  # type: ignore[no-untyped-def]
    """The voxels around a row's points, and what they count."""
    for i in range(3):
        w = floats[_WEIGHT + 2 * i :]
        s = floats[_SLOPE + 2 * i :]
        _taps(floats[_AT + i], call.shape[2 - i], call.border, whole[i], whole[3 + i], w[0], w[1], s[0], s[1])
    _join(whole[0], whole[1], whole[2], whole[3:], floats[_AT:], call.shape, base)


@fused
def _eight(base, u):  # type: ignore[no-untyped-def]
    """The voxels around a point: of the four rows the first, and the way to the second."""
    inlined()
    p, right = np.uint64(max(base[0, u], 0)), np.uint64(base[1, u])
    q, behind = p + np.uint64(base[2, u]), np.uint64(base[3, u])
    return p, q, p + behind, q + behind, right


@fused
def _read(x, base, weights, out):  # type: ignore[no-untyped-def]
    noinline()
    zero = out.dtype.type(0.0)
    wi0, wi1, wj0, wj1, wk0, wk1 = weights[0], weights[1], weights[2], weights[3], weights[4], weights[5]
    for u in range(len(out)):
        p, q, r, s, right = _eight(base, u)
        front = wj0[u] * (wi0[u] * x[p] + wi1[u] * x[p + right]) + wj1[u] * (wi0[u] * x[q] + wi1[u] * x[q + right])
        back = wj0[u] * (wi0[u] * x[r] + wi1[u] * x[r + right]) + wj1[u] * (wi0[u] * x[s] + wi1[u] * x[s + right])
        out[u] = wk0[u] * front + wk1[u] * back if base[0, u] >= 0 else zero


@fused
def _room(call, kind):  # type: ignore[no-untyped-def]
    width, grid = call.size[2], call.grid
    spline = np.empty((3, grid[1] * grid[2]), kind), np.empty((3, grid[2]), kind)
    return spline, np.empty((18, width), kind), np.empty((6, width), np.int32)


@entry
def sample(call, out, start, stop):  # type: ignore[no-untyped-def]
    """The slices start <= r < stop of all samples' outputs, one after the other."""
    call, out = without_refcount((call, out))
    depth, height, width = call.size
    (spline, floats, whole), base = _room(call, out.dtype), np.empty((4, width), np.int64)
    for r in range(start, stop):
        b, z = r // depth, r % depth
        for y in range(height):
            _places(call, b, z, y, spline, floats)
            _find(call, floats, whole, base)
            into = (z * height + y) * width
            for c in range(out.shape[1]):
                _read(call.image[b, c], base, floats[_WEIGHT:], out[b, c, into : into + width])


@fused
def _pick(x, base, out):  # type: ignore[no-untyped-def]
    noinline()
    zero = out.dtype.type(0)
    for u in range(len(out)):
        found = x[np.uint64(max(base[u], 0))]
        out[u] = found if base[u] >= 0 else zero


@entry
def pick(call, out, start, stop):  # type: ignore[no-untyped-def]
    """The same of the nearest voxels, which may be of any kind."""
    call, out = without_refcount((call, out))
    depth, height, width = call.size
    (spline, floats, whole), base = _room(call, call.maps.dtype), np.empty(width, np.int64)
    for r in range(start, stop):
        b, z = r // depth, r % depth
        for y in range(height):
            _places(call, b, z, y, spline, floats)
            _find_nearest(call, floats, whole, base)
            into = (z * height + y) * width
            for c in range(out.shape[1]):
                _pick(call.image[b, c], base, out[b, c, into : into + width])


@fused
def _drop(g, base, t):  # type: ignore[no-untyped-def]
    """The adjoint of :func:`_pick`."""
    noinline()
    for u in range(len(g)):
        if base[u] >= 0:
            t[np.uint64(base[u])] += g[u]


@fused
def _add(g, base, weights, t):  # type: ignore[no-untyped-def]
    """The adjoint of :func:`_read`."""
    noinline()
    wi0, wi1, wj0, wj1, wk0, wk1 = weights[0], weights[1], weights[2], weights[3], weights[4], weights[5]
    for u in range(len(g)):
        if base[0, u] < 0:
            continue
        p, q, r, s, right = _eight(base, u)
        front, back, left, other = g[u] * wk0[u], g[u] * wk1[u], wi0[u], wi1[u]
        over, under = front * wj0[u], front * wj1[u]
        t[p] += over * left
        t[p + right] += over * other
        t[q] += under * left
        t[q + right] += under * other
        over, under = back * wj0[u], back * wj1[u]
        t[r] += over * left
        t[r + right] += over * other
        t[s] += under * left
        t[s + right] += under * other


@fused
def _tilt(x, g, base, weights, slopes, first, to_x, to_y, to_z):  # type: ignore[no-untyped-def]
    """Gradient times slopes, summed over channels."""
    noinline()
    zero = g.dtype.type(0.0)
    wi0, wi1, wj0, wj1, wk0, wk1 = weights[0], weights[1], weights[2], weights[3], weights[4], weights[5]
    si0, si1, sj0, sj1, sk0, sk1 = slopes[0], slopes[1], slopes[2], slopes[3], slopes[4], slopes[5]
    for u in range(len(g)):
        p, q, r, s, right = _eight(base, u)
        x0, x1, x2, x3 = x[p], x[p + right], x[q], x[q + right]
        x4, x5, x6, x7 = x[r], x[r + right], x[s], x[s + right]
        a, d, e, f = wi0[u] * x0 + wi1[u] * x1, wi0[u] * x2 + wi1[u] * x3, wi0[u] * x4 + wi1[u] * x5, wi0[u] * x6 + wi1[u] * x7
        near = wj0[u] * (si0[u] * x0 + si1[u] * x1) + wj1[u] * (si0[u] * x2 + si1[u] * x3)
        far = wj0[u] * (si0[u] * x4 + si1[u] * x5) + wj1[u] * (si0[u] * x6 + si1[u] * x7)
        known, value = base[0, u] >= 0, g[u]
        gx = value * (wk0[u] * near + wk1[u] * far)
        gy = value * (wk0[u] * (sj0[u] * a + sj1[u] * d) + wk1[u] * (sj0[u] * e + sj1[u] * f))
        gz = value * (sk0[u] * (wj0[u] * a + wj1[u] * d) + sk1[u] * (wj0[u] * e + wj1[u] * f))
        gx, gy, gz = gx if known else zero, gy if known else zero, gz if known else zero
        to_x[u], to_y[u], to_z[u] = (gx, gy, gz) if first else (to_x[u] + gx, to_y[u] + gy, to_z[u] + gz)


@summing
def _sums(g, x, y, z):  # type: ignore[no-untyped-def]
    """Sums of g times x, y and z, and of g; where it is zero, nothing else matters."""
    noinline()
    zero = g.dtype.type(0.0)
    with_x = with_y = with_z = alone = 0.0
    for u in range(len(g)):
        value, counts = np.float64(g[u]), g[u] != zero
        with_x += value * np.float64(x[u] if counts else zero)
        with_y += value * np.float64(y[u] if counts else zero)
        with_z += value * np.float64(z[u] if counts else zero)
        alone += value
    return with_x, with_y, with_z, alone


@fused
def _before_map(m, g):  # type: ignore[no-untyped-def]
    """The gradient of where points lie after the field, of that of where they read, in place."""
    noinline()
    zero = g.dtype.type(0.0)
    for u in range(g.shape[1]):
        gx, gy, gz = g[0, u], g[1, u], g[2, u]
        counts = (gx != zero) | (gy != zero) | (gz != zero)
        g[0, u] = m[0] * gx + m[4] * gy + m[8] * gz if counts else zero
        g[1, u] = m[1] * gx + m[5] * gy + m[9] * gz if counts else zero
        g[2, u] = m[2] * gx + m[6] * gy + m[10] * gz if counts else zero


@summing
def _weighed(g, a, b, c, d):  # type: ignore[no-untyped-def]
    noinline()
    with_a = with_b = with_c = with_d = 0.0
    for u in range(len(g)):
        value = np.float64(g[u])
        with_a += value * np.float64(a[u])
        with_b += value * np.float64(b[u])
        with_c += value * np.float64(c[u])
        with_d += value * np.float64(d[u])
    return with_a, with_b, with_c, with_d


@fused
def _unplace(call, g, y, to_line, to_plane):  # type: ignore[no-untyped-def]
    """Add the gradient of a row's displacements to that of the spline's numbers in its slice."""
    noinline()
    runs, along, first, weights, size = call.runs, call.along, call.first[1][y], call.weights[1][y], call.grid[2]
    for c in range(3):
        to_line[:] = 0.0
        for k in range(len(runs) - 1):
            o, e = runs[k], runs[k + 1]
            sums = _weighed(g[c, o:e], along[0, o:e], along[1, o:e], along[2, o:e], along[3, o:e])
            for i in range(4):
                to_line[k + i] += sums[i]
        for j in range(4):
            for k in range(size):
                to_plane[c, (first + j) * size + k] += weights[j] * to_line[k]


@fused
def _unplane(call, z, to_plane, into):  # type: ignore[no-untyped-def]
    """Add that to the gradient of the spline's numbers, and begin anew."""
    noinline()
    size, first, weights = to_plane.shape[1], call.first[0][z], call.weights[0][z]
    for c in range(3):
        for i in range(4):
            at = (c * call.grid[0] + first + i) * size
            for k in range(size):
                into[at + k] += weights[i] * to_plane[c, k]
    to_plane[:] = 0.0


@entry
def unsample(call, grad, needs, to_image, to_map, to_control, start, stop):  # type: ignore[no-untyped-def]
    """Gradients of the samples start <= b < stop; ``needs`` is (image, map, control). What they are added to is zero before."""
    call, grad, to_image, to_map, to_control = without_refcount((call, grad, to_image, to_map, to_control))
    (depth, height, width), channels, nearest = call.size, grad.shape[1], call.nearest
    needs_image, needs_map, needs_control = needs
    slopes = (needs_map or needs_control) and not nearest
    (spline, floats, whole), base = _room(call, grad.dtype), np.empty((4, width), np.int64)
    g, to_line, to_plane = np.empty((3, width), grad.dtype), np.empty(call.grid[2]), np.zeros((3, call.grid[1] * call.grid[2]))
    for b in range(start, stop):
        for r in range(depth * height):
            z, y = r // height, r % height
            m = _places(call, b, z, y, spline, floats)
            if nearest:
                _find_nearest(call, floats, whole, base[0])
            else:
                _find(call, floats, whole, base)
            for c in range(channels):
                row = grad[b, c, r * width : (r + 1) * width]
                if needs_image and nearest:
                    _drop(row, base[0], to_image[b, c])
                elif needs_image:
                    _add(row, base, floats[_WEIGHT:], to_image[b, c])
                if slopes:
                    _tilt(call.image[b, c], row, base, floats[_WEIGHT:], floats[_SLOPE:], c == 0, g[0], g[1], g[2])
            if needs_map and slopes:
                for i in range(3):
                    sums = _sums(g[i], floats[0], floats[1], floats[2])
                    for k in range(4):
                        to_map[b, 4 * i + k] += sums[k]
            if needs_control and slopes:
                _before_map(m, g)
                _unplace(call, g, y, to_line, to_plane)
                if y == height - 1:
                    _unplane(call, z, to_plane, to_control[b])
