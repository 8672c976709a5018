"""One axis of a separable filter as kernels: the filter, its adjoint, and the sums that are its taps' gradients.

Owns: mirrored borders, both ways; sums in the order of the taps, as the reference's.
Must not: know of the other axis, add across programs, or be imported where Triton is not.
Read next: ``../../launching.py``.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pellucid.kernels.launching import NUMBERS, cut, on, stride

__all__ = ["adjoint", "along", "back_along", "filtered", "sums_along", "tap_sums"]


@triton.jit
def _mirrored(i, length):  # type: ignore[no-untyped-def]
    """The pixel that a mirrored border puts at position i; the edge is not repeated."""
    period = tl.maximum(2 * (length - 1), 1)
    i = i % period
    i = tl.where(i < 0, i + period, i)
    return tl.where(i < length, i, period - i)


@triton.jit
def _place(tile, tiles_x, height, width, BW: tl.constexpr, P: tl.constexpr):  # type: ignore[no-untyped-def]
    """(column, row, whether there is such a pixel) of a tile's pixels."""
    lane = tl.arange(0, P)
    column, row = (tile % tiles_x) * BW + lane % BW, (tile // tiles_x) * (P // BW) + lane // BW
    return column, row, (column < width) & (row < height)


@triton.jit(do_not_specialize=NUMBERS)
def filtered(  # type: ignore[no-untyped-def]
    image, kernel, out, height, width, tiles_x, tiles, channels, kernel_step,
    TAPS: tl.constexpr, ACROSS: tl.constexpr, BW: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """Program (plane, tile): the sum over taps of the pixels beside each other (ACROSS) or above each other."""
    program = tl.program_id(0)
    plane = (program // tiles).to(tl.int64)
    column, row, inside = _place(program % tiles, tiles_x, height, width, BW, P)
    source, weights = image + plane * height * width, kernel + (plane // channels) * kernel_step
    total = tl.zeros((P,), image.dtype.element_ty)
    for k in range(TAPS):
        if ACROSS:
            at = row.to(tl.int64) * width + _mirrored(column + k - TAPS // 2, width)
        else:
            at = _mirrored(row + k - TAPS // 2, height).to(tl.int64) * width + column
        total += tl.load(source + at, mask=inside, other=0) * tl.load(weights + k)
    tl.store(out + plane * height * width + row.to(tl.int64) * width + column, total, mask=inside)


@triton.jit(do_not_specialize=NUMBERS)
def adjoint(  # type: ignore[no-untyped-def]
    grad, kernel, out, height, width, tiles_x, tiles, channels, kernel_step,
    TAPS: tl.constexpr, ACROSS: tl.constexpr, TURNS: tl.constexpr, BW: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """Program (plane, tile): every pixel collects from the outputs whose taps read it or one of its mirror images.

    TURNS: how many periods of the mirror a tap can reach.
    """
    program = tl.program_id(0)
    plane = (program // tiles).to(tl.int64)
    column, row, inside = _place(program % tiles, tiles_x, height, width, BW, P)
    source, weights = grad + plane * height * width, kernel + (plane // channels) * kernel_step
    if ACROSS:
        pixel, length = column, width
    else:
        pixel, length = row, height
    period = tl.maximum(2 * (length - 1), 1)
    total = tl.zeros((P,), grad.dtype.element_ty)
    for image in range(4 * TURNS + 2):
        turned = image % 2 == 1
        position = tl.where(turned, -pixel, pixel) + (image // 2 - TURNS) * period
        # A pixel on the edge is its own mirror image; it must not count twice.
        seen = inside & ((pixel != 0) & (pixel != length - 1) | (turned == 0))
        seen = seen & (position >= -(TAPS // 2)) & (position < length + TAPS // 2)
        if tl.max(seen.to(tl.int32), 0) > 0:
            for k in range(TAPS):
                reader = position - k + TAPS // 2
                if ACROSS:
                    at = row.to(tl.int64) * width + reader
                else:
                    at = reader.to(tl.int64) * width + column
                read = seen & (reader >= 0) & (reader < length)
                total += tl.load(source + at, mask=read, other=0) * tl.load(weights + k)
    tl.store(out + plane * height * width + row.to(tl.int64) * width + column, total, mask=inside)


@triton.jit(do_not_specialize=NUMBERS)
def tap_sums(  # type: ignore[no-untyped-def]
    grad, image, sums, height, width, tiles_x, tiles, chunks,
    TAPS: tl.constexpr, ACROSS: tl.constexpr, STEPS: tl.constexpr, BW: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """Program (plane, chunk of STEPS tiles, tap): the sum of the gradient times the pixel that the tap saw."""
    program = tl.program_id(0)
    k = program % TAPS
    chunk, plane = (program // TAPS) % chunks, (program // TAPS // chunks).to(tl.int64)
    total = tl.zeros((P,), grad.dtype.element_ty)
    for step in range(STEPS):
        tile = chunk * STEPS + step
        column, row, inside = _place(tile, tiles_x, height, width, BW, P)
        inside = inside & (tile < tiles)
        if ACROSS:
            at = row.to(tl.int64) * width + _mirrored(column + k - TAPS // 2, width)
        else:
            at = _mirrored(row + k - TAPS // 2, height).to(tl.int64) * width + column
        here = plane * height * width
        g = tl.load(grad + here + row.to(tl.int64) * width + column, mask=inside, other=0)
        total += g * tl.load(image + here + at, mask=inside, other=0)
    tl.store(sums + program, tl.sum(total, 0))


_WIDTH, _PIXELS = 32, 256
_OPTIONS = {"BW": _WIDTH, "P": _PIXELS, "num_warps": 4, "enable_fp_fusion": False}  # sums are those of the reference


def _tiles(image: Tensor) -> tuple[int, int, int, int]:
    height, width = image.shape[2:]
    across = triton.cdiv(width, _WIDTH)
    return height, width, across, across * triton.cdiv(height, _PIXELS // _WIDTH)


def along(image: Tensor, kernel: Tensor, *, across: bool, out: Tensor | None = None) -> Tensor:
    """Filter a contiguous image along one axis, into ``out`` where there is one."""
    *shape, tiles = _tiles(image)
    out = torch.empty_like(image) if out is None else out
    with on(image):
        filtered[(image.shape[0] * image.shape[1] * tiles,)](
            image, kernel, out, *shape, tiles, image.shape[1], stride(kernel), TAPS=kernel.shape[1], ACROSS=across, **_OPTIONS
        )
    return out


def back_along(grad: Tensor, kernel: Tensor, *, across: bool, out: Tensor | None = None) -> Tensor:
    """The adjoint of :func:`along`."""
    *shape, tiles = _tiles(grad)
    out = torch.empty_like(grad) if out is None else out
    taps, length = kernel.shape[1], grad.shape[3 if across else 2]
    turns = triton.cdiv(taps // 2 + length - 1, max(2 * (length - 1), 1))
    with on(grad):
        adjoint[(grad.shape[0] * grad.shape[1] * tiles,)](
            grad, kernel, out, *shape, tiles, grad.shape[1], stride(kernel), TAPS=taps, ACROSS=across, TURNS=turns, **_OPTIONS
        )
    return out


def sums_along(grad: Tensor, image: Tensor, taps: int, *, across: bool) -> Tensor:
    """(b, taps) in float64: the gradient of the kernel with which the image was filtered."""
    *shape, tiles = _tiles(image)
    batch, channels = image.shape[:2]
    _, steps, chunks = cut(tiles, 1)
    sums = image.new_empty((batch, channels * chunks, taps))
    with on(image):
        tap_sums[(sums.numel(),)](grad, image, sums, *shape, tiles, chunks, TAPS=taps, ACROSS=across, STEPS=steps, **_OPTIONS)
    return sums.sum(1, dtype=torch.float64)
