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


@fused.noinline
def _one(source, call, picture, operations, numbers, room, into):  # type: ignore[no-untyped-def]
    """Apply all operations to one picture."""
    spare, plane, floats, cells, tables, counts, parts = room
    channels, height, width, unit = call.channels, call.height, call.width, call.unit
    values, p, m = floats[: 6 * 256].reshape(6, 256), floats[6 * 256 : 6 * 256 + 16], floats[6 * 256 + 16 : 6 * 256 + 32]
    ramp, lines = floats[6 * 256 + 32 : 6 * 256 + 32 + width], floats[6 * 256 + 32 + width :]
    tabled = known = False
    turn, count = 0, len(operations)
    for o in range(count):
        kind, at = operations[o, 0], operations[o, 1]
        own = numbers[at:]
        luma, alone = 0.0, kind <= EQUALIZE
        if kind == COLOR:
            pivots = own[channels * (channels + 1)] != 0.0
            if pivots and tabled and not known:
                histograms(source, counts, parts)
                known = True
            if not tabled:
                _start(tables)
            if pivots:
                luma = _mean_luma(source, tables, counts, known)
            alone = _parameters(own, luma, channels, p)
        elif alone and not tabled:
            _start(tables)
        if alone:
            if not known and (kind == EQUALIZE or (kind == AUTOCONTRAST and tabled)):
                histograms(source, counts, parts)
                known = True
            if kind == COLOR:
                _tabled_color(p, channels, unit, tables, values)
            else:
                _tabled_curve(kind, own, source, unit, tables, counts, known, values, parts)
            tabled = True
            continue
        if kind in (NEAREST, BILINEAR):
            for k in range(6):
                m[k] = own[k]
            if moves_nothing(m):
                continue
        if tabled:
            through(source, tables, spare[turn])
            source, turn, tabled = spare[turn], 1 - turn, False
        target, known = (into if o == count - 1 else spare[turn]), False
        if kind == NEAREST:
            fills = tables[0][:channels].reshape(1, channels)
            fills[:] = 0
            flat, rows = source.reshape(source.size), target.reshape(channels * height, width)
            copy_plainly(flat, call, picture, m[:6].reshape(1, 6), fills, ramp, cells, rows, 0, height)
        elif kind == BILINEAR:
            bilinear(source, m, (height, width), unit, plane, cells, lines, ramp, target)
        elif kind == COLOR:
            colored(source, p, unit, lines, target)
        else:
            for k in range(9):
                p[k] = own[k]
            sharpened(source, p, (height, width), lines, target)
        source, turn = target, 1 - turn
        if o == count - 1:
            return
    if tabled:
        through(source, tables, into)
    else:
        copy_rows(source, into, channels)


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
        room: as `_room` in ``__init__.py`` makes it.
    """
    spare, made, plane, floats, cells, tables, counts, parts = room
    rows = shares.shape[1] - 1
    for u in range(call.width):
        floats[6 * 256 + 32 + u] = u
    own = (spare, plane, floats, cells, tables, counts, parts)
    for b in range(start, stop):
        if rows < 0:
            _one(images[b], call, picture, operations[starts[b] : starts[b + 1]], numbers[b], own, out[b])
            continue
        for k in range(rows):
            r = b * rows + k
            _one(images[b], call, picture, operations[starts[r] : starts[r + 1]], numbers[r], own, made[k])
        blended(images[b], made, shares[b], call.unit, floats, out[b])
