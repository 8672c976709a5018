"""The pyramid of one plane, and its adjoint.

Owns: blurring and halving a plane level by level, and handing a gradient back up.
Must not: know of patches.
Read next: ``sweep.py``.
"""

from pellucid.kernels.jit import fused

__all__ = ["build", "give_back"]

# Columns of the table: low_y, low_x, height, width, and where a level starts in the array of all levels but the image.


@fused
def _row(source, row, height, width):  # type: ignore[no-untyped-def]
    """A row of a flat plane that repeats its first and last."""
    start = min(max(row, 0), height - 1) * width
    return source[start : start + width]


@fused.noinline
def _halve(source, low_y, low_x, height, width, target, to_y, to_x, rows, columns, line):  # type: ignore[no-untyped-def]
    """One level from the one above, flat arrays; ``line`` holds a blurred row of the source with room for its repeated ends."""
    cast = line.dtype.type
    outer, inner, middle = cast(0.0625), cast(0.25), cast(0.375)
    first = 2 * to_x - 2 - low_x  # the source column of line[0]
    length = 2 * columns + 3
    for row in range(rows):
        at = 2 * (row + to_y) - low_y
        a, b, c = _row(source, at - 2, height, width), _row(source, at - 1, height, width), _row(source, at, height, width)
        d, e = _row(source, at + 1, height, width), _row(source, at + 2, height, width)
        body = line[-first : width - first]
        for i in range(width):
            body[i] = outer * (a[i] + e[i]) + inner * (b[i] + d[i]) + middle * c[i]
        for i in range(-first):
            line[i] = body[0]
        for i in range(width - first, length):
            line[i] = body[width - 1]
        out = target[row * columns : (row + 1) * columns]
        for i in range(columns):
            k = 2 * i
            out[i] = outer * (line[k] + line[k + 4]) + inner * (line[k + 1] + line[k + 3]) + middle * line[k + 2]


@fused.noinline
def _unhalve(gradient, low_y, low_x, height, width, lower, to_y, to_x, rows, columns, line):  # type: ignore[no-untyped-def]
    """Add to a level's gradient what the level below hands back: :func:`_halve` transposed."""
    cast = line.dtype.type
    outer, inner, middle = cast(0.0625), cast(0.25), cast(0.375)
    first = 2 * to_x - 2 - low_x
    length = 2 * columns + 3
    for row in range(rows):
        lower_row = lower[row * columns : (row + 1) * columns]
        # line[2 i + k] collects tap k of output i: even places three taps, odd ones two.
        line[0], line[1] = outer * lower_row[0], inner * lower_row[0]
        last = lower_row[columns - 1]
        line[2 * columns + 1], line[2 * columns + 2] = inner * last, outer * last
        for i in range(columns - 1):
            line[2 * i + 3] = inner * (lower_row[i] + lower_row[i + 1])
        for i in range(1, columns - 1):
            line[2 * i + 2] = outer * (lower_row[i - 1] + lower_row[i + 1]) + middle * lower_row[i]
        line[2] = middle * lower_row[0] + outer * lower_row[1]
        line[2 * columns] = middle * last + outer * lower_row[columns - 2]
        body = line[-first : width - first]
        before = after = cast(0.0)
        for i in range(-first):
            before += line[i]
        for i in range(width - first, length):
            after += line[i]
        body[0] += before
        body[width - 1] += after
        at = 2 * (row + to_y) - low_y
        for k in range(-2, 3):
            share = middle if k == 0 else (inner if abs(k) == 1 else outer)
            into = _row(gradient, at + k, height, width)
            for i in range(width):
                into[i] += share * body[i]


@fused
def build(image, coarse, table, line):  # type: ignore[no-untyped-def]
    """Fill every level below the image's plane."""
    for level in range(1, len(table)):
        low_y, low_x, height, width, start = table[level - 1]
        to_y, to_x, rows, columns, begin = table[level]
        target = coarse[begin : begin + rows * columns]
        source = image if level == 1 else coarse[start : start + height * width]
        _halve(source, low_y, low_x, height, width, target, to_y, to_x, rows, columns, line)


@fused
def give_back(gradient, coarse, table, line):  # type: ignore[no-untyped-def]
    """Collect every level's gradient in the image's, from the last level up; ``coarse`` is overwritten."""
    for level in range(len(table) - 1, 0, -1):
        low_y, low_x, height, width, start = table[level - 1]
        to_y, to_x, rows, columns, begin = table[level]
        lower = coarse[begin : begin + rows * columns]
        into = gradient if level == 1 else coarse[start : start + height * width]
        _unhalve(into, low_y, low_x, height, width, lower, to_y, to_x, rows, columns, line)
