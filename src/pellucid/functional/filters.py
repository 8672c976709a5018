"""Gaussian blur, sharpness, and rectangles replaced.

Owns: `gaussian_blur`, `adjust_sharpness`, `erase`.
Must not: convolve or blend itself; the kernels do.
Read next: ``../kernels/convolve/reference.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.formerly import formerly
from pellucid.errors import invalid, wrong_type
from pellucid.functional.fills import Factor, FillValue, read_channels, read_factor, read_numbers
from pellucid.functional.images import close_image, close_unit, join_batch, open_image, open_unit, open_with, to_compute
from pellucid.kernels import blend, convolve
from pellucid.kernels.convolve.gaussian import gaussian

__all__ = ["adjust_sharpness", "erase", "gaussian_blur"]


def gaussian_blur(
    image: Shaped[Tensor, "*b c h w"], kernel_size: int | tuple[int, int], sigma: Factor | tuple[Factor, Factor] | None = None
) -> Shaped[Tensor, "*b c h w"]:
    """Convolve with a Gaussian; borders mirror without repeating the edge pixel.

    Args:
        image: (C, H, W) or (B, C, H, W), floating point or uint8.
        kernel_size: odd number of taps, or (vertical, horizontal). (torchvision has the horizontal one first.)
        sigma: standard deviation in pixels: a number or a tensor () or (B,), or a pair of them (vertical, horizontal); None is
            0.15 * kernel_size + 0.35. Where a tensor is not > 0, the image stays as it is.

    Gradient:
        image, sigma: exact.

    Source:
        ``torchvision.transforms.v2.functional.gaussian_blur``.

    Example:
        >>> gaussian_blur(torch.tensor([[[0.0, 0.0, 1.0, 0.0, 0.0]]]), (1, 3), 0.5)
        tensor([[[0.0000, 0.1065, 0.7870, 0.1065, 0.0000]]])
    """
    taps = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
    if len(taps) != 2 or not all(isinstance(k, int) and k > 0 and k % 2 == 1 for k in taps):
        raise invalid("kernel_size", expected="an odd number of taps, or two (vertical, horizontal)", got=repr(kernel_size))
    sigmas = sigma if isinstance(sigma, tuple | list) else (sigma, sigma)
    if len(sigmas) != 2:
        raise invalid("sigma", expected="a number, a tensor () or (B,), or a pair (vertical, horizontal)", got=repr(sigma))
    pixels, layout = open_image(image)
    kernels = []
    for count, wanted in zip(taps, sigmas, strict=True):
        if isinstance(wanted, int | float) and wanted <= 0:
            raise invalid("sigma", expected="a number > 0", got=wanted)
        width, batched = read_factor("sigma", 0.15 * count + 0.35 if wanted is None else wanted, device=pixels.device)
        pixels, layout = join_batch(pixels, layout, "sigma", width.shape[0], batched)
        kernels.append(gaussian(width, count))
    work = to_compute(pixels)
    return close_image(convolve.separable(work, kernels[0].to(work.dtype), kernels[1].to(work.dtype)), layout)


def adjust_sharpness(image: Shaped[Tensor, "*b c h w"], sharpness_factor: Factor) -> Shaped[Tensor, "*b c h w"]:
    """Mix with a smoothed copy, and clip; the outermost pixels keep their values.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point in [0, 1], or uint8.
        sharpness_factor: >= 0; a number or a tensor () or (B,). 0 is the smoothed copy, 1 the image, more sharpens.

    Gradient:
        image, sharpness_factor: almost everywhere (zero where clipped).

    Source:
        ``torchvision.transforms.v2.functional.adjust_sharpness``, with PIL's smoothing kernel.

    Example:
        >>> dot = torch.zeros(1, 3, 3)
        >>> dot[0, 1, 1] = 0.13
        >>> adjust_sharpness(dot, 0.0)[0, 1]
        tensor([0.0000, 0.0500, 0.0000])
    """
    pixels, layout, (factor,) = open_with(image, {"sharpness_factor": (sharpness_factor, 0.0, inf)})
    work = open_unit(pixels)
    amount = factor.to(work.dtype)[:, None, None]
    place = torch.arange(3, device=work.device)
    middle = ((place[:, None] == 1) & (place == 1)).to(work.dtype)
    smooth = (1.0 + 4.0 * middle) / 13.0
    return close_unit(convolve.interior(work, amount * middle + (1.0 - amount) * smooth, clip=True), layout)


@formerly(value="fill")
def erase(
    image: Shaped[Tensor, "*b c h w"], box: Float[Tensor, "... 4"] | Sequence[float], *, fill: FillValue = 0.0
) -> Shaped[Tensor, "*b c h w"]:
    """Replace a rectangle, or several, by a colour or by another image.

    Args:
        image: (C, H, W) or (B, C, H, W), floating point or uint8.
        box: (x0, y0, x1, y1) in pixel-edge coordinates, (4,) or (B, 4); (B, N, 4) for several holes. Pixels cut by an edge are
            mixed by the share covered; where holes meet, the shares add up to at most the whole pixel.
        fill: a number, one per channel, a tensor (), (C,) or (B, C), or an image of the same size, in the image's units.

    Returns:
        The image with the rectangle replaced, in the dtype of ``image``. A box with an entry that is not finite replaces nothing.

    Gradient:
        image, fill: exact. box: almost everywhere.

    Source:
        ``torchvision.transforms.v2.functional.erase`` for boxes of whole pixels.

    Example:
        >>> erase(torch.ones(1, 1, 4), (1.0, 0.0, 2.5, 1.0))
        tensor([[[1.0000, 0.0000, 0.5000, 1.0000]]])
    """
    pixels, layout = open_image(image)
    expected = "(x0, y0, x1, y1), or a tensor (4,), (B, 4) or (B, N, 4)"
    corners = read_numbers("box", box, device=pixels.device, expected=expected)
    if corners.dim() not in (1, 2, 3) or corners.shape[-1] != 4:
        raise invalid("box", expected=expected, got=f"shape {tuple(corners.shape)}")
    batched = corners.dim() > 1
    corners = corners[None] if not batched else corners
    corners = corners[:, None] if corners.dim() == 2 else corners  # b n 4
    pixels, layout = join_batch(pixels, layout, "box", corners.shape[0], batched)
    partner, batched = _partner(pixels, fill)
    pixels, layout = join_batch(pixels, layout, "fill", partner.shape[0], batched)
    work = to_compute(pixels)
    corners = corners.to(work.dtype)
    corners = torch.where(torch.isfinite(corners).all(-1, keepdim=True), corners, 0.0)
    return close_image(blend.patch(work, corners, partner.to(work.dtype)), layout)


def _partner(pixels: Tensor, fill: FillValue) -> tuple[Tensor, bool]:
    """The content of the box: colours (b, c) or images (b, c, h, w), and whether the caller gave a batch."""
    if not isinstance(fill, Tensor) or fill.dim() < 3:
        return read_channels("fill", fill, channels=pixels.shape[1], device=pixels.device)
    if fill.dim() > 4 or fill.shape[-3:] != pixels.shape[1:]:
        wanted = tuple(pixels.shape[1:])
        expected = f"numbers per channel, or an image {wanted} or (B, *{wanted})"
        raise invalid("fill", expected=expected, got=f"shape {tuple(fill.shape)}")
    if fill.dtype.is_complex:
        raise wrong_type("fill", expected="real numbers", got=fill.dtype)
    return (fill, True) if fill.dim() == 4 else (fill[None], False)
