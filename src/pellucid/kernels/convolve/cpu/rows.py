"""Loops of the convolutions over one row: weighted sums of rows, sliding a kernel along a row, and mirrored ends.

Owns: the innermost loops, written so that the compiler vectorises over pixels.
Must not: loop over an image.
Read next: ``sweep.py``.
"""

from pellucid.kernels.jit import exact, fused, summing

__all__ = [
    *("add_nine", "add_taps", "clip_row", "dot", "dots", "fold", "fold_back", "mirror_ends", "slide", "span", "strip_of"),
    *("weigh_rows", "weigh_rows_back"),
]


@exact
def strip_of(s, height, rows):  # type: ignore[no-untyped-def]
    """(plane, first row, row behind the last) of strip s."""
    strips = (height + rows - 1) // rows
    first = s % strips * rows
    return s // strips, first, min(first + rows, height)


@exact
def fold(i, length):  # type: ignore[no-untyped-def]
    """The pixel that a mirrored border puts at position i; the edge pixel is not repeated."""
    if 0 <= i < length:
        return i
    period = max(2 * (length - 1), 1)
    i %= period
    return i if i < length else period - i


@exact
def span(kernel, threshold):  # type: ignore[no-untyped-def]
    """The taps [first, last) without those at the ends that are too small to change a sum.

    A sample with a closed gate has one tap, 1, and is copied; a narrow Gaussian in a long kernel costs as much as in a short one.
    """
    first, last = 0, len(kernel)
    while first < last - 1 and abs(kernel[first]) < threshold:
        first += 1
    while last > first + 1 and abs(kernel[last - 1]) < threshold:
        last -= 1
    return first, last


@fused
def _set_one(out, a, p):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] = p * a[i]


@fused
def _add_one(out, a, p):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] += p * a[i]


@fused
def _add_four(out, a, b, c, d, p, q, r, s):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] += (p * a[i] + q * b[i]) + (r * c[i] + s * d[i])


def _weighing(row):  # type: ignore[no-untyped-def]
    """A function that adds kernel[t] * ``row(source, at, t)`` to the output, for taps [first, last), four at once."""

    @fused.inlined
    def weigh(source, at, kernel, first, last, out):  # type: ignore[no-untyped-def]
        t = first
        while t + 4 <= last:
            a, b, c, d = row(source, at, t), row(source, at, t + 1), row(source, at, t + 2), row(source, at, t + 3)
            _add_four(out, a, b, c, d, kernel[t], kernel[t + 1], kernel[t + 2], kernel[t + 3])
            t += 4
        while t < last:
            _add_one(out, row(source, at, t), kernel[t])
            t += 1

    return weigh


@fused
def _mirrored(image, at, t):  # type: ignore[no-untyped-def]
    return image[fold(at + t, len(image))]


@fused
def _upward(image, at, t):  # type: ignore[no-untyped-def]
    return image[at - t]


@fused
def _shifted(line, at, t):  # type: ignore[no-untyped-def]
    return line[at + t :]


@fused
def _listed(flat, places, t):  # type: ignore[no-untyped-def]
    at, less = places
    return flat[at[t] - less :]


_weigh_mirrored, _weigh_upward, _weigh_shifted, _weigh_listed = map(_weighing, (_mirrored, _upward, _shifted, _listed))


@fused.noinline
def weigh_rows(image, v, kernel, first, last, out):  # type: ignore[no-untyped-def]
    """The vertical pass of row v: the sum over taps of kernel[t] * image[v - reach + t]."""
    at = v - len(kernel) // 2
    _set_one(out, _mirrored(image, at, first), kernel[first])
    _weigh_mirrored(image, at, kernel, first + 1, last, out)


@fused.noinline
def add_taps(flat, at, weights, first, last, out, less=0):  # type: ignore[no-untyped-def]
    """Add weights[t] * flat[at[t] - less + i] for taps [first, last)."""
    _weigh_listed(flat, (at, less), weights, first, last, out)


@fused.noinline
def _collect(grad, q, kernel, first, last, out):  # type: ignore[no-untyped-def]
    """Add the gradient of row q of the padded image: the sum over taps of kernel[t] * grad[q + reach - t]."""
    at = q + len(kernel) // 2
    _weigh_upward(grad, at, kernel, max(first, at - len(grad) + 1), min(last, at + 1), out)


@fused
def weigh_rows_back(grad, v, kernel, first, last, out):  # type: ignore[no-untyped-def]
    """The vertical pass transposed: add to ``out`` the gradient of row v of the image, and of its mirror images."""
    height, reach = grad.shape[0], len(kernel) // 2
    period = max(2 * (height - 1), 1)
    # Positions q = v and q = -v, and each again every period.
    for turn in range(-(reach // period) - 1, reach // period + 2):
        repeated = v + turn * period
        if -reach <= repeated < height + reach:
            _collect(grad, repeated, kernel, first, last, out)
        mirrored = turn * period - v
        if (2 * v) % period != 0 and -reach <= mirrored < height + reach:
            _collect(grad, mirrored, kernel, first, last, out)


@fused.noinline
def slide(line, kernel, first, last, out):  # type: ignore[no-untyped-def]
    """The horizontal pass: out[i] = sum over taps of kernel[t] * line[i + t]."""
    _set_one(out, _shifted(line, 0, first), kernel[first])
    _weigh_shifted(line, 0, kernel, first + 1, last, out)


@fused
def mirror_ends(line, reach, width):  # type: ignore[no-untyped-def]
    """Fill the ``reach`` places on both sides of a row that lies in the middle of ``line``."""
    for i in range(reach):
        line[i] = line[reach + fold(i - reach, width)]
        line[reach + width + i] = line[reach + fold(width + i, width)]


@fused
def fold_back(wide, reach, out):  # type: ignore[no-untyped-def]
    """Mirroring transposed: the middle of ``wide``, with what lies on both sides added where it was mirrored from."""
    width = len(out)
    for i in range(width):
        out[i] = wide[reach + i]
    for i in range(reach):
        out[fold(i - reach, width)] += wide[i]
        out[fold(width + i, width)] += wide[reach + width + i]


@summing
def dot(x, y):  # type: ignore[no-untyped-def]
    """Sum of products."""
    total = x.dtype.type(0.0)
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@fused
def dots(g, line, sums):  # type: ignore[no-untyped-def]
    """Add the products of a gradient with the row that each tap saw."""
    for t in range(len(sums)):
        sums[t] += dot(g, line[t : t + len(g)])


@fused.noinline
def add_nine(a, b, c, k, out):  # type: ignore[no-untyped-def]
    """Add a 3x3 filter of three rows, which are longer than ``out`` by two."""
    k0, k1, k2, k3, k4, k5, k6, k7, k8 = k[0], k[1], k[2], k[3], k[4], k[5], k[6], k[7], k[8]
    for i in range(len(out)):
        top = k0 * a[i] + k1 * a[i + 1] + k2 * a[i + 2]
        middle = k3 * b[i] + k4 * b[i + 1] + k5 * b[i + 2]
        out[i] += top + middle + (k6 * c[i] + k7 * c[i + 1] + k8 * c[i + 2])


@fused
def clip_row(row):  # type: ignore[no-untyped-def]
    """Clip to [0, 1]; NaN stays."""
    zero, one = row.dtype.type(0.0), row.dtype.type(1.0)
    for i in range(len(row)):
        z = zero if row[i] < zero else row[i]
        row[i] = one if z > one else z
