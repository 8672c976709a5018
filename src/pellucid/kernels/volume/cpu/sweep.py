"""Row by row through a volume, forward and backward.

Owns: the arithmetic of ``../reference.py``, compiled.
Must not: know of tensors.
Read next: ``__init__.py``.

A row of the output has one height and one depth: there the field is a spline along x alone, whose numbers are made once a row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid.kernels.jit import entry, fused, inlined, noinline, without_refcount

__all__ = ["Call", "sample", "unsample"]


@fused
def _line(control, grid, first, weights, z, y, line):  # type: ignore[no-untyped-def]
    """The numbers of the three displacements along a row."""
    noinline()
    zero = line.dtype.type(0.0)
    for c in range(3):
        for k in range(grid[2]):
            line[c, k] = zero
        for i in range(4):
            for j in range(4):
                weight = weights[0][z, i] * weights[1][y, j]
                at = ((c * grid[0] + first[0][z] + i) * grid[1] + first[1][y] + j) * grid[2]
                for k in range(grid[2]):
                    line[c, k] += weight * control[at + k]


@fused
def _places(m, line, first, weights, z, y, points, at):  # type: ignore[no-untyped-def]
    """Where a row of voxels lies after the field (``points``), and where it reads (``at``), both x, y, z."""
    noinline()
    cast = at.dtype.type
    tall, deep = cast(y), cast(z)
    bends = line.shape[1] > 0
    for u in range(at.shape[1]):
        x, v, w = cast(u), tall, deep
        if bends:
            k = first[u]
            p, q, r, s = weights[u, 0], weights[u, 1], weights[u, 2], weights[u, 3]
            x += p * line[0, k] + q * line[0, k + 1] + r * line[0, k + 2] + s * line[0, k + 3]
            v += p * line[1, k] + q * line[1, k + 1] + r * line[1, k + 2] + s * line[1, k + 3]
            w += p * line[2, k] + q * line[2, k + 1] + r * line[2, k + 2] + s * line[2, k + 3]
        points[0, u], points[1, u], points[2, u] = x, v, w
        at[0, u] = m[0] * x + m[1] * v + m[2] * w + m[3]
        at[1, u] = m[4] * x + m[5] * v + m[6] * w + m[7]
        at[2, u] = m[8] * x + m[9] * v + m[10] * w + m[11]


@fused
def _taps(a, length, border, nearest):  # type: ignore[no-untyped-def]
    """Two neighbours along an axis with their weights, and by how much the second's weight grows with the coordinate."""
    cast = type(a)
    zero, one, last = cast(0.0), cast(1.0), cast(length - 1)
    slope = zero if nearest else one
    if border:
        slope = slope if (a >= zero) & (a < last) else zero
        a = min(max(a, zero), last)
    elif not ((a > cast(-2.0)) & (a < last + cast(2.0))):
        a, slope = cast(-2.0), zero
    base = np.floor(a + (cast(0.5) if nearest else zero))
    i = np.int64(base)
    share = zero if nearest else a - base
    here, there = (i >= 0) & (i < length), (i + 1 >= 0) & (i + 1 < length)
    low, high = (one - share if here else zero), (share if there else zero)
    down, up = (-slope if here else zero), (slope if there else zero)
    return min(max(i, 0), length - 1), min(max(i + 1, 0), length - 1), low, high, down, up


class Call(NamedTuple):
    """What one call's rows share.

    Args:
        image: (b, channels, voxels), of a ``shape`` (depth, height, width).
        maps, control: (b or 1, 12), and numbers of the spline (b or 1, n), n of a ``grid``; where there is none, none.
        first, weights: of each axis, as ``../knots.py`` has them.
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
    size: Any
    border: bool
    nearest: bool


@fused
def _row(call, b, z, y, room):  # type: ignore[no-untyped-def]
    """The places of a row of sample b, in ``room``: the spline's numbers along it, its points, and where they read."""
    m, numbers = call.maps[b % len(call.maps)], call.control[b % len(call.control)]
    line, points, at = room
    if call.grid[2] > 0:
        _line(numbers, call.grid, call.first, call.weights, z, y, line)
    _places(m, line, call.first[2], call.weights[2], z, y, points, at)
    return m


@fused
def _room(call):  # type: ignore[no-untyped-def]
    kind, width = call.image.dtype, call.size[2]
    return np.empty((3, call.grid[2]), kind), np.empty((3, width), kind), np.empty((3, width), kind)


@fused
def _corner(call, at, u):  # type: ignore[no-untyped-def]
    """Of a point: whether it is known, the taps along x, y and z, and where the four rows of voxels around it begin."""
    inlined()
    shape, zero = call.shape, at.dtype.type(0.0)
    known = np.isfinite(at[0, u]) & np.isfinite(at[1, u]) & np.isfinite(at[2, u])
    i = _taps(at[0, u] if known else zero, shape[2], call.border, call.nearest)
    j = _taps(at[1, u] if known else zero, shape[1], call.border, call.nearest)
    k = _taps(at[2, u] if known else zero, shape[0], call.border, call.nearest)
    near, far = k[0] * shape[1], k[1] * shape[1]
    rows = (near + j[0]) * shape[2], (near + j[1]) * shape[2], (far + j[0]) * shape[2], (far + j[1]) * shape[2]
    return known, i, j, k, rows


@entry
def sample(call, out, start, stop):  # type: ignore[no-untyped-def]
    """The slices start <= r < stop of all samples' outputs, one after the other."""
    call, out = without_refcount((call, out))
    depth, height, width = call.size
    room = _room(call)
    at = room[2]
    for r in range(start, stop):
        b, z = r // depth, r % depth
        for y in range(height):
            _row(call, b, z, y, room)
            into = (z * height + y) * width
            for u in range(width):
                known, across, over, along, rows = _corner(call, at, u)
                (i0, i1, wi0, wi1, _, _), (wj0, wj1, _, _), (wk0, wk1, _, _) = across, over[2:], along[2:]
                p00, p01, p10, p11 = rows
                for c in range(out.shape[1]):
                    x = call.image[b, c]
                    front = wj0 * (wi0 * x[p00 + i0] + wi1 * x[p00 + i1]) + wj1 * (wi0 * x[p01 + i0] + wi1 * x[p01 + i1])
                    back = wj0 * (wi0 * x[p10 + i0] + wi1 * x[p10 + i1]) + wj1 * (wi0 * x[p11 + i0] + wi1 * x[p11 + i1])
                    out[b, c, into + u] = wk0 * front + wk1 * back if known else at.dtype.type(0.0)


@fused
def _to_line(g, first, weights, to_line):  # type: ignore[no-untyped-def]
    """The gradient of a row's displacements, to its spline's numbers."""
    noinline()
    to_line[:] = 0.0
    for c in range(3):
        for u in range(g.shape[1]):
            k, value = first[u], np.float64(g[c, u])
            for i in range(4):
                to_line[c, k + i] += weights[u, i] * value


@entry
def unsample(call, grad, needs, to_image, to_map, to_control, start, stop):  # type: ignore[no-untyped-def]
    """Gradients of the samples start <= b < stop; ``needs`` is (image, map, control). What they are added to is zero before."""
    call, grad, to_image, to_map, to_control = without_refcount((call, grad, to_image, to_map, to_control))
    (depth, height, width), grid, first, weights = call.size, call.grid, call.first, call.weights
    needs_image, needs_map, needs_control = needs
    slopes = needs_map or needs_control
    zero, room = grad.dtype.type(0.0), _room(call)
    points, at = room[1], room[2]
    g, to_line = np.empty((3, width), grad.dtype), np.empty((3, grid[2]))
    for b in range(start, stop):
        for r in range(depth * height):
            z, y = r // height, r % height
            m = _row(call, b, z, y, room)
            for u in range(width):
                known, across, over, along, rows = _corner(call, at, u)
                (i0, i1, wi0, wi1, si0, si1), (wj0, wj1, sj0, sj1), (wk0, wk1, sk0, sk1) = across, over[2:], along[2:]
                p00, p01, p10, p11 = rows
                gx = gy = gz = zero
                if known:
                    for c in range(grad.shape[1]):
                        value = grad[b, c, r * width + u]
                        if needs_image:
                            t = to_image[b, c]
                            front, back = value * wk0, value * wk1
                            t[p00 + i0] += front * wj0 * wi0
                            t[p00 + i1] += front * wj0 * wi1
                            t[p01 + i0] += front * wj1 * wi0
                            t[p01 + i1] += front * wj1 * wi1
                            t[p10 + i0] += back * wj0 * wi0
                            t[p10 + i1] += back * wj0 * wi1
                            t[p11 + i0] += back * wj1 * wi0
                            t[p11 + i1] += back * wj1 * wi1
                        if slopes:
                            x = call.image[b, c]
                            a, d = wi0 * x[p00 + i0] + wi1 * x[p00 + i1], wi0 * x[p01 + i0] + wi1 * x[p01 + i1]
                            e, f = wi0 * x[p10 + i0] + wi1 * x[p10 + i1], wi0 * x[p11 + i0] + wi1 * x[p11 + i1]
                            near = wj0 * (si0 * x[p00 + i0] + si1 * x[p00 + i1]) + wj1 * (si0 * x[p01 + i0] + si1 * x[p01 + i1])
                            far = wj0 * (si0 * x[p10 + i0] + si1 * x[p10 + i1]) + wj1 * (si0 * x[p11 + i0] + si1 * x[p11 + i1])
                            gx += value * (wk0 * near + wk1 * far)
                            gy += value * (wk0 * (sj0 * a + sj1 * d) + wk1 * (sj0 * e + sj1 * f))
                            gz += value * (sk0 * (wj0 * a + wj1 * d) + sk1 * (wj0 * e + wj1 * f))
                g[0, u], g[1, u], g[2, u] = gx, gy, gz
            if needs_map:
                for i in range(3):
                    for u in range(width):
                        value = np.float64(g[i, u])
                        if value != 0.0:
                            to_map[b, 4 * i] += value * points[0, u]
                            to_map[b, 4 * i + 1] += value * points[1, u]
                            to_map[b, 4 * i + 2] += value * points[2, u]
                            to_map[b, 4 * i + 3] += value
            if needs_control:
                for u in range(width):
                    gx, gy, gz = g[0, u], g[1, u], g[2, u]
                    if (gx != zero) | (gy != zero) | (gz != zero):
                        g[0, u] = m[0] * gx + m[4] * gy + m[8] * gz
                        g[1, u] = m[1] * gx + m[5] * gy + m[9] * gz
                        g[2, u] = m[2] * gx + m[6] * gy + m[10] * gz
                _to_line(g, first[2], weights[2], to_line)
                for c in range(3):
                    for i in range(4):
                        for j in range(4):
                            weight = np.float64(weights[0][z, i]) * weights[1][y, j]
                            place = ((c * grid[0] + first[0][z] + i) * grid[1] + first[1][y] + j) * grid[2]
                            for k in range(grid[2]):
                                to_control[b, place + k] += weight * to_line[c, k]
