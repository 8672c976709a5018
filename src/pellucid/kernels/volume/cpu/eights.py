"""Eight voxels of a row at once, as vectors of the processor.

Owns: vector code that Numba's compiler would not make of loops: the field along a row, and the eight neighbours of eight points.
Must not: check bounds; ``sweep.py`` sees to it that every index is good.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from pellucid.kernels.vectors import Array, Lanes, Sum, take, woven

__all__ = ["bend", "meet"]


@woven()
def bend(
    numbers: Array,
    size: Lanes,
    first: Lanes,
    count: Lanes,
    basis: Array,
    at: Lanes,
    width: Lanes,
    into: Array,
    o: Lanes,
    stride: Lanes,
) -> None:
    """Add a spline to three rows of ``into``, ``stride`` apart, from ``o`` on.

    Args:
        numbers: of the spline along the row, in three rows of ``size``; ``count`` of them matter from the ``first`` on.
        basis: the weights of each of them, in rows of ``width``, from ``at`` on.
    """
    sums = [Sum(into.load(o + stride * i, 8)) for i in range(3)]
    with count.loop() as k:
        weights = basis.load((first + k) * width + at, 8)
        for i, total in enumerate(sums):
            total.add(numbers.load(first + k + size * i) * weights)
    for i, total in enumerate(sums):
        into.store(o + stride * i, total.found)


def _corners(x: Array, base: Array, u: Lanes, steps: tuple[Lanes, Lanes]) -> list[tuple[Lanes, Lanes]]:
    """The voxels around eight points: left and right ones of four rows, those of the first slice before those of the second."""
    places = [base.load(u + lane).to(u) for lane in range(8)]
    found = []
    for step in (None, steps[0], steps[1], steps[0] + steps[1]):
        pairs = [x.load(place if step is None else place + step, 2) for place in places]
        fours = [take(pairs[i], pairs[i + 1], range(4)) for i in (0, 2, 4, 6)]
        halves = take(fours[0], fours[2], range(8)), take(fours[1], fours[3], range(8))
        left = take(*halves, (0, 2, 8, 10, 4, 6, 12, 14))
        right = take(*halves, (1, 3, 9, 11, 5, 7, 13, 15))
        found.append((left, right))
    return found


@woven()
def meet(x: Array, base: Array, u: Lanes, row: Lanes, slice_: Lanes, weights: Array, stride: Lanes, out: Array, o: Lanes) -> None:
    """Interpolate between the voxels around eight points, and write the results to ``out`` from ``o`` on."""
    i0, i1, j0, j1, k0, k1 = (weights.load(stride * axis + u, 8) for axis in range(6))
    a, b, c, d = (i0 * left + i1 * right for left, right in _corners(x, base, u, (row, slice_)))
    out.store(o, k0 * (j0 * a + j1 * b) + k1 * (j0 * c + j1 * d))


@woven()
def add(into: Array, base: Array, u: Lanes, row: Lanes, slice_: Lanes, weights: Array, stride: Lanes, grad: Array) -> None:
    """Add to the voxels around eight points their shares of a gradient: the adjoint of :func:`meet`."""
    g, (i0, i1, j0, j1, k0, k1) = grad.load(u, 8), (weights.load(stride * axis + u, 8) for axis in range(6))
    places = [base.load(u + lane).to(u) for lane in range(8)]
    front, back = g * k0, g * k1
    for step, share in ((None, front * j0), (row, front * j1), (slice_, back * j0), (slice_ + row, back * j1)):
        left, right = share * i0, share * i1
        for lane, place in enumerate(places):
            into.add(place if step is None else place + step, take(left, right, (lane, 8 + lane)))


@woven()
def tilt(
    x: Array, base: Array, u: Lanes, row: Lanes, slice_: Lanes, weights: Array, stride: Lanes, grad: Array, into: Array
) -> None:
    """Add to three rows of ``into`` a gradient times the slopes of :func:`meet`'s results along x, y and z."""
    g = grad.load(u, 8)
    i0, i1, j0, j1, k0, k1, di0, di1, dj0, dj1, dk0, dk1 = (weights.load(stride * axis + u, 8) for axis in range(12))
    corners = _corners(x, base, u, (row, slice_))
    a, b, c, d = (i0 * left + i1 * right for left, right in corners)
    p, q, r, s = (di0 * left + di1 * right for left, right in corners)
    into.add(u, g * (k0 * (j0 * p + j1 * q) + k1 * (j0 * r + j1 * s)))
    into.add(stride + u, g * (k0 * (dj0 * a + dj1 * b) + k1 * (dj0 * c + dj1 * d)))
    into.add(stride * 2 + u, g * (dk0 * (j0 * a + j1 * b) + dk1 * (j0 * c + j1 * d)))
