"""Add noise strip by strip, and compute its gradients; the field is made again in each direction.

Owns: the loops over samples and strips.
Must not: know of tensors; everything comes as contiguous arrays.
Read next: ``normals.py``.
"""

from pellucid.kernels.blend.cpu.normals import normals
from pellucid.kernels.jit import entry, exact, summing
from pellucid.kernels.stages.sums import copy

__all__ = ["backward", "counts", "forward"]


@exact.noinline
def _noisy(x, noise, mean, sigma, clipped, out):  # type: ignore[no-untyped-def]
    zero, one = out.dtype.type(0.0), out.dtype.type(1.0)
    for i in range(len(out)):
        out[i] = x[i] + (mean + sigma * noise[i])
    if clipped:
        for i in range(len(out)):
            z = zero if out[i] < zero else out[i]
            out[i] = one if z > one else z


@exact.noinline
def _masked(x, noise, mean, sigma, clipped, g, out):  # type: ignore[no-untyped-def]
    """The gradient where nothing was clipped; the ends count as inside."""
    zero, one = out.dtype.type(0.0), out.dtype.type(1.0)
    if clipped:
        for i in range(len(out)):
            z = x[i] + (mean + sigma * noise[i])
            out[i] = g[i] if (z >= zero) & (z <= one) else zero
    else:
        for i in range(len(out)):
            out[i] = g[i]


@summing
def _sums(g, noise):  # type: ignore[no-untyped-def]
    alone = product = g.dtype.type(0.0)
    for i in range(len(g)):
        alone += g[i]
        product += g[i] * noise[i]
    return alone, product


@exact
def _strip(r, count, blocks, keys, series, words, floats):  # type: ignore[no-untyped-def]
    """Strip r of all samples of so many numbers: its sample, where it begins and ends in it, and its normal numbers."""
    strips = (count + 4 * blocks - 1) // (4 * blocks)
    b, block = r // strips, r % strips * blocks
    first, last = 4 * block, min(4 * (block + blocks), count)
    n, (artanh, sine, cosine) = (last - first + 3) // 4, series
    noise = floats[10 * n : 14 * n]
    normals(keys[b % len(keys)], block, artanh, sine, cosine, words[: 4 * n].reshape(4, n), floats[: 10 * n].reshape(10, n), noise)
    return b, first, last, noise


@exact.noinline
def _terms(rates, shares, levels, most, out):  # type: ignore[no-untyped-def]
    cast = out.dtype.type
    for u in range(len(out)):
        rate, share, level = rates[u], shares[u], levels[u]
        below, k = share, 1
        while k < most and level > below:
            share = share * (rate / cast(k))
            below = below + share
            k += 1
        out[u] = cast(k - 1)


@entry
def counts(rates, shares, levels, most, out, start, stop):  # type: ignore[no-untyped-def]
    """Numbers [start, stop): how many terms of Poisson's sum, fewer than ``most``, stay below a level; ``shares``: first terms."""
    _terms(rates[start:stop], shares[start:stop], levels[start:stop], most, out[start:stop])


@entry
def forward(images, keys, means, sigmas, series, clipped, blocks, out, words, floats, start, stop):  # type: ignore[no-untyped-def]
    """Strips [start, stop), of ``blocks`` blocks each, of images (batch, count), or of the fields alone if ``images`` is None.

    Args:
        keys, means, sigmas: (b or 1, 2), (b or 1,) and (b or 1,).
        series: coefficients of the inverse hyperbolic tangent, of sine and cosine.
        words, floats: scratch, 4 and 18 numbers per block.
    """
    for r in range(start, stop):
        b, first, last, noise = _strip(r, out.shape[1], blocks, keys, series, words, floats)
        if images is None:
            copy(noise[: last - first], out[b, first:last])
        else:
            x, mean, sigma = images[b, first:last], means[b % len(means)], sigmas[b % len(sigmas)]
            _noisy(x, noise, mean, sigma, clipped, out[b, first:last])


@entry
def backward(grad, images, keys, means, sigmas, series, clipped, blocks, out, sums, words, floats, start, stop):  # type: ignore[no-untyped-def]
    """The same strips' gradients: of the images into ``out`` (may be empty), and sums (strips, 2) for mean and sigma."""
    for r in range(start, stop):
        b, first, last, noise = _strip(r, images.shape[1], blocks, keys, series, words, floats)
        g = out[b, first:last] if out.size > 0 else floats[14 * blocks : 14 * blocks + last - first]
        mean, sigma = means[b % len(means)], sigmas[b % len(sigmas)]
        _masked(images[b, first:last], noise, mean, sigma, clipped, grad[b, first:last], g)
        sums[r, 0], sums[r, 1] = _sums(g, noise)
