"""The compiled square filter: tap by tap over whole rows, forward, adjoint, and the sums for the kernel's gradient.

Owns: the loops over strips, and the list of a kernel's taps.
Must not: know of tensors; everything comes as contiguous arrays.
Read next: ``rows.py``.

A kernel that is a line is mostly zeros, so its taps are listed once a strip. The rows that a strip reads lie in ``scratch`` with
their borders, and each tap is a multiply-add of one of them, shifted.
"""

from pellucid.kernels.convolve.cpu.rows import add_taps, dots, fold, fold_back, mirror_ends, strip_of
from pellucid.kernels.jit import entry, fused
from pellucid.kernels.levels import rounded, units
from pellucid.kernels.stages.sums import copy

__all__ = ["square", "square_back", "square_sums"]


@fused.noinline
def _taps(kernel, threshold, step, turned, at, weights, begin):  # type: ignore[no-untyped-def]
    """List the taps that reach the threshold, row by row: where in rows of ``step`` numbers they read, and their weights.

    The taps of row i are the [begin[i], begin[i + 1])-th. ``turned`` lists them for the adjoint, rows and columns reversed.
    """
    count, taps = 0, kernel.shape[0]
    for i in range(taps):
        begin[i] = count
        for j in range(taps):
            weight = kernel[taps - 1 - i, taps - 1 - j] if turned else kernel[i, j]
            if not abs(weight) < threshold:
                at[count], weights[count] = i * step + j, weight
                count += 1
    begin[taps] = count


@fused.noinline
def _mirrored(image, first, last, reach, unit, padded):  # type: ignore[no-untyped-def]
    """Copy rows [first - reach, last + reach) of a plane, times ``unit``, with mirrored borders."""
    height, width = image.shape
    for r in range(last - first + 2 * reach):
        line = padded[r]
        units(image[fold(first - reach + r, height)], unit, line[reach : reach + width])
        mirror_ends(line, reach, width)


@entry
def square(images, kernels, channels, rows, threshold, unit, out, scratch, at, weights, begin, made, start, stop):  # type: ignore[no-untyped-def]
    """Filter strips of ``rows`` rows; taps below the threshold count as 0. images, out: (planes, h, w).

    For bytes, ``made`` is scratch for a row and ``unit`` 1 / 255; otherwise these are None and 1.
    """
    width, taps = images.shape[2], kernels.shape[1]
    reach = taps // 2
    step = width + 2 * reach
    flat = scratch[: (rows + 2 * reach) * step]
    for s in range(start, stop):
        plane, first, last = strip_of(s, images.shape[1], rows)
        _taps(kernels[plane // channels % len(kernels)], threshold, step, False, at, weights, begin)
        _mirrored(images[plane], first, last, reach, unit, flat.reshape(rows + 2 * reach, step))
        for v in range(first, last):
            line = flat[(v - first) * step :]
            if made is None:
                out[plane, v] = type(unit)(0.0)
                add_taps(line, at, weights, 0, begin[taps], out[plane, v])
            else:
                made[:] = type(unit)(0.0)
                add_taps(line, at, weights, 0, begin[taps], made)
                rounded(made, out[plane, v])


@entry
def square_back(grad, kernels, channels, rows, threshold, out, scratch, at, weights, begin, start, stop):  # type: ignore[no-untyped-def]
    """The adjoint of :func:`square`; the arguments are its own.

    An output row that read a row of the image through the border lies no farther from it than ``reach``, as mirroring brings places
    nearer: the rows around the strip are all that is needed.
    """
    (_, height, width), taps = grad.shape, kernels.shape[1]
    reach = taps // 2
    step, period = width + 4 * reach, max(2 * (height - 1), 1)
    flat, wide = scratch[: (rows + 2 * reach) * step], scratch[(rows + 2 * reach) * step :][: width + 2 * reach]
    padded = flat.reshape(rows + 2 * reach, step)
    for s in range(start, stop):
        plane, first, last = strip_of(s, height, rows)
        _taps(kernels[plane // channels % len(kernels)], threshold, step, True, at, weights, begin)
        padded[:] = grad.dtype.type(0.0)
        for r in range(last - first + 2 * reach):
            if 0 <= first - reach + r < height:
                copy(grad[plane, first - reach + r], padded[r, 2 * reach : 2 * reach + width])
        for v in range(first, last):
            wide[:] = grad.dtype.type(0.0)
            # Places v and -v of the rows with their borders, and each again every period.
            for turn in range(-(reach // period) - 1, reach // period + 2):
                for side in range(2):
                    q = turn * period + (v if side == 0 else -v)
                    if (side == 0 or (2 * v) % period != 0) and -reach <= q < height + reach:
                        top = max(0, reach - q)  # the rows of taps that read a row of the gradient, not beyond it
                        bottom = min(taps, height + reach - q)
                        if top < bottom:
                            # Tap row i reads gradient row q - reach + i, which lies at i + q - first.
                            move = (q - first + top) * step
                            add_taps(flat[move:], at, weights, begin[top], begin[bottom], wide, top * step)
            fold_back(wide, reach, out[plane, v])


@entry
def square_sums(grad, images, taps, rows, sums, scratch, start, stop):  # type: ignore[no-untyped-def]
    """The kernel's gradient, a row of float64 sums per strip."""
    reach = taps // 2
    step = grad.shape[2] + 2 * reach
    padded = scratch[: (rows + 2 * reach) * step].reshape(rows + 2 * reach, step)
    for s in range(start, stop):
        plane, first, last = strip_of(s, grad.shape[1], rows)
        _mirrored(images[plane], first, last, reach, images.dtype.type(1.0), padded)
        into = sums[s]
        into[:] = 0.0
        for v in range(first, last):
            for i in range(taps):
                dots(grad[plane, v], padded[v - first + i], into[i * taps : (i + 1) * taps])
