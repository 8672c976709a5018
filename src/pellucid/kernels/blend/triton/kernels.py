"""Noise as kernels: four normal numbers per hashed counter, added to four pixels in a row, and made again for the gradients.

Owns: the Box-Muller map of ``random/normals.py`` on blocks, with its operations in its order, so that the bits are the same.
Must not: keep a field in memory, add across programs, or be imported where Triton is not.
Read next: ``../../../random/philox_triton.py``.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from pellucid.kernels.launching import NUMBERS, cut, on, options, stride
from pellucid.random.normals import HALF_PI, LOG_2, ROOT_HALF, series
from pellucid.random.philox_triton import philox

__all__ = ["add_noise", "backward", "fill_field", "forward", "noise_gradients"]

_LOG_2, _HALF_PI, _ROOT_HALF = tl.constexpr(LOG_2), tl.constexpr(HALF_PI), tl.constexpr(ROOT_HALF)


@triton.jit
def _horner(x, TERMS: tl.constexpr):  # type: ignore[no-untyped-def]
    """A polynomial in x, its highest coefficient first."""
    total = tl.full(x.shape, TERMS[0], x.dtype)
    for k in tl.static_range(1, len(TERMS)):
        total = total * x + TERMS[k]
    return total


@triton.jit
def _unit(word, S):  # type: ignore[no-untyped-def]
    """The upper 24 bits of a word as a number between 0 and 1."""
    return ((word >> 8).to(tl.int32).to(S.F) + 0.5) * (2.0**-24)


@triton.jit
def _radius(u, S):  # type: ignore[no-untyped-def]
    """The root of -2 log u."""
    power = tl.zeros(u.shape, S.F)
    for k in tl.static_range(5):
        small = u < 2.0 ** -(2 ** (4 - k))
        u, power = tl.where(small, u * 2.0 ** (2 ** (4 - k)), u), tl.where(small, power - 2.0 ** (4 - k), power)
    small = u < _ROOT_HALF
    u, power = tl.where(small, u * 2.0, u), tl.where(small, power - 1.0, power)
    if S.F == tl.float32:
        s = tl.div_rn(u - 1.0, u + 1.0)
    else:
        s = (u - 1.0) / (u + 1.0)
    square = -2.0 * (power * _LOG_2 + s * _horner(s * s, S.ARTANH))
    if S.F == tl.float32:
        root = tl.sqrt_rn(square)
    else:
        root = tl.sqrt(square)
    return root


@triton.jit
def _turned(u, S):  # type: ignore[no-untyped-def]
    """(cosine, sine) of u turns."""
    t = u * 4.0
    quarter = tl.floor(t + 0.5)
    x = (t - quarter) * _HALF_PI
    square = x * x
    s, c = x * _horner(square, S.SINE), _horner(square, S.COSINE)
    odd, left = (quarter == 1.0) | (quarter == 3.0), (quarter == 1.0) | (quarter == 2.0)
    low = (quarter == 2.0) | (quarter == 3.0)
    cos, sin = tl.where(odd, s, c), tl.where(odd, c, s)
    return tl.where(left, -cos, cos), tl.where(low, -sin, sin)


@triton.jit
def _normals(words, block, S):  # type: ignore[no-untyped-def]
    """4 P normal numbers of a sample: those of P counters from number ``block`` P on."""
    zero = tl.zeros((S.P,), tl.int64)
    counter = (zero + block * S.P + tl.arange(0, S.P)).to(tl.uint32)
    none = zero.to(tl.uint32)
    k0, k1 = (zero + tl.load(words)).to(tl.uint32), (zero + tl.load(words + 1)).to(tl.uint32)
    w0, w1, w2, w3 = philox(counter, none, none, none, k0, k1)
    r0, r2 = _radius(_unit(w0, S), S), _radius(_unit(w2, S), S)
    c1, s1 = _turned(_unit(w1, S), S)
    c3, s3 = _turned(_unit(w3, S), S)
    # A thread holds the four numbers of its counter, in the order of the pixels.
    return tl.reshape(tl.join(tl.join(r0 * c1, r2 * c3), tl.join(r0 * s1, r2 * s3)), (4 * S.P,))


@triton.jit(do_not_specialize=NUMBERS)
def forward(  # type: ignore[no-untyped-def]
    image, words, mean, sigma, out, count, blocks, word_step, mean_step, sigma_step, S: tl.constexpr
):
    """Program (sample, block of 4 P pixels): image + (mean + sigma * normals), or without ADDED the normals alone."""
    program = tl.program_id(0)
    block, b = (program % blocks).to(tl.int64), (program // blocks).to(tl.int64)
    value = _normals(words + b * word_step, block, S)
    at = block * (4 * S.P) + tl.arange(0, 4 * S.P)
    inside = at < count
    if S.ADDED:
        value = tl.load(mean + b * mean_step) + tl.load(sigma + b * sigma_step) * value
        value = tl.load(image + b * count + at, mask=inside, other=0) + value
        if S.CLIP:
            value = tl.where(value < 0.0, 0.0, value)  # NaN stays
            value = tl.where(value > 1.0, 1.0, value)
    tl.store(out + b * count + at, value, mask=inside)


@triton.jit(do_not_specialize=NUMBERS)
def backward(  # type: ignore[no-untyped-def]
    grad, image, words, mean, sigma, to_image, sums, count, blocks, chunks, word_step, mean_step, sigma_step, S: tl.constexpr
):
    """Program (sample, chunk of STEPS blocks): the image's gradient, and the chunk's sums for mean and sigma."""
    program = tl.program_id(0)
    chunk, b = (program % chunks).to(tl.int64), (program // chunks).to(tl.int64)
    to_mean, to_sigma = tl.zeros((4 * S.P,), S.F), tl.zeros((4 * S.P,), S.F)
    for step in range(S.STEPS):
        block = chunk * S.STEPS + step
        at = block * (4 * S.P) + tl.arange(0, 4 * S.P)
        inside = (at < count) & (block < blocks)
        value = _normals(words + b * word_step, block, S)
        g = tl.load(grad + b * count + at, mask=inside, other=0)
        if S.CLIP:
            shift = tl.load(mean + b * mean_step) + tl.load(sigma + b * sigma_step) * value
            noisy = tl.load(image + b * count + at, mask=inside, other=0) + shift
            g = tl.where((noisy >= 0.0) & (noisy <= 1.0), g, 0.0)
        if S.TO_IMAGE:
            tl.store(to_image + b * count + at, g, mask=inside)
        if S.TO_SUMS:
            to_mean += g
            to_sigma = tl.fma(g, value, to_sigma)
    if S.TO_SUMS:
        tl.store(sums + (b * chunks + chunk) * 2, tl.sum(to_mean, 0))
        tl.store(sums + (b * chunks + chunk) * 2 + 1, tl.sum(to_sigma, 0))


_COUNTERS = 128  # of a block: a counter per thread, so four pixels in a row


def _options(dtype: torch.dtype, **constants: Any) -> dict[str, Any]:
    return options(dtype, _COUNTERS, **dict(zip(("ARTANH", "SINE", "COSINE"), series(dtype), strict=True)), **constants)


def _run(out: Tensor, image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, **constants: bool) -> None:
    count, steps = out[0].numel(), (stride(words), stride(mean), stride(sigma))
    blocks, _, _ = cut(count, 4 * _COUNTERS)
    with on(out):
        given = image, words, mean, sigma, out, count, blocks, *steps
        forward[(out.shape[0] * blocks,)](*given, **_options(out.dtype, **constants))


def add_noise(out: Tensor, image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, *, clip: bool) -> None:
    """Write image + mean + sigma * normals into the contiguous ``out``; everything is contiguous and of one dtype."""
    _run(out, image, words, mean, sigma, ADDED=True, CLIP=clip)


def fill_field(out: Tensor, words: Tensor) -> None:
    """Write the normal numbers themselves."""
    _run(out, out, words, out, out, ADDED=False, CLIP=False)


def noise_gradients(
    grad: Tensor, image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, *, clip: bool, to_image: Tensor | None, sums: bool
) -> Tensor:
    """(b, 2): the gradients of mean and sigma in float64 (if ``sums``); writes the image's to ``to_image`` unless that is None."""
    batch, count = image.shape[0], image[0].numel()
    blocks, steps, chunks = cut(count, 4 * _COUNTERS)
    parts = image.new_empty((batch, chunks, 2) if sums else (0,))
    into, numbers = grad if to_image is None else to_image, (count, blocks, chunks, stride(words), stride(mean), stride(sigma))
    constants = _options(image.dtype, TO_IMAGE=to_image is not None, TO_SUMS=sums, CLIP=clip, STEPS=steps)
    with on(image):
        backward[(batch * chunks,)](grad, image, words, mean, sigma, into, parts, *numbers, **constants)
    return parts.sum(1, dtype=torch.float64) if sums else parts
