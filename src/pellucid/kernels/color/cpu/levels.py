"""Apply a chain of colours that mixes no channels to bytes, by a table of 256 levels for each channel.

Owns: recognising such a chain by its numbers, and the loop over samples.
Must not: know of tensors; everything comes as contiguous arrays.
Read next: ``paint.py``.
"""

import numpy as np

from pellucid.kernels.color.cpu.paint import first_whole, paint
from pellucid.kernels.curve.cpu.rows import STRIP, looked_up_by_turns
from pellucid.kernels.jit import entry, exact
from pellucid.kernels.narrow import steps
from pellucid.kernels.stages.chain import MIXED
from pellucid.kernels.stages.sums import copy_rows

__all__ = ["look_up", "stays_apart"]


@exact
def _is_diagonal(p, at, channels):  # type: ignore[no-untyped-def]
    alone = True
    for k in range(channels * channels):
        alone &= (p[at + k] == p.dtype.type(0.0)) | (k % (channels + 1) == 0)
    return alone


@entry
def stays_apart(maps, still, params, colors):  # type: ignore[no-untyped-def]
    """Whether no map (b or 1, n) moves anything, and no sample's matrices mix channels.

    Args:
        still: the identity map.
    """
    for b in range(len(maps)):
        for k in range(maps.shape[1]):
            if maps[b, k] != still[k]:
                return False
    for b in range(len(params)):
        if colors.matrix >= 0 and not _is_diagonal(params[b], colors.matrix, colors.channels):
            return False
        for k in range(len(colors.steps)):
            if colors.steps[k, 0] == MIXED and not _is_diagonal(params[b], colors.steps[k, 1], colors.channels):
                return False
    return True


@exact.noinline
def _tables(colors, p, bends, unit, floats, tables):  # type: ignore[no-untyped-def]
    """Write to ``tables`` what a sample's chain makes of each level in each channel."""
    n = colors.channels
    source, result, ones = floats[: n * 256].reshape(n, 256), floats[n * 256 : 2 * n * 256].reshape(n, 256), floats[2 * n * 256 :]
    cast = floats.dtype.type
    for u in range(256):
        ones[u] = cast(1.0)
        for c in range(n):
            source[c, u] = cast(u) * unit
    if colors.mixes:
        first_whole(colors, p, ones, cast(1.0), source, result)
    else:
        copy_rows(source, result, n)
    paint(colors, p, bends, ones, result, source, tables, (np.int64(0), np.int64(0), np.int64(256), np.int64(256)))


@entry
def look_up(planes, params, colors, bends, unit, cells, out, floats, tables, start, stop):  # type: ignore[no-untyped-def]
    """Apply their chains to samples [start, stop) of bytes.

    Args:
        planes: (b * channels, pixels); or interleaved, (b, pixels * channels), where ``cells`` has an entry for each channel.
        params: (b or 1, n).
        bends: None where there is no curve, which is not compiled then.
        floats: scratch, 2 * channels + 1 rows of 256.
        tables: scratch (channels, 256), of the result's dtype.
    """
    n, by_turns = colors.channels, len(cells) > 1
    room = np.empty(n * STRIP, np.uint8), np.empty(n * STRIP, out.dtype)
    for b in range(start, stop):
        _tables(colors, params[b if len(params) > 1 else 0], bends, unit, floats, steps(tables))
        if by_turns:
            looked_up_by_turns(planes[b], tables, cells, room, out[b])
        for c in range(0 if by_turns else n):
            looked_up_by_turns(planes[b * n + c], tables[c : c + 1], (0,), room, out[b * n + c])
