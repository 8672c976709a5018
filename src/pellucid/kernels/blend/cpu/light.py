"""Light, weather and dust on bytes, in loops that read and write each pixel once.

Owns: `fallen`, `lit`, `replaced` and `snowed`.
Must not: know of tensors; everything comes as contiguous arrays.
Read next: ``sweep.py``.
"""

import numpy as np

from pellucid.kernels.jit import entry, fused
from pellucid.kernels.levels import level_of

__all__ = ["fallen", "lit", "replaced", "snowed"]


@fused.noinline
def _lit(x, gain, offset, unit, out):  # type: ignore[no-untyped-def]
    for u in range(len(out)):
        out[u] = level_of(type(unit)(x[u]) * unit * gain[u] + offset[u])


@entry
def lit(images, gains, offsets, channels, strip, out, start, stop):  # type: ignore[no-untyped-def]
    """Strips [start, stop), of ``strip`` pixels each, of planes (b * channels, n): fractions of 255 times gains plus offsets.

    ``gains``, ``offsets``: (samples or 1, channels or 1, n).
    """
    n, unit = images.shape[1], gains.dtype.type(1.0 / 255.0)
    strips = (n + strip - 1) // strip
    for s in range(start, stop):
        p, first = s // strips, s % strips * strip
        b, c, last = p // channels, p % channels, min(first + strip, n)
        gain, offset = gains[b % len(gains), c % gains.shape[1]], offsets[b % len(offsets), c % offsets.shape[1]]
        _lit(images[p, first:last], gain[first:last], offset[first:last], unit, out[p, first:last])


@fused.noinline
def _replaced(x, field, share, white, out):  # type: ignore[no-untyped-def]
    for u in range(len(out)):
        kept = x[u] if field[u] >= share else np.uint8(0)
        out[u] = np.uint8(255) if field[u] < white else kept


@entry
def replaced(images, fields, shares, whites, out, start, stop):  # type: ignore[no-untyped-def]
    """Pictures [start, stop) of (b, n) bytes: white where the field is below one number, black where it is below another."""
    for b in range(start, stop):
        _replaced(images[b], fields[b % len(fields)], shares[b % len(shares)], whites[b % len(whites)], out[b])


@fused.noinline
def _bright(picture, weights, unit, first, bright):  # type: ignore[no-untyped-def]
    bright[:] = type(unit)(0.0)
    for c in range(len(picture)):
        x, share = picture[c, first:], weights[c]
        for u in range(len(bright)):
            bright[u] += share * (type(unit)(x[u]) * unit)


@fused.noinline
def _snowed(x, bright, layer, kept, strength, unit, out):  # type: ignore[no-untyped-def]
    """Blend in, by ``strength``, a paler picture with flakes."""
    one, half, more = type(unit)(1.0), type(unit)(0.5), type(unit)(1.5)
    for u in range(len(out)):
        a = type(unit)(x[u]) * unit
        pale = more * bright[u] + half
        pale = kept * a + (one - kept) * (a if a > pale else pale)
        out[u] = level_of(a + strength * (pale + layer[u] - a))


@entry
def snowed(images, layers, weights, strengths, kept, strip, out, room, start, stop):  # type: ignore[no-untyped-def]
    """Strips [start, stop), of ``strip`` pixels of all channels each; images, out: (b, c, n); layers: (b, n).

    Args:
        weights: of the channels in a pixel's brightness.
        kept: the share of the picture that is not made paler.
        room: scratch of ``strip`` numbers.
    """
    n, unit = images.shape[2], layers.dtype.type(1.0 / 255.0)
    strips = (n + strip - 1) // strip
    for s in range(start, stop):
        b, first = s // strips, s % strips * strip
        last = min(first + strip, n)
        bright, layer = room[: last - first], layers[b % len(layers)]
        _bright(images[b], weights, unit, first, bright)
        strength = strengths[b % len(strengths)]
        for c in range(images.shape[1]):
            x, row = images[b, c, first:last], out[b, c, first:last]
            _snowed(x, bright, layer[first:last], kept, strength, unit, row)


@fused.noinline
def _spans(kernel, spans):  # type: ignore[no-untyped-def]
    """Find, for each row of a kernel, the range [first, last) outside of which all weights are 0."""
    for i in range(len(kernel)):
        first, last = 0, len(kernel)
        while first < last and kernel[i, first] == 0:
            first += 1
        while last > first and kernel[i, last - 1] == 0:
            last -= 1
        spans[i, 0], spans[i, 1] = first, last


@fused.noinline
def _drop(light, kernel, spans, v, u, out):  # type: ignore[no-untyped-def]
    """Add the streak of a drop at (v, u) of the field; pixel (y, x) of the picture sees the field from (y, x) on."""
    height, width = out.shape
    for i in range(max(v - height + 1, 0), min(len(kernel), v + 1)):
        first, last = max(spans[i, 0], u - width + 1), min(spans[i, 1], u + 1)
        weights, row = kernel[i], out[v - i]
        for j in range(first, last):
            row[u - j] += light * weights[j]


@entry
def fallen(fields, densities, kernels, out, spans, start, stop):  # type: ignore[no-untyped-def]
    """Pictures [start, stop): add up the streaks of their few drops, at most 1.

    Args:
        fields: (b, h + k - 1, w + k - 1), uniform on (0, 1).
        densities: a number of the field below this is a drop, and the smaller it is, the brighter.
        kernels: (b, k, k), the streak of a drop.
        spans: scratch (k, 2).
    """
    one = out.dtype.type(1.0)
    for b in range(start, stop):
        density, into, kernel = densities[b % len(densities)], out[b], kernels[b % len(kernels)]
        _spans(kernel, spans)
        into[:] = out.dtype.type(0.0)
        for v in range(fields.shape[1]):
            row = fields[b, v]
            for u in range(len(row)):
                if row[u] < density:
                    _drop(one - row[u] / density, kernel, spans, v, u, into)
        flat = into.reshape(into.size)
        for u in range(len(flat)):
            flat[u] = min(flat[u], one)
