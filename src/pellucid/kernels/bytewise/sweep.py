"""Apply byte operations one after the other, picture by picture, while a picture is in the second cache.

Owns: the loop over pictures and their operations; tables, which are composed before anything is looked up.
Must not: know of tensors.
Read next: ``moves.py``, ``levels.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.color.luma import LUMA
from pellucid.kernels.bytewise.layout import AUTOCONTRAST, BILINEAR, COLOR, EQUALIZE, NEAREST
from pellucid.kernels.bytewise.levels import blended, colored, count_ends, histograms, sharpened, through, total_of
from pellucid.kernels.bytewise.moves import bilinear, moves_nothing
from pellucid.kernels.color.cpu.rows import mix_whole
from pellucid.kernels.curve.cpu.sweep import toned
from pellucid.kernels.jit import entry, exact, fused
from pellucid.kernels.levels import rounded, units
from pellucid.kernels.stages.sums import copy_rows
from pellucid.kernels.warp.cpu.labels import copy_plainly

__all__ = ["sweep"]


@exact.noinline
def _mean_luma(source, tables, counts, known):  # type: ignore[no-untyped-def]
    """The mean luma of a picture in [0, 1], by the counts of its levels if these are known."""
    channels, pixels = source.shape
    total = 0.0
    for c in range(channels):
        levels = np.int64(0)
        if known:
            for k in range(256):
                levels += counts[c, k] * np.int64(tables[c, k])
        else:
            levels = total_of(source[c])
        mean = np.float64(levels) / (255.0 * np.float64(pixels))
        total += mean * (LUMA[c] if channels == 3 else 1.0 / channels)
    return total


@fused.noinline
def _parameters(own, luma, channels, p):  # type: ignore[no-untyped-def]
    """Write matrix and offset to ``p``, in the precision of pixels; returns whether the matrix is diagonal."""
    alone, pivot = True, own[channels * (channels + 1)]
    for k in range(channels * channels):
        p[k] = own[k]
        alone &= (own[k] == 0.0) | (k % (channels + 1) == 0)
    for c in range(channels):
        p[channels * channels + c] = own[channels * channels + c] + pivot * luma
    return alone


@fused.noinline
def _tabled_color(p, channels, unit, tables, values):  # type: ignore[no-untyped-def]
    """Apply a matrix that is diagonal, and its offset, to the tables."""
    if channels == 3:
        mix_whole(p, 0, 9, unit, tables[0], tables[1], tables[2], values)
    else:
        row = values[0]
        units(tables[0], unit, row)
        for u in range(256):
            row[u] = p[0] * row[u]
        for u in range(256):
            row[u] += p[1]
    for c in range(channels):
        rounded(values[c], tables[c])


@fused.noinline
def _tabled_curve(kind, own, source, unit, tables, counts, known, values, parts):  # type: ignore[no-untyped-def]
    """Apply a curve to the tables."""
    x, y, numbers = values[0], values[1], values[3][:3]
    room = values[2], values[4], (parts, parts[1], np.empty(256, np.uint8))
    for k in range(3):
        numbers[k] = own[k]
    for c in range(len(tables)):
        units(tables[c], unit, x)
        if kind == AUTOCONTRAST and not known:  # the tables are the identity so far
            count_ends(source[c], counts[c])
        toned(kind, 0, type(unit)(255.0), numbers, x, counts[c], room, y)
        rounded(y, tables[c])


@fused
def _start(tables):  # type: ignore[no-untyped-def]
    for c in range(len(tables)):
        for k in range(256):
            tables[c, k] = k


@fused
def _reads_counts(kind, own, channels, tabled):  # type: ignore[no-untyped-def]
    """Whether an operation reads how often each level of the source occurs."""
    return (kind == EQUALIZE) | (tabled & ((kind == AUTOCONTRAST) | ((kind == COLOR) & (own[channels * (channels + 1)] != 0.0))))


@fused.noinline
def _tabled(kind, own, source, call, room, known):  # type: ignore[no-untyped-def]
    """Apply an operation to the tables; returns whether that is all of it: a colour may mix channels, and is left in ``room.p``."""
    channels = call.channels
    if kind != COLOR:
        _tabled_curve(kind, own, source, call.unit, room.tables, room.counts, known, room.values, room.parts)
        return True
    pivots = own[channels * (channels + 1)] != 0.0
    luma = _mean_luma(source, room.tables, room.counts, known) if pivots else 0.0
    alone = _parameters(own, luma, channels, room.p)
    if alone:
        _tabled_color(room.p, channels, call.unit, room.tables, room.values)
    return alone


@fused.noinline
def _written(kind, own, source, call, picture, room, target):  # type: ignore[no-untyped-def]
    """Write what an operation that reads several pixels, or all channels, makes of the source."""
    channels, height, width, unit = call.channels, call.height, call.width, call.unit
    if kind == NEAREST:
        fills, flat = room.tables[0][:channels].reshape(1, channels), source.reshape(source.size)
        fills[:] = 0
        rows = target.reshape(channels * height, width)
        copy_plainly(flat, call, picture, room.m[:6].reshape(1, 6), fills, room.ramp, room.cells, rows, 0, height)
    elif kind == BILINEAR:
        bilinear(source, room.m, (height, width), unit, room.plane, room.cells, room.lines, room.ramp, target)
    elif kind == COLOR:
        colored(source, room.p, unit, room.lines, target)
    else:
        for k in range(9):
            room.p[k] = own[k]
        sharpened(source, room.p, (height, width), room.lines, target)


@fused
def _rests(kind, own, m):  # type: ignore[no-untyped-def]
    """Whether an operation is a map, which goes to ``m`` in the precision of pixels, and moves nothing."""
    if kind != NEAREST and kind != BILINEAR:
        return False
    for k in range(6):
        m[k] = own[k]
    return moves_nothing(m)


@fused.noinline
def _one(source, call, picture, operations, numbers, room, into):  # type: ignore[no-untyped-def]
    """Apply all operations to one picture.

    Those that treat each level by itself wait in the tables, until another reads the picture: one look-up does for all of them.
    """
    tabled = known = False  # whether any wait; whether the counts are those of the source
    turn, count = 0, len(operations)
    for o in range(count):
        kind, own = operations[o, 0], numbers[operations[o, 1] :]
        if not known and _reads_counts(kind, own, call.channels, tabled):
            histograms(source, room.counts, room.parts)
            known = True
        if kind <= EQUALIZE or kind == COLOR:
            if not tabled:
                _start(room.tables)
            if _tabled(kind, own, source, call, room, known):
                tabled = True
                continue
        if _rests(kind, own, room.m):
            continue
        if tabled:
            through(source, room.tables, room.spare[turn])
            source, turn, tabled = room.spare[turn], 1 - turn, False
        target, known = (into if o == count - 1 else room.spare[turn]), False
        _written(kind, own, source, call, picture, room, target)
        source, turn = target, 1 - turn
        if o == count - 1:
            return
    if tabled:
        through(source, room.tables, into)
    else:
        copy_rows(source, into, call.channels)


@entry
def sweep(images, call, picture, operations, starts, numbers, shares, room, out, start, stop):  # type: ignore[no-untyped-def]
    """Pictures [start, stop) of bytes (b, channels, pixels).

    Args:
        picture: of one picture, as ``../sources.py`` describes it.
        operations: (n, 2): kind, and where its numbers begin.
        starts: each row's first operation, and at the end how many there are.
        numbers: (rows, n).
        shares: (b, 1 + k), by which a picture and the results of its k rows are mixed; without columns a picture has one row, whose
            result is written.
        room: a thread's `Room`, and memory for k results.
    """
    own, made = room
    rows = shares.shape[1] - 1
    for u in range(call.width):
        own.ramp[u] = u
    for b in range(start, stop):
        if rows < 0:
            _one(images[b], call, picture, operations[starts[b] : starts[b + 1]], numbers[b], own, out[b])
            continue
        for k in range(rows):
            r = b * rows + k
            _one(images[b], call, picture, operations[starts[r] : starts[r + 1]], numbers[r], own, made[k])
        blended(images[b], made, shares[b], call.unit, own.lines, out[b])
