"""Rows through a volume, a few at a time, forward and backward.

Owns: the arithmetic of ``../reference.py``, compiled.
Must not: know of tensors.
Read next: ``eights.py``.

A row of the output has one height and one depth: there the field is a spline along x alone, whose numbers are made once a row. Each
step is a loop of its own over scratch memory for some rows, so that it becomes vectors. Coordinates are float64 for every
dtype: at 128 a float32 is good to the eighth part of a thousandth, and a volume changes by that much of its contrast.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid.kernels.jit import entry, fused, summing
from pellucid.kernels.volume.cpu.eights import add, bend, meet, tilt

__all__ = ["Call", "elect", "sample", "unsample"]

_VOXELS = 512  # of some rows; their scratch memory stays in the first cache


class Call(NamedTuple):
    """What one call's rows share.

    Args:
        image: (b, channels, voxels), of a ``shape`` (depth, height, width), of at least two columns.
        maps, control: (b or 1, 12), and numbers of the spline (b or 1, n), on a ``grid``; empty if there is none.
        first, weights: of each axis, as ``../knots.py`` has them, of each sample (b or 1).
        basis: (b or 1, numbers, voxels): the weight of each number of a row at each voxel, and at eight more.
        spans: (b or 1, 2, numbers): the first voxel of a row that each number moves, and the one behind its last.
        copies: of each sample (b or 1), whether it only moves whole voxels along the axes, or mirrors them.
        size: of the output.
        columns: the numbers of its columns, as float64.
        first_voxel: the output's first voxel (depth, height, width) of a larger one.
        whole, corner, held: of each axis of the volume that the image is a block of, how long it is, where the block begins, and
            how many voxels it has there, without columns that were added.
        border: as the reference takes it.
        places: an empty array of the dtype of voxels' places.
    """

    image: Any
    shape: Any
    maps: Any
    control: Any
    grid: Any
    first: Any
    weights: Any
    basis: Any
    spans: Any
    copies: Any
    size: Any
    columns: Any
    first_voxel: Any
    whole: Any
    corner: Any
    held: Any
    border: bool
    places: Any


@fused.noinline
def _blend(numbers, first, weights, step, line, into):  # type: ignore[no-untyped-def]
    """Blend four lines, from the ``first`` on, of each of three grids, ``step`` numbers apart, into one."""
    for c in range(3):
        at = c * step + first * line
        p, q, r, s = numbers[at:], numbers[at + line :], numbers[at + 2 * line :], numbers[at + 3 * line :]
        for k in range(line):
            into[c * line + k] = weights[0] * p[k] + weights[1] * q[k] + weights[2] * r[k] + weights[3] * s[k]


@fused.noinline
def _unblend(numbers, first, weights, step, line, into):  # type: ignore[no-untyped-def]
    """The adjoint of :func:`_blend`: add ``into`` to the gradient of ``numbers``."""
    for c in range(3):
        for i in range(4):
            at = c * step + (first + i) * line
            for k in range(line):
                numbers[at + k] += weights[i] * into[c * line + k]


@fused.noinline
def _straight(p, x, s, at):  # type: ignore[no-untyped-def]
    for u in range(len(at)):
        at[u] = p * x[u] + s


@fused.noinline
def _bent(line, size, first, basis, width, at, o, stride):  # type: ignore[no-untyped-def]
    weights, into, columns = basis.reshape(-1), at.reshape(-1), basis.shape[1]
    for u in range(0, width, 8):
        k = first[u]
        bend(line, size, k, first[min(u + 7, width - 1)] + 4 - k, weights, u, columns, into, o + u, stride)


@fused.noinline
def _locate(call, b, z, y, rows, enters, spline, at):  # type: ignore[no-untyped-def]
    """Compute where some rows' voxels read; ``enters``: the rows before were of another slice."""
    m, width, (gd, gh, gw), (plane, line) = call.maps[b % len(call.maps)], call.size[2], call.grid, spline
    t, (before, above, _) = b % len(call.basis), call.first_voxel
    if gw > 0 and enters:
        _blend(call.control[b % len(call.control)], call.first[0][t, z], call.weights[0][t, z], gd * gh * gw, gh * gw, plane)
    for r in range(rows):
        for i in range(3):
            start = m[4 * i + 1] * (y + r + above) + m[4 * i + 2] * (z + before) + m[4 * i + 3]
            _straight(m[4 * i], call.columns, start, at[i, r * width : (r + 1) * width])
        if gw > 0:
            _blend(plane, call.first[1][t, y + r], call.weights[1][t, y + r], gh * gw, gw, line)
            _bent(line, gw, call.first[2][t], call.basis[t], width, at, r * width, at.shape[1])


@fused.noinline
def _nearest(at, axis, border, place, seen):  # type: ignore[no-untyped-def]
    """The nearest voxel along an axis, and whether the block holds it."""
    length, corner, held = axis
    last, least, most = np.float64(length - 1), np.float64(corner), np.float64(corner + held - 1)
    for u in range(len(at)):
        known = abs(at[u]) < np.inf
        a = at[u] if known else 0.0
        low = np.floor((min(max(a, 0.0), last) if border else a) + 0.5)
        inside = known & (low >= least) & (low <= most)
        place[u], seen[u] = np.int32(low - least if inside else 0.0), np.int32(1) if inside else np.int32(0)


@fused.noinline
def _taps(at, axis, border, place, low, high):  # type: ignore[no-untyped-def]
    """Along an axis the first of two voxels, and their weights: 1 less the distance, 0 from a distance of 1 on, and 0 for NaN."""
    cast, (length, corner, held) = low.dtype.type, axis
    zero, one, last = cast(0.0), cast(1.0), np.float64(length - 1)
    least, reach = np.float64(corner), one if held > 1 else zero  # of one voxel the second counts nothing
    top = least + max(np.float64(held) - 2.0, 0.0)
    for u in range(len(at)):
        a = at[u]
        if border:
            a = a + (a - a)  # infinity becomes NaN
            a = 0.0 if a < 0.0 else a
            a = last if a > last else a
        base = np.floor(a)
        base = base if base > least else least
        base = base if base < top else top
        share = cast(a - base)
        left, right = abs(share), abs(share - one)
        low[u] = one - left if left < one else zero
        high[u] = one - right if right < reach else zero
        place[u] = np.int32(base - least)


@fused.noinline
def _slopes(at, axis, border, place, down, up):  # type: ignore[no-untyped-def]
    """The slopes of both weights of :func:`_taps` in the coordinate, taken from the right."""
    cast, (length, corner, held) = down.dtype.type, axis
    zero, one, last, reach = cast(0.0), cast(1.0), np.float64(length - 1), 1.0 if held > 1 else -1.0
    for u in range(len(at)):
        share = at[u] - (np.float64(place[u]) + np.float64(corner))
        moves = (at[u] >= 0.0) & (at[u] < last) if border else abs(at[u]) < np.inf
        down[u] = (-one if share >= 0.0 else one) if moves & (share >= -1.0) & (share < 1.0) else zero
        up[u] = (-one if share >= 1.0 else one) if moves & (share >= 0.0) & (share < 1.0 + reach) else zero


@fused.noinline
def _join(i, j, k, shape, base):  # type: ignore[no-untyped-def]
    kind = base.dtype.type
    tall, wide = kind(shape[1]), kind(shape[2])
    for u in range(len(base)):
        base[u] = (kind(k[u]) * tall + kind(j[u])) * wide + kind(i[u])


@fused.noinline
def _hide(seen, base):  # type: ignore[no-untyped-def]
    for u in range(len(base)):
        base[u] = base[u] if (seen[0, u] & seen[1, u] & seen[2, u]) != 0 else -1


@fused
def _axis(call, i):  # type: ignore[no-untyped-def]
    return call.whole[i], call.corner[i], call.held[i]


@fused
def _find_nearest(call, at, count, room):  # type: ignore[no-untyped-def]
    """The voxel that each point reads, or -1."""
    _, whole, base = room
    for i in range(3):
        _nearest(at[i, :count], _axis(call, 2 - i), call.border, whole[i], whole[3 + i])
    _join(whole[0, :count], whole[1], whole[2], call.shape, base[:count])
    _hide(whole[3:], base[:count])


@fused
def _find(call, at, count, room, slopes):  # type: ignore[no-untyped-def]
    """The first of the voxels around each point, their weights, and with ``slopes`` those of the weights."""
    floats, whole, base = room
    for i in range(3):
        axis = _axis(call, 2 - i)
        _taps(at[i, :count], axis, call.border, whole[i], floats[2 * i], floats[2 * i + 1])
        if slopes:
            _slopes(at[i, :count], axis, call.border, whole[i], floats[6 + 2 * i], floats[7 + 2 * i])
    _join(whole[0, :count], whole[1], whole[2], call.shape, base[:count])


@fused.noinline
def _read(x, row, step, base, floats, rest, out):  # type: ignore[no-untyped-def]
    weights, stride, whole = floats.reshape(-1), floats.shape[1], len(out) // 8 * 8
    for u in range(0, whole, 8):
        meet(x, base, u, row, step, weights, stride, out, u)
    if whole < len(out):
        meet(x, base, whole, row, step, weights, stride, rest, 0)
        out[whole:] = rest[: len(out) - whole]


@fused
def _room(call, kind, rows):  # type: ignore[no-untyped-def]
    """(numbers of the field in a slice and in a row), where voxels read, and (weights and slopes, places along axes, places)."""
    grid, n = call.grid, (rows * call.size[2] + 7) // 8 * 8 + 8  # the field writes eight voxels at once
    spline = np.empty(3 * grid[1] * grid[2]), np.empty(3 * grid[2])
    return spline, np.zeros((3, n)), (np.empty((12, n), kind), np.empty((6, n), np.int32), np.empty(n, call.places.dtype))


@fused
def _steps(call):  # type: ignore[no-untyped-def]
    """Steps in memory from a voxel to the next row and slice; 0 where an axis has one voxel, whose second tap weighs nothing."""
    depth, height, width = call.shape
    return width if height > 1 else 0, height * width if depth > 1 else 0


@fused
def _rows(call):  # type: ignore[no-untyped-def]
    return max(1, min(_VOXELS // call.size[2], call.size[1]))


@fused.noinline
def _copied(call, b, z, y, rows, out):  # type: ignore[no-untyped-def]
    """Some rows of a sample whose map moves whole voxels along the axes, or mirrors them."""
    m, (depth, height, line), wide, width = call.maps[b % len(call.maps)], call.shape, call.held[2], call.size[2]
    (before, above, left), (front, over, beside) = call.first_voxel, call.corner
    step = np.int64(m[0])
    k, i = np.int64(m[10] * (z + before) + m[11]) - front, np.int64(m[3]) + step * left - beside
    for r in range(rows):
        j = np.int64(m[5] * (y + r + above) + m[7]) - over
        shown = call.border or ((0 <= k < depth) and (0 <= j < height))
        at = (min(max(k, 0), depth - 1) * height + min(max(j, 0), height - 1)) * line
        first = min(max(-i if step > 0 else i - wide + 1, 0), width) if shown else width  # of the columns that read voxels
        last = max(min(wide - i if step > 0 else i + 1, width), first)
        for c in range(out.shape[1]):
            row, into = call.image[b, c, at : at + line], out[b, c, (z * call.size[1] + y + r) * width :][:width]
            for u in range(first, last):
                into[u] = row[i + step * u]
            into[:first] = row[min(max(i, 0), wide - 1)] if call.border else out.dtype.type(0)
            into[last:] = row[min(max(i + step * (width - 1), 0), wide - 1)] if call.border else out.dtype.type(0)


@fused.noinline
def _pick(x, base, out):  # type: ignore[no-untyped-def]
    zero = out.dtype.type(0)
    for u in range(len(out)):
        found = x[np.uint64(max(base[u], 0))]
        out[u] = found if base[u] >= 0 else zero


@entry
def sample(call, between, out, start, stop):  # type: ignore[no-untyped-def]
    """Compute the slices start <= r < stop of all samples' outputs, one after the other.

    Args:
        between: None for the nearest voxels, which may have any dtype; interpolation is not compiled then.
    """
    (depth, height, width), most = call.size, _rows(call)
    spline, at, room = _room(call, out.dtype, most)
    steps, rest = _steps(call), np.empty(8, out.dtype)
    for r in range(start, stop):
        b, z = r // depth, r % depth
        for y in range(0, height, most):
            rows, into = min(most, height - y), (z * height + y) * width
            if call.copies[b % len(call.copies)]:
                _copied(call, b, z, y, rows, out)
                continue
            _locate(call, b, z, y, rows, y == 0, spline, at)
            if between is None:
                _find_nearest(call, at, rows * width, room)
                for c in range(out.shape[1]):
                    _pick(call.image[b, c], room[2], out[b, c, into : into + rows * width])
            else:
                _find(call, at, (rows * width + 7) // 8 * 8, room, False)
                for c in range(out.shape[1]):
                    _read(call.image[b, c], *steps, room[2], room[0], rest, out[b, c, into : into + rows * width])


@fused.noinline
def _vote(x, row, step, base, floats, each, votes):  # type: ignore[no-untyped-def]
    """Add the weights of the voxels around each point of a row to their labels' shares in the output voxel of that point."""
    labels, shares, many = votes
    for u in range(len(many) * each):
        o = u // each
        for corner in range(8):
            i, j, k = corner & 1, corner >> 1 & 1, corner >> 2
            share = floats[i, u] * floats[2 + j, u] * floats[4 + k, u]
            if share > 0.0:
                label, slot = x[base[u] + i + j * row + k * step], 0
                while slot < many[o] and labels[o, slot] != label:
                    slot += 1
                if slot == many[o]:
                    labels[o, slot], shares[o, slot], many[o] = label, 0.0, slot + 1
                shares[o, slot] += share


@fused.noinline
def _elect(votes, points, out):  # type: ignore[no-untyped-def]
    """The label with the greatest share, of equal ones the least; the share missing to ``points`` counts for label 0."""
    labels, shares, many = votes
    for o in range(len(out)):
        best, most = labels[o, 0], points - shares[o, 1 : many[o]].sum()
        for slot in range(1, many[o]):
            label, share = labels[o, slot], shares[o, slot]
            if share > most or (share == most and label < best):
                best, most = label, share
        out[o] = best


@entry
def elect(call, points, out, start, stop):  # type: ignore[no-untyped-def]
    """Write the label that each voxel of a coarser lattice shows most of; ``points`` (z, y, x) voxels of the call make one."""
    (depth, height, width), (deep, tall, wide) = call.size, points
    depth, height, width = depth // deep, height // tall, width // wide
    spline, at, room = _room(call, np.float64, 1)
    steps, most = _steps(call), 8 * deep * tall * wide + 1
    votes = np.empty((width, most), out.dtype), np.empty((width, most)), np.empty(width, np.int64)
    for r in range(start, stop):
        b, z = r // depth, r % depth
        for y in range(height):
            for c in range(out.shape[1]):
                votes[0][:, 0], votes[1][:, 0], votes[2][:] = 0, 0.0, 1
                for n in range(deep * tall):
                    _locate(call, b, z * deep + n // tall, y * tall + n % tall, 1, n % tall == 0, spline, at)
                    _find(call, at, (call.size[2] + 7) // 8 * 8, room, False)
                    _vote(call.image[b, c], *steps, room[2], room[0], wide, votes)
                _elect(votes, deep * tall * wide, out[b, c, (z * height + y) * width :][:width])


@fused.noinline
def _drop(g, base, t):  # type: ignore[no-untyped-def]
    """The adjoint of :func:`_pick`."""
    for u in range(len(g)):
        if base[u] >= 0:
            t[np.uint64(base[u])] += g[u]


@fused.noinline
def _add(g, row, step, base, floats, count, t):  # type: ignore[no-untyped-def]
    """The adjoint of :func:`_read`."""
    weights, stride = floats.reshape(-1), floats.shape[1]
    for u in range(0, count, 8):
        add(t, base, u, row, step, weights, stride, g)


@fused.noinline
def _tilt(x, g, row, step, base, floats, count, into):  # type: ignore[no-untyped-def]
    """Add the gradient times the slopes."""
    weights, stride, sums = floats.reshape(-1), floats.shape[1], into.reshape(-1)
    for u in range(0, count, 8):
        tilt(x, base, u, row, step, weights, stride, g, sums)


@summing.noinline
def _sums(g):  # type: ignore[no-untyped-def]
    """Sums of g times x, and of g."""
    with_x = alone = 0.0
    for u in range(len(g)):
        with_x += np.float64(g[u]) * np.float64(u)
        alone += np.float64(g[u])
    return with_x, alone


@summing.noinline
def _product(g, weights):  # type: ignore[no-untyped-def]
    total = 0.0
    for u in range(len(g)):
        total += np.float64(g[u]) * weights[u]
    return total


@fused.noinline
def _unlocate(call, b, z, y, rows, g, spline, needs, to_map, to_control):  # type: ignore[no-untyped-def]
    """Add the gradient of some rows' coordinates to those of the map and of the spline's numbers."""
    (needs_map, needs_control), width, (gd, gh, gw), (plane, line) = needs[1:], call.size[2], call.grid, spline
    t, (before, above, left) = b % len(call.basis), call.first_voxel
    spans, basis = call.spans[t], call.basis[t]
    for r in range(rows):
        row = g[:, r * width : (r + 1) * width]
        for i in range(3):
            if needs_map:
                with_x, alone = _sums(row[i])
                to_map[4 * i] += with_x + left * alone
                to_map[4 * i + 1] += (y + r + above) * alone
                to_map[4 * i + 2] += (z + before) * alone
                to_map[4 * i + 3] += alone
            if needs_control:
                for k in range(gw):
                    line[i * gw + k] = _product(row[i, spans[0, k] : spans[1, k]], basis[k, spans[0, k] :])
        if needs_control:
            _unblend(plane, call.first[1][t, y + r], call.weights[1][t, y + r], gh * gw, gw, line)
    if needs_control and y + rows == call.size[1]:
        _unblend(to_control, call.first[0][t, z], call.weights[0][t, z], gd * gh * gw, gh * gw, plane)
        plane[:] = 0.0


@entry
def unsample(call, grad, nearest, needs, to_image, to_map, to_control, start, stop):  # type: ignore[no-untyped-def]
    """Gradients of the samples start <= b < stop; ``needs`` is (image, map, control). They are added to memory that holds zeros."""
    (depth, height, width), most = call.size, _rows(call)
    slopes, steps = (needs[1] or needs[2]) and not nearest, _steps(call)
    spline, at, room = _room(call, grad.dtype, most)
    back = np.zeros(3 * call.grid[1] * call.grid[2]), np.empty(3 * call.grid[2])
    row, g = np.zeros(at.shape[1], grad.dtype), np.zeros((3, at.shape[1]), grad.dtype)
    for b in range(start, stop):
        for z in range(depth):
            for y in range(0, height, most):
                rows = min(most, height - y)
                first, many = (z * height + y) * width, rows * width
                count = (many + 7) // 8 * 8
                _locate(call, b, z, y, rows, y == 0, spline, at)
                if nearest:
                    _find_nearest(call, at, many, room)
                else:
                    _find(call, at, count, room, slopes)
                g[:] = 0.0
                for c in range(grad.shape[1]):
                    row[:many] = grad[b, c, first : first + many]
                    row[many:] = 0.0
                    if needs[0] and nearest:
                        _drop(row[:many], room[2], to_image[b, c])
                    elif needs[0]:
                        _add(row, *steps, room[2], room[0], count, to_image[b, c])
                    if slopes:
                        _tilt(call.image[b, c], row, *steps, room[2], room[0], count, g)
                if slopes:
                    _unlocate(call, b, z, y, rows, g, back, needs, to_map[b], to_control[b])
