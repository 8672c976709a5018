"""The compiled convolutions: row by row, forward, adjoint, and the sums for the kernels' gradients.

Owns: the loops over planes and rows.
Must not: know of tensors; everything comes as contiguous arrays.
Read next: ``rows.py``.

The two passes of a separable filter commute, so the vertical one goes first: one output row is the weighted sum of some rows of
the image, which lie in the cache already, and the horizontal pass then runs over that one row. Nothing of the size of the image
lies between. The adjoint is the same with the kernels reversed and the mirrored border folded back.
"""

from pellucid.kernels.convolve.cpu.rows import (
    add_nine,
    clip_row,
    dot,
    dots,
    fold,
    fold_back,
    mirror_ends,
    slide,
    span,
    strip_of,
    weigh_rows,
    weigh_rows_back,
)
from pellucid.kernels.jit import entry, fused
from pellucid.kernels.levels import rounded, units
from pellucid.kernels.stages.sums import copy, mask_row

__all__ = ["interior", "interior_backward", "interior_of_bytes", "separable", "separable_back", "separable_sums"]


@fused
def _filtered(image, v, down, rows, across, columns, line, out):  # type: ignore[no-untyped-def]
    """Filter row v of a plane by both kernels, from whose taps ``rows`` and ``columns`` are the ranges that count."""
    reach, width = len(across) // 2, len(out)
    weigh_rows(image, v, down, rows[0], rows[1], line[reach : reach + width])
    mirror_ends(line, reach, width)
    slide(line, across, columns[0], columns[1], out)


@entry
def separable(images, vertical, horizontal, channels, rows, threshold, out, scratch, lines, start, stop):  # type: ignore[no-untyped-def]
    """Filter strips of ``rows`` rows; taps at the ends below the threshold count as 0. images, out: (planes, h, w).

    For bytes, ``lines`` is scratch for one row of results and for the rows that a strip reads, as fractions.
    """
    height, width, tall = images.shape[1], images.shape[2], vertical.shape[1] // 2
    line = scratch[: width + 2 * (horizontal.shape[1] // 2)]
    for s in range(start, stop):
        plane, first, last = strip_of(s, height, rows)
        down, across = vertical[plane // channels % len(vertical)], horizontal[plane // channels % len(horizontal)]
        counted, beside = span(down, threshold), span(across, threshold)
        if lines is None:
            for v in range(first, last):
                _filtered(images[plane], v, down, counted, across, beside, line, out[plane, v])
        else:
            made, window = lines[0], lines[1:]
            for r in range(counted[0], last - first - 1 + counted[1]):
                units(images[plane, fold(first - tall + r, height)], scratch.dtype.type(1.0 / 255.0), window[r])
            for v in range(last - first):
                _filtered(window, v + tall, down, counted, across, beside, line, made)
                rounded(made, out[plane, first + v])


@fused
def _turned(kernel, out):  # type: ignore[no-untyped-def]
    for t in range(len(kernel)):
        out[t] = kernel[len(kernel) - 1 - t]


@entry
def separable_back(grad, vertical, horizontal, channels, rows, threshold, out, scratch, start, stop):  # type: ignore[no-untyped-def]
    """The adjoint of :func:`separable`; the arguments are its own."""
    width, taps = grad.shape[2], horizontal.shape[1]
    reach = taps // 2
    line, wide = scratch[: width + 4 * reach], scratch[width + 4 * reach : 2 * width + 6 * reach]
    back = scratch[2 * width + 6 * reach :][:taps]
    for s in range(start, stop):
        plane, first, last = strip_of(s, grad.shape[1], rows)
        down = vertical[plane // channels % len(vertical)]
        _turned(horizontal[plane // channels % len(horizontal)], back)
        top, bottom = span(down, threshold)
        left, right = span(back, threshold)
        for v in range(first, last):
            line[:] = grad.dtype.type(0.0)
            weigh_rows_back(grad[plane], v, down, top, bottom, line[2 * reach : 2 * reach + width])
            slide(line, back, left, right, wide)
            fold_back(wide, reach, out[plane, v])


@entry
def separable_sums(grad, images, vertical, horizontal, channels, rows, threshold, sums, scratch, start, stop):  # type: ignore[no-untyped-def]
    """Gradients of both kernels, one row of float64 sums per strip: the vertical taps, then the horizontal ones."""
    _, height, width = images.shape
    taps, others = vertical.shape[1], horizontal.shape[1]
    tall, reach = taps // 2, others // 2
    line, wide = scratch[: width + 4 * reach], scratch[width + 4 * reach : 2 * width + 6 * reach]
    back, upstream = scratch[2 * width + 6 * reach :][:others], scratch[2 * width + 6 * reach + others :][:width]
    for s in range(start, stop):
        plane, first, last = strip_of(s, height, rows)
        down, into = vertical[plane // channels % len(vertical)], sums[s]
        _turned(horizontal[plane // channels % len(horizontal)], back)
        top, bottom = span(down, threshold)
        left, right = span(back, threshold)
        into[:] = 0.0
        for v in range(first, last):
            g = grad[plane, v]
            line[:] = grad.dtype.type(0.0)
            copy(g, line[2 * reach : 2 * reach + width])
            slide(line, back, left, right, wide)
            fold_back(wide, reach, upstream)
            for t in range(taps):
                into[t] += dot(upstream, images[plane, fold(v - tall + t, height)])
            middle = line[: width + 2 * reach]
            weigh_rows(images[plane], v, down, top, bottom, middle[reach : reach + width])
            mirror_ends(middle, reach, width)
            dots(g, middle, into[taps:])


@fused.noinline
def interior_of_bytes(x, kernel, lines, out):  # type: ignore[no-untyped-def]
    """Filter a plane of bytes by a 3 x 3 kernel; ``lines`` is scratch for four rows."""
    height, width = x.shape
    made, unit = lines[3][: max(width - 2, 0)], lines.dtype.type(1.0 / 255.0)
    for v in range(height):
        if v + 1 < height:  # row 1 is the first that reads row 0
            if v == 0:
                units(x[0], unit, lines[0])
            units(x[v + 1], unit, lines[(v + 1) % 3])
        copy(x[v], out[v])
        if v > 0 and v < height - 1 and width > 2:
            made[:] = lines.dtype.type(0.0)
            add_nine(lines[(v - 1) % 3], lines[v % 3], lines[(v + 1) % 3], kernel, made)
            rounded(made, out[v][1 : width - 1])


@entry
def interior(images, kernels, channels, clipped, out, lines, start, stop):  # type: ignore[no-untyped-def]
    """Filter planes [start, stop) with 3x3 kernels (b or 1, 9); the outermost pixels keep their values.

    For bytes, ``lines`` is scratch for four rows: three that are read, as fractions, and the result.
    """
    _, height, width = images.shape
    for plane in range(start, stop):
        kernel, x = kernels[plane // channels % len(kernels)], images[plane]
        if lines is not None:
            interior_of_bytes(x, kernel, lines, out[plane])
            continue
        for v in range(height):
            row = out[plane, v]
            copy(x[v], row)
            if v > 0 and v < height - 1 and width > 2:
                middle = row[1 : width - 1]
                middle[:] = images.dtype.type(0.0)
                add_nine(x[v - 1], x[v], x[v + 1], kernel, middle)
            if clipped:
                clip_row(row)


@entry
def interior_backward(grad, images, kernels, channels, clipped, needs, out, sums, scratch, start, stop):  # type: ignore[no-untyped-def]
    """Gradients of planes [start, stop) and of their kernels: (planes, 9) float64 sums; ``needs`` is (images, kernels)."""
    _, height, width = images.shape
    zero, wide = images.dtype.type(0.0), width + 2
    window, row, flipped = scratch[: 3 * wide].reshape(3, wide), scratch[3 * wide :][:width], scratch[3 * wide + width :][:9]
    for plane in range(start, stop):
        kernel, x = kernels[plane // channels % len(kernels)], images[plane]
        _turned(kernel, flipped)
        if needs[1]:
            sums[plane] = 0.0
        window[:] = zero
        # Row v of the gradient, with zeros around what the filter touches, is kept in window[v % 3].
        for v in range(height + 1):
            line = window[v % 3]
            line[:] = zero
            if v < height:
                copy(grad[plane, v], row)
                inside = v > 0 and v < height - 1 and width > 2
                if clipped:
                    if inside:
                        value = line[1 : 1 + width]
                        copy(x[v], value)
                        middle = value[1 : width - 1]
                        middle[:] = zero
                        add_nine(x[v - 1], x[v], x[v + 1], kernel, middle)
                        mask_row(value, row)
                        line[:] = zero
                    else:
                        mask_row(x[v], row)
                if inside:
                    copy(row[1 : width - 1], line[2:width])
                    if needs[1]:
                        g = row[1 : width - 1]
                        for k in range(9):
                            sums[plane, k] += dot(g, x[v - 1 + k // 3, k % 3 : k % 3 + width - 2])
                if needs[0]:  # the gradient of pixels that keep their values
                    into = out[plane, v]
                    if inside:
                        into[:] = zero
                        into[0], into[width - 1] = row[0], row[width - 1]
                    else:
                        copy(row, into)
            if needs[0] and v > 0:
                add_nine(window[(v - 2) % 3], window[(v - 1) % 3], line, flipped, out[plane, v - 1])
