"""The mean colour of a batch.

Owns: `mean_color`, in the precision of drawn values, `with_mean` and `means_of`, and which pixels count: `pixels_of`.
Must not: keep anything, or write to what others may hold.
Read next: ``sums.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, Shaped
from numpy.typing import NDArray
from torch import Tensor

from pellucid.core.compilers import numba_works
from pellucid.core.constants import wide_dtype
from pellucid.core.tape import is_plain_eager
from pellucid.kernels.several import Pictures, rows_of
from pellucid.kernels.threads import elements, run_loop, run_split
from pellucid.kernels.within import in_memory

__all__ = ["mean_color", "means_of", "pixels_of", "with_mean"]

_BYTES = 1 << 19  # the fewest worth handing to another thread
_SLIVER = 1 / 64  # of a pixel: rounding may have made a frame larger by so much, which does not count
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_ADDED = {torch.uint8: np.uint32, **dict.fromkeys(_FLOATS, np.float64)}
"""The dtype that a column of pixels is added up in, by the image's."""


def mean_color(image: Shaped[Tensor, "b c h w"]) -> Float[Tensor, "b c"]:
    """Each sample's mean colour, in [0, 1] units where the image is 8-bit; differentiable where it is not.

    On the CPU sums are compiled and run on the kernels' own threads. A parallel sum by torch would leave its OpenMP threads
    spinning for milliseconds on the cores that the pass is about to want.
    """
    return with_mean(image)[1]


def with_mean(
    image: Shaped[Tensor, "b c h w"] | Pictures, pixels: Int64[Tensor, "b_or_1 4"] | None = None
) -> tuple[Any, Float[Tensor, "b c"]]:
    """The image, to be read by one compiled pass and nothing else, and the :func:`mean_color` of some of its pixels.

    Args:
        image: floating point, or uint8.
        pixels: as `pixels_of` gives them; default: all.

    Backward, the pass writes the image's gradient to new memory, and the mean's part of it is added there in place, on the kernels'
    own threads. Autograd would add the two by a parallel sum of torch's, which costs what :func:`mean_color` says.
    """
    if not isinstance(image, Tensor):
        return _with_means(image, pixels)
    if image.is_cpu and image.numel() and is_plain_eager() and numba_works():
        runs = _runs(image)
        if runs is None and image.dtype in _ADDED:
            return image, with_mean(image.contiguous(), pixels)[1]  # the same sums, whatever lies between the pixels
        if runs is not None:
            if torch.is_grad_enabled() and image.requires_grad:
                same, mean = _WithMean.apply(image, runs, pixels)
                return same, mean
            return image, _mean(image, runs, pixels)
    wide = wide_dtype(image.device)
    if image.dtype != torch.uint8:
        summed = wide if image.is_cpu else torch.promote_types(image.dtype, torch.float32)  # on the CPU as compiled sums are
        return image, _mean_within(image, pixels, summed).to(wide)
    return image, _mean_within(image, pixels, wide if image.is_cpu else torch.float32).to(wide) * (1.0 / 255.0)


def _with_means(pictures: Pictures, pixels: Tensor | None) -> tuple[Pictures, Tensor]:
    """The same for pictures of several sizes; threads share them."""
    found: list[Any] = [None] * len(pictures.parts)

    def some(start: int, stop: int) -> None:
        for k in range(start, stop):
            found[k] = with_mean(pictures.parts[k], rows_of(pixels, pictures.places[k]))

    if torch.is_grad_enabled() and pictures.requires_grad:  # other threads do not know the gradient mode
        some(0, len(found))
    else:
        run_split(some, len(found), _BYTES // (pictures.parts[0][0].numel() * pictures.dtype.itemsize) + 1)
    same, means = zip(*found, strict=True)
    return pictures._replace(parts=same), pictures._replace(parts=means).batch()


def pixels_of(frame: Float[Tensor, "b_or_1 4"], whole: Float[Tensor, "1 4"]) -> Int64[Tensor, "b_or_1 4"]:
    """The pixels of a frame: first column, first row, the column and the row behind the last.

    Args:
        frame: left, top, right, bottom in pixels, by the pixels' edges (-0.5 is the image's): pixels that it covers by more than a
            64th count, at least one. NaN is outside on the near side.
        whole: the centres of the image's first and last pixels, in this order.
    """
    near, far = torch.where(frame == frame, frame, -1.0).split(2, 1)
    zero, last = whole.split(2, 1)
    first = ((near - (0.5 - _SLIVER)).floor() + 1.0).maximum(zero).minimum(last)
    behind = (far + (0.5 - _SLIVER)).ceil().minimum(last + 1.0).maximum(first + 1.0)
    return torch.cat((first, behind), 1).to(torch.int64)


def _within(bounds: Int64[Tensor, "b_or_1 4"], height: int, width: int) -> Bool[Tensor, "b_or_1 1 h w"]:
    y, x = (torch.arange(length, device=bounds.device) for length in (height, width))
    rows, columns = ((at >= bounds[:, i, None]) & (at < bounds[:, i + 2, None]) for at, i in ((y, 1), (x, 0)))
    return rows[:, None, :, None] & columns[:, None, None, :]


def _mean_within(image: Tensor, bounds: Tensor | None, dtype: torch.dtype) -> Tensor:
    image = image.to(dtype)  # ONNX has no mean of bytes
    if bounds is None:
        return image.mean((-2, -1))
    kept = torch.where(_within(bounds, *image.shape[-2:]), image, torch.zeros((), dtype=dtype, device=image.device))
    return kept.sum((-2, -1)) / _pixels(bounds).to(dtype)[:, None]


def _pixels(bounds: Int64[Tensor, "b_or_1 4"]) -> Int64[Tensor, "b_or_1"]:
    return (bounds[:, 2] - bounds[:, 0]) * (bounds[:, 3] - bounds[:, 1])


class _WithMean(torch.autograd.Function):
    """The image and its compiled mean, whose gradient is the same number for all pixels of a channel within the frame."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, runs: tuple[int, int, int], bounds: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.shape, ctx.dtype, ctx.bounds = image.shape, image.dtype, bounds
        ctx.set_materialize_grads(False)
        return image.view_as(image), _mean(image.detach(), runs, bounds)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None, None]:
        to_image, to_mean = grads
        if to_mean is None:
            return to_image, None, None
        height, width = ctx.shape[2:]
        count = height * width if ctx.bounds is None else _pixels(ctx.bounds)[:, None]
        share = (to_mean / count).to(ctx.dtype)
        alone = not torch.is_grad_enabled() and is_plain_eager()
        if alone and to_image is not None and in_memory(to_image) and to_image.is_contiguous():
            return _added(to_image, share, ctx.bounds), None, None
        shares = share[:, :, None, None]
        if ctx.bounds is not None:
            shares = shares * _within(ctx.bounds, height, width)
        return shares.expand(ctx.shape) if to_image is None else to_image + shares, None, None


def _added(image: Tensor, share: Tensor, bounds: Tensor | None) -> Tensor:
    """Add a number to the pixels of each channel of a gradient that nobody else holds."""
    from pellucid.kernels.color.sums import add_shares

    height, width = image.shape[2:]
    planes, shares = image.view(-1, height, width).numpy(), share.reshape(-1).numpy()
    grain = _BYTES // (height * width * image.element_size()) + 1
    run_loop(add_shares, len(planes), grain, planes, _rectangles(bounds, len(planes), height, width), shares)
    return image


def _rectangles(
    bounds: Tensor | None, pictures: int, height: int, row: int, alternating: int = 1, unseen: int = 0
) -> NDArray[np.int64]:
    """(pictures, 4): first row, row behind the last, and the same of elements in a row, of which the last ``unseen`` are left
    out.
    """
    if bounds is None:
        whole = np.empty((pictures, 4), np.int64)
        whole[:] = 0, height, 0, row
        return whole
    found = bounds.numpy()[:, [1, 3, 0, 2]] * (1, 1, alternating, alternating) - (0, 0, 0, unseen)
    return np.repeat(found, pictures // len(found), 0)


def _runs(image: Tensor) -> tuple[int, int, int] | None:
    """(pictures, channels that alternate in each, elements between pictures); None unless a row is a run of elements.

    Of up to four channels that alternate, the last ones may belong to no channel of the image.
    """
    if image.dtype not in _ADDED:
        return None
    batch, channels = image.shape[:2]
    stride_b, stride_c, _, stride_x = image.stride()
    if channels == 1:  # of an axis of one element the stride says nothing
        stride_c = stride_b
    if image.shape[3] == 1:
        stride_x = channels if stride_c == 1 else 1
    if stride_c == 1 and (stride_x == channels or 1 < channels < stride_x <= 4):
        return batch, stride_x, stride_b
    if stride_x == 1 and (stride_b == channels * stride_c or batch == 1):
        return batch * channels, 1, stride_c
    return None


def _mean(image: Tensor, runs: tuple[int, int, int], bounds: Tensor | None) -> Tensor:
    """Compiled means: of bytes by exact sums; floats are added up in float64."""
    return torch.from_numpy(_summer(image, runs)(elements(image), bounds))


def means_of(image: Tensor) -> Callable[[Any, Tensor | None], Any] | None:
    """The compiled :func:`mean_color` as a function of the memory of pictures laid out as this one; None for other layouts."""
    runs = _runs(image)
    return None if runs is None else _summer(image, runs)


def _summer(image: Tensor, runs: tuple[int, int, int]) -> Callable[[Any, Tensor | None], Any]:
    from pellucid.kernels.color.sums import channel_means

    batch, channels, height, width = image.shape
    pictures, alternating, step = runs
    unseen = alternating - channels if alternating > 1 else 0
    row, stride_y = width * alternating - unseen, image.stride(2)
    unit = 255.0 if image.dtype == torch.uint8 else 1.0
    grain, kind = _BYTES // (height * row * image.element_size()) + 1, _ADDED[image.dtype]

    def summed(flat: Any, bounds: Tensor | None) -> Any:
        means = np.empty((pictures, alternating))
        given = flat, _rectangles(bounds, pictures, height, row, alternating, unseen), alternating, step, stride_y, unit, means
        run_loop(channel_means, pictures, grain, *given, room=lambda: (np.empty(row, kind),))
        return means[:, :channels] if unseen else means.reshape(batch, channels)

    return summed
