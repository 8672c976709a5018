"""From the knots of a field to polynomials along its columns, and back.

Owns: the numbers that ``bends.py`` reads: for every row of cells, column of knots and power of y, one for x and one for y.
Must not: know of tensors.
Read next: ``bends.py``.
"""

import numpy as np

from pellucid.kernels.jit import entry, fused

__all__ = ["from_polynomials", "polynomials"]


@fused.noinline
def _sum(knots, spline, cell, power, out):  # type: ignore[no-untyped-def]
    a, b, c, d = knots[cell], knots[cell + 1], knots[cell + 2], knots[cell + 3]
    cast = out.dtype.type
    p, q, r, s = cast(spline[power, 0]), cast(spline[power, 1]), cast(spline[power, 2]), cast(spline[power, 3])
    for i in range(len(out)):
        out[i] = p * a[i] + q * b[i] + r * c[i] + s * d[i]


@entry
def polynomials(control, spline, numbers, most, knots):  # type: ignore[no-untyped-def]
    """Fill ``numbers`` (samples, rows of cells * 4 powers * columns * 2), and ``most``, the largest of a sample's knots.

    Args:
        control: (samples, 2, rows, columns).
        spline: what the four knots around a cell count, by power.
        knots: scratch of (rows, 2 * columns): x and y side by side, as they are written, or nothing is vectorised.
    """
    rows, columns = control.shape[2:]
    for b in range(len(control)):
        for side in range(2):
            most[b, side] = np.abs(control[b, side]).max()
            for j in range(rows):
                knots[j, side::2] = control[b, side, j]
        at = 0
        for cell in range(rows - 3):
            for power in range(4):
                _sum(knots, spline, cell, power, numbers[b, at : at + 2 * columns])
                at += 2 * columns


@entry
def from_polynomials(numbers, spline, control):  # type: ignore[no-untyped-def]
    """The adjoint: write the gradient of ``control``, given that of ``numbers`` in float64."""
    columns = control.shape[3]
    total = np.empty(control.shape[1:])
    for b in range(control.shape[0]):
        total[:] = 0.0
        for side in range(2):
            at = side
            for cell in range(control.shape[2] - 3):
                for power in range(4):
                    for k in range(4):
                        for i in range(columns):
                            total[side, cell + k, i] += spline[power, k] * numbers[b, at + 2 * i]
                    at += 2 * columns
        control[b] = total
