"""Copy interleaved channels (pixel after pixel) to planes, and planes to interleaved channels.

Owns: `apart` and `together`, which kernels call for one row; `split` and `join`, the loops over whole pictures.
Must not: know what a number means.
Read next: ``vectors.py``.
"""

from typing import Any

from pellucid.kernels.jit import entry, exact
from pellucid.kernels.vectors import Array, Lanes, take, woven

__all__ = ["apart", "join", "split", "together"]

_VECTOR = 32  # bytes of each channel that are copied at once


@woven()
def _apart(pixels: Array, at: Lanes, cells: tuple[Any, ...], out: Array, place: Lanes, step: Lanes) -> None:
    """Read interleaved pixels, and write a vector of each channel to its own row, ``step`` after the row before."""
    n, count = len(cells), _VECTOR // pixels.size
    found = pixels.load(at, n * count)
    for c in range(n):
        out.store(place + step * c, found[c::n])


@woven()
def _together(planes: Array, place: Lanes, step: Lanes, cells: tuple[Any, ...], out: Array, at: Lanes) -> None:
    """Read a vector from each channel's row, and write them interleaved."""
    n, count = len(cells), _VECTOR // planes.size
    rows = [planes.load(place + step * c, count) for c in range(n)]
    order = [c * count + u for u in range(count) for c in range(n)]
    first, second = rows[:2] if n == 2 else [take(rows[k], rows[min(k + 1, n - 1)], range(2 * count)) for k in (0, 2)]
    out.store(at, take(first, second, order))


@exact
def apart(pixels, cells, out, place, step, count):  # type: ignore[no-untyped-def]
    """Copy ``count`` interleaved pixels to one row of ``out`` for each channel, every row ``step`` after the row before."""
    n, lanes = len(cells), 32 // pixels.itemsize
    whole = count - count % lanes
    for u in range(0, whole, lanes):
        _apart(pixels, u * n, cells, out, place + u, step)
    for u in range(whole, count):
        for c in range(n):
            out[place + c * step + u] = pixels[u * n + c]


@exact
def together(planes, place, step, count, cells, out):  # type: ignore[no-untyped-def]
    """Copy ``count`` numbers of each channel's row to interleaved pixels."""
    n, lanes = len(cells), 32 // planes.itemsize
    whole = count - count % lanes
    for u in range(0, whole, lanes):
        _together(planes, place + u, step, cells, out, u * n)
    for u in range(whole, count):
        for c in range(n):
            out[u * n + c] = planes[place + c * step + u]


@entry
def split(flat, strides, rows, cells, out, start, stop):  # type: ignore[no-untyped-def]
    """Copy rows [start, stop) of interleaved pictures to planes (b, channels, rows, n).

    Args:
        flat: the pictures' memory; ``strides`` are the steps to the next picture and to the next row.
        cells: a tuple with an entry for each channel; only its length counts.
    """
    n = out.shape[3]
    into = out.reshape(out.size)
    for r in range(start, stop):
        b, y = r // rows, r % rows
        apart(flat[b * strides[0] + y * strides[1] :], cells, into, (b * len(cells) * rows + y) * n, rows * n, n)


@entry
def join(planes, cells, out, start, stop):  # type: ignore[no-untyped-def]
    """Copy pictures [start, stop) from planes (b, channels, n) to interleaved pixels."""
    n = planes.shape[2]
    flat = planes.reshape(planes.size)
    for b in range(start, stop):
        together(flat, b * len(cells) * n, n, n, cells, out[b])
