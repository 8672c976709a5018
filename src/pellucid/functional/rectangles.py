"""Crops at places that the image's size decides, perspective, and channels in another order.

Owns: `center_crop`, `five_crop`, `ten_crop`, `resized_crop`, `perspective`, `permute_channels`, `grayscale_to_rgb`.
Must not: cut or resample by itself; crops, resizes and warps do.
Read next: ``turns.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.errors import invalid
from pellucid.functional import turns
from pellucid.functional.estimate import get_perspective_transform
from pellucid.functional.fills import Factor, FillValue
from pellucid.functional.images import close_image, open_image, require_channels
from pellucid.functional.sizes import crop, pad, resize
from pellucid.functional.warps import warp
from pellucid.transforms.base import as_size
from pellucid.types import Size

__all__ = [
    "center_crop", "five_crop", "grayscale_to_rgb", "permute_channels", "perspective", "resized_crop", "ten_crop",
]  # fmt: skip


def center_crop(image: Shaped[Tensor, "*b c h w"], size: int | Size, *, fill: FillValue = 0.0) -> Shaped[Tensor, "*b c h2 w2"]:
    """Cut out the middle, of whole pixels, bit for bit; a smaller image is padded.

    Args:
        image: (C, H, W) or (B, C, H, W), any dtype.
        size: (height, width), or an int for a square.

    Source:
        ``torchvision.transforms.v2.functional.center_crop``.

    Example:
        >>> center_crop(torch.tensor([[[1.0, 2.0, 3.0]]]), 1)
        tensor([[[2.]]])
    """
    height, width = as_size("size", size)
    pixels, _ = open_image(image)
    rows, columns = pixels.shape[-2:]
    top, left = max(0, height - rows) // 2, max(0, width - columns) // 2
    right, bottom = max(0, width - columns) - left, max(0, height - rows) - top
    padded = pad(image, (left, top, right, bottom), fill=fill)
    rows, columns = padded.shape[-2:]
    return crop(padded, round((rows - height) / 2.0), round((columns - width) / 2.0), height, width)


def five_crop(image: Shaped[Tensor, "*b c h w"], size: int | Size) -> Shaped[Tensor, "*b 5 c h2 w2"]:
    """Cut out the four corners and the middle, bit for bit.

    Args:
        image: (C, H, W) or (B, C, H, W), any dtype.
        size: (height, width), or an int for a square; at most the image's.

    Returns:
        Top left, top right, bottom left, bottom right and middle along a new axis before the channels. (torchvision has a tuple.)

    Source:
        ``torchvision.transforms.v2.functional.five_crop``.

    Example:
        >>> five_crop(torch.tensor([[[1, 2, 3]]]), 1).flatten()
        tensor([1, 3, 1, 3, 2])
    """
    height, width = as_size("size", size)
    pixels, _ = open_image(image)
    rows, columns = pixels.shape[-2:]
    if height > rows or width > columns:
        raise invalid("size", expected=f"at most the image's, {rows}x{columns}", got=f"{height}x{width}")
    corners = [crop(image, top, left, height, width) for top in (0, rows - height) for left in (0, columns - width)]
    return torch.stack([*corners, center_crop(image, (height, width))], -4)


def ten_crop(
    image: Shaped[Tensor, "*b c h w"], size: int | Size, *, vertical_flip: bool = False
) -> Shaped[Tensor, "*b 10 c h2 w2"]:
    """Cut out the corners and the middle of the image and of its mirror image, bit for bit.

    Args:
        image: (C, H, W) or (B, C, H, W), any dtype.
        size: as in `five_crop`.
        vertical_flip: mirror top and bottom, rather than left and right.

    Returns:
        Those of the image, then those of its mirror image, as in `five_crop`.

    Source:
        ``torchvision.transforms.v2.functional.ten_crop``.

    Example:
        >>> ten_crop(torch.tensor([[[1, 2, 3]]]), 1).flatten()
        tensor([1, 3, 1, 3, 2, 3, 1, 3, 1, 2])
    """
    mirrored = turns.vertical_flip(image) if vertical_flip else turns.horizontal_flip(image)
    return torch.cat([five_crop(image, size), five_crop(mirrored, size)], -4)


def resized_crop(
    image: Shaped[Tensor, "*b c h w"],
    top: int,
    left: int,
    height: int,
    width: int,
    size: int | Size,
    *,
    interpolation: str = "bilinear",
    antialias: bool = True,
    impl: str = "auto",
) -> Shaped[Tensor, "*b c h2 w2"]:
    """Cut out a rectangle of whole pixels, and resize it.

    Args:
        image: (C, H, W) or (B, C, H, W).
        top, left, height, width: as in `crop`.
        size, interpolation, antialias, impl: as in `resize`, but an int is a square.

    Source:
        ``torchvision.transforms.v2.functional.resized_crop``.

    Example:
        >>> resized_crop(torch.tensor([[[1.0, 2.0, 4.0, 8.0]]]), 0, 1, 1, 2, (1, 2))
        tensor([[[2., 4.]]])
    """
    cut = crop(image, top, left, height, width)
    return resize(cut, as_size("size", size), interpolation=interpolation, antialias=antialias, impl=impl)


def perspective(
    image: Shaped[Tensor, "*b c h w"],
    startpoints: Float[Tensor, "*b 4 2"] | Sequence[Sequence[float]],
    endpoints: Float[Tensor, "*b 4 2"] | Sequence[Sequence[float]],
    *,
    interpolation: str = "bilinear",
    padding_mode: str = "zeros",
    fill: FillValue = 0.0,
    gradient_scale: Factor = 0.0,
    image_gradient: str = "exact",
    impl: str = "auto",
) -> Shaped[Tensor, "*b c h w"]:
    """Move four points of the image to four others, on the same canvas.

    Args:
        image: (C, H, W) or (B, C, H, W).
        startpoints: (4, 2) or (B, 4, 2): points (x, y) in pixel centres, no three of them on a line.
        endpoints: where they go.
        interpolation, padding_mode, fill, impl: as in `warp`.

    Returns:
        The warped image, in the dtype of ``image``.

    Gradient:
        image, fill: exact. startpoints, endpoints: almost everywhere. Surrogates as in :func:`warp`.

    Source:
        ``torchvision.transforms.v2.functional.perspective``, whose points lie half a pixel off; here they are pixel centres, as in
        ``cv2.warpPerspective``.

    Example:
        >>> square = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
        >>> perspective(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), square, square[1:] + square[:1])
        tensor([[[3., 1.],
                 [4., 2.]]])
    """
    pixels, _ = open_image(image)
    size = (pixels.shape[-2], pixels.shape[-1])
    src_from_dst = get_perspective_transform(endpoints, startpoints)
    how: dict[str, Any] = {"interpolation": interpolation, "padding_mode": padding_mode, "fill": fill, "impl": impl}
    return warp(image, src_from_dst, size=size, gradient_scale=gradient_scale, image_gradient=image_gradient, **how)


def permute_channels(image: Shaped[Tensor, "*b c h w"], permutation: Sequence[int]) -> Shaped[Tensor, "*b c h w"]:
    """Reorder the channels, bit for bit.

    Args:
        image: (C, H, W) or (B, C, H, W), any dtype.
        permutation: for each channel of the result the channel that it comes from; each channel once.

    Source:
        ``torchvision.transforms.v2.functional.permute_channels``.

    Example:
        >>> permute_channels(torch.tensor([1, 2, 3]).reshape(3, 1, 1), [2, 0, 1]).flatten()
        tensor([3, 1, 2])
    """
    pixels, layout = open_image(image)
    order = list(permutation)
    if sorted(order) != list(range(pixels.shape[1])):
        raise invalid("permutation", expected=f"each of 0 to {pixels.shape[1] - 1} once", got=repr(permutation))
    return close_image(pixels[:, order], layout)


def grayscale_to_rgb(image: Shaped[Tensor, "*b c h w"]) -> Shaped[Tensor, "*b 3 h w"]:
    """Repeat the one channel of a grey image three times; an image of three channels stays as it is.

    Args:
        image: (C, H, W) or (B, C, H, W) of 1 or 3 channels, any dtype.

    Source:
        ``torchvision.transforms.v2.functional.grayscale_to_rgb``.

    Example:
        >>> grayscale_to_rgb(torch.ones(1, 2, 2)).shape
        torch.Size([3, 2, 2])
    """
    pixels, layout = open_image(image)
    require_channels(pixels, (1, 3), "grey or RGB")
    return close_image(pixels.expand(-1, 3, -1, -1).clone(), layout)
