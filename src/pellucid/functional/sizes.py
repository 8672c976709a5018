"""Images brought to other sizes: resampled, cropped or padded.

Owns: `resize`, `longest_max_size`, `letterbox`, `crop`, `pad`, `pad_if_needed`; and fewer frames, `uniform_temporal_subsample`.
Must not: move content by anything but whole pixels in `crop` and `pad`.
Read next: ``turns.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.errors import invalid, wrong_type
from pellucid.functional.fills import FillValue, read_fill
from pellucid.functional.images import close_image, open_image, read_dtype, spec_of
from pellucid.geometry.matrices import scale_shift
from pellucid.kernels import resize as resize_kernel
from pellucid.kernels import warp as warp_kernel
from pellucid.kernels.warp.taps import FILLED_MODES, PADDING_MODES, fold_index
from pellucid.transforms.base import as_padding, as_size, check_choice, padding_named
from pellucid.transforms.resize import fitting_size, letterboxed
from pellucid.types import Padding, Size

__all__ = ["crop", "letterbox", "longest_max_size", "pad", "pad_if_needed", "resize", "uniform_temporal_subsample"]


def resize(
    image: Shaped[Tensor, "*b c h w"],
    size: int | Size,
    *,
    interpolation: str = "bilinear",
    antialias: bool = True,
    impl: str = "auto",
) -> Shaped[Tensor, "*b c h2 w2"]:
    """Resize to (height, width).

    Args:
        image: (C, H, W) or (B, C, H, W). 8-bit images are computed in float32 and rounded; other integers need ``nearest``.
        size: (height, width), or an int for the shorter side (the aspect ratio is kept).
        interpolation: ``bilinear``, ``nearest`` (floor(x + 0.5)) or ``bicubic`` (Keys, a = -0.5).
        antialias: low-pass when shrinking; without effect on ``nearest``.

    Gradient:
        image: exact; with antialiasing every input pixel has one.

    Source:
        ``PIL.Image.resize``: where the kernel reaches over the border, its weights inside are normalised. For bilinear that is
        ``torch.nn.functional.interpolate(..., align_corners=False, antialias=antialias)``. Nearest is integer arithmetic.

    Example:
        >>> resize(torch.tensor([[[0.0, 2.0, 4.0, 6.0]]]), (1, 2))
        tensor([[[1.4286, 4.5714]]])
    """
    check_choice("interpolation", interpolation, ("bilinear", "nearest", "bicubic"))
    pixels, layout = open_image(image)
    target = _target(size, (pixels.shape[-2], pixels.shape[-1]))
    if target == pixels.shape[-2:]:
        return image.clone()
    dtype, like = read_dtype(pixels, interpolation)
    matrix = _matrix(pixels.shape[-2:], target, like)
    options: dict[str, Any] = {
        "size": target,
        "interpolation": interpolation,
        "dtype": dtype,
        "levels": True,
        "padding_mode": "border",
    }
    if interpolation == "bicubic" or (antialias and interpolation == "bilinear"):
        height, width = pixels.shape[-2:]
        window = constant((0.0, 0.0, width - 1.0, height - 1.0), like.dtype, like.device)[None]
        out = resize_kernel.resize(pixels, warp_kernel.pack(matrix, window=window, antialias=antialias, **options), impl=impl)
    else:
        out = warp_kernel.warp(pixels, warp_kernel.pack(matrix[:, :2], **options), impl=impl)
    return close_image(out, layout)


def _target(size: int | Size, size_in: Size) -> Size:
    if not isinstance(size, int) or isinstance(size, bool):
        return as_size("size", size)
    short, long = as_size("size", size)[0], max(1, int(size * max(size_in) / min(size_in)))
    return (short, long) if size_in[0] <= size_in[1] else (long, short)


def _matrix(size_in: Sequence[int], target: Size, like: Tensor) -> Tensor:
    """src_from_dst (1, 3, 3): output pixel centres at their places on the input."""
    step_y, step_x = size_in[0] / target[0], size_in[1] / target[1]
    numbers = torch.zeros(1, dtype=like.dtype if like.dtype.is_floating_point else torch.float32, device=like.device)
    return scale_shift(step_x, 0.5 * step_x - 0.5, step_y, 0.5 * step_y - 0.5, numbers)


def longest_max_size(
    image: Shaped[Tensor, "*b c h w"],
    size: int | Size,
    *,
    interpolation: str = "bilinear",
    antialias: bool = True,
    impl: str = "auto",
) -> Shaped[Tensor, "*b c h2 w2"]:
    """Resize the longer side to ``size`` pixels, keeping the aspect ratio.

    Args:
        image, interpolation, antialias, impl: as in :func:`resize`.
        size: of the longer side; a pair (height, width) is the size that the result just fits into.

    Returns:
        The resized image, in the dtype of ``image``.

    Gradient:
        image: exact.

    Source:
        albumentations' LongestMaxSize, which rounds half up.

    Example:
        >>> longest_max_size(torch.zeros(3, 12, 16), 8).shape
        torch.Size([3, 6, 8])
    """
    target = fitting_size(as_size("size", size), spec_of(image))
    return resize(image, target, interpolation=interpolation, antialias=antialias, impl=impl)


def letterbox(
    image: Shaped[Tensor, "*b c h w"],
    size: int | Size,
    *,
    fill: FillValue = 0.0,
    interpolation: str = "bilinear",
    antialias: bool = True,
    impl: str = "auto",
) -> Shaped[Tensor, "*b c h2 w2"]:
    """Resize to fit inside a fixed size, keeping the aspect ratio, and fill the rest evenly on both sides.

    Args:
        image, interpolation, antialias, impl: as in :func:`resize`.
        size: (height, width) of the result, or an int for a square.
        fill: the colour of the bars, as in :func:`crop`. An odd pixel of them goes to the right and to the bottom.

    Source:
        ``cv2.copyMakeBorder`` around :func:`resize`.

    Example:
        >>> letterbox(torch.zeros(1, 2, 4), 4, fill=0.5)[0, :, 0]
        tensor([0.5000, 0.0000, 0.0000, 0.5000])
    """
    height, width = as_size("size", size)
    inner, top, left = letterboxed((height, width), spec_of(image))
    shown = resize(image, inner, interpolation=interpolation, antialias=antialias, impl=impl)
    return _crop_or_pad(shown, -top, -left, height, width, "constant", fill)


def crop(
    image: Shaped[Tensor, "*b c h w"],
    top: int,
    left: int,
    height: int,
    width: int,
    *,
    padding_mode: str = "constant",
    fill: FillValue = 0.0,
) -> Shaped[Tensor, "*b c height width"]:
    """Cut out a rectangle of whole pixels, bit for bit; outside of the image it is padded.

    Args:
        image: (C, H, W) or (B, C, H, W), any dtype.
        top: first row; may be negative.
        left: first column; may be negative.
        height: rows of the result.
        width: columns of the result.
        padding_mode: ``zeros``, ``constant`` (both show ``fill``), ``border`` (NumPy's ``edge``), ``reflection`` (edge pixel
            repeated, NumPy's ``symmetric``), ``reflect_101`` (NumPy's ``reflect``) or ``wrap``.

    Returns:
        A new tensor in the dtype of ``image``, never a view of it.

    Gradient:
        image, fill: exact.

    Source:
        ``torchvision.transforms.v2.functional.crop``.

    Example:
        >>> crop(torch.arange(6.0).reshape(1, 2, 3), 1, 1, 1, 3)
        tensor([[[4., 5., 0.]]])
    """
    for name, value in (("top", top), ("left", left), ("height", height), ("width", width)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise wrong_type(name, expected="a whole number of pixels", got=repr(value), fix="warp moves by parts of a pixel.")
    if min(height, width) < 1:
        raise invalid("height, width", expected="at least 1", got=f"{height}, {width}")
    return _crop_or_pad(image, top, left, height, width, padding_mode, fill)


def pad(
    image: Shaped[Tensor, "*b c h w"], padding: Padding, *, fill: FillValue = 0.0, padding_mode: str = "constant"
) -> Shaped[Tensor, "*b c h2 w2"]:
    """Add whole pixels around the image, bit for bit.

    Args:
        image: (C, H, W) or (B, C, H, W), any dtype.
        padding: an int, (left-right, top-bottom) or (left, top, right, bottom).
        padding_mode: as in `crop`.

    Source:
        ``numpy.pad`` modes constant, edge, symmetric, reflect and wrap.

    Example:
        >>> pad(torch.tensor([[[1.0, 2.0]]]), (2, 0), padding_mode="reflection")
        tensor([[[2., 1., 1., 2., 2., 1.]]])
    """
    left, top, right, bottom = as_padding("padding", padding)
    pixels, _ = open_image(image)
    height, width = pixels.shape[-2:]
    return _crop_or_pad(image, -top, -left, height + top + bottom, width + left + right, padding_mode, fill)


def pad_if_needed(
    image: Shaped[Tensor, "*b c h w"], size: int | Size, *, fill: FillValue = 0.0, padding_mode: str = "constant"
) -> Shaped[Tensor, "*b c h2 w2"]:
    """Add whole pixels evenly on both sides until the image has at least a given size, bit for bit.

    Args:
        image: (C, H, W) or (B, C, H, W), any dtype.
        size: the least (height, width), or an int for both.
        fill, padding_mode: as in :func:`crop`.

    An odd pixel goes to the right and to the bottom.

    Source:
        ``cv2.copyMakeBorder``.

    Example:
        >>> pad_if_needed(torch.tensor([[[1.0], [2.0]]]), (1, 4), fill=9.0)
        tensor([[[9., 1., 9., 9.],
                 [9., 2., 9., 9.]]])
    """
    least, spec = as_size("size", size), spec_of(image)
    height, width = max(least[0], int(spec.height)), max(least[1], int(spec.width))
    top, left = (height - int(spec.height)) // 2, (width - int(spec.width)) // 2
    return _crop_or_pad(image, -top, -left, height, width, padding_mode, fill)


def _crop_or_pad(image: Tensor, top: int, left: int, height: int, width: int, padding_mode: str, fill: FillValue) -> Tensor:
    padding_mode = padding_named(padding_mode)
    check_choice("padding_mode", padding_mode, PADDING_MODES)
    pixels, layout = open_image(image)
    outside = read_fill("fill", fill, channels=pixels.shape[1], batch=pixels.shape[0], like=pixels)
    masks = []
    for dim, start, count in ((-2, top, height), (-1, left, width)):
        length = pixels.shape[dim]
        place = torch.arange(start, start + count, device=pixels.device)
        pixels = pixels.index_select(dim, fold_index(place, length, padding_mode))
        masks.append((place >= 0) & (place < length))
    if padding_mode in FILLED_MODES:
        rest = pixels.new_zeros(()) if outside is None else outside[:, :, None, None]
        pixels = torch.where(masks[0][:, None] & masks[1], pixels, rest)
    return close_image(pixels, layout)


def uniform_temporal_subsample(video: Shaped[Tensor, "*b t c h w"], num_samples: int) -> Shaped[Tensor, "*b t2 c h w"]:
    """Take frames at equal distances, from the first to the last.

    Args:
        video: (T, C, H, W) or (B, T, C, H, W), any dtype.
        num_samples: how many frames; more than the video has repeats some.

    Returns:
        A new video of so many frames.

    Gradient:
        video: exact.

    Source:
        ``torchvision.transforms.v2.functional.uniform_temporal_subsample``.

    Example:
        >>> uniform_temporal_subsample(torch.arange(5).reshape(5, 1, 1, 1), 3).flatten()
        tensor([0, 2, 4])
    """
    if not isinstance(video, Tensor):
        raise wrong_type("video", expected="a tensor", got=type(video).__name__)
    if video.dim() not in (4, 5) or not video.shape[-4]:
        raise invalid("video", expected="(T, C, H, W) or (B, T, C, H, W), with a frame", got=f"shape {tuple(video.shape)}")
    if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples < 1:
        raise invalid("num_samples", expected="how many frames, at least 1", got=repr(num_samples))
    last, gaps = video.shape[-4] - 1, max(num_samples - 1, 1)
    return torch.stack([video.select(-4, at * last // gaps) for at in range(num_samples)], -4)
