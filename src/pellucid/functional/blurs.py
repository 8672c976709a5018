"""Box, motion, defocus, median and zoom blur.

Owns: `box_blur`, `motion_blur`, `defocus_blur`, `median_blur`, `zoom_blur`.
Must not: convolve or resample itself; the kernels do.
Read next: ``filters.py``.
"""

from __future__ import annotations

from math import inf

import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.core.arguments import whole_number
from pellucid.core.formerly import formerly
from pellucid.errors import invalid
from pellucid.functional.fills import Factor
from pellucid.functional.images import Layout, close_image, open_image, open_with, to_compute
from pellucid.kernels import convolve, warp
from pellucid.transforms.base import as_size
from pellucid.transforms.collage import MOST_ZOOMS, zooms_to
from pellucid.transforms.filters import box, disk, line
from pellucid.types import ImageSpec, Size

__all__ = ["box_blur", "check_taps", "defocus_blur", "median_blur", "motion_blur", "zoom_blur"]


def box_blur(image: Shaped[Tensor, "*b c h w"], kernel_size: int, width: Factor | None = None) -> Shaped[Tensor, "*b c h w"]:
    """Average over a square; borders mirror without repeating the edge pixel.

    Args:
        image: (C, H, W) or (B, C, H, W), floating point or uint8.
        kernel_size: odd number of rows and columns that hold the square.
        width: side of the square in pixels, from 1 to kernel_size, whole or not: pixels cut by its edge count by the share
            inside. A number or a tensor () or (B,); None is kernel_size. A wider square is cut off.

    Gradient:
        image: exact. width: almost everywhere.

    Source:
        ``cv2.blur`` where the width is kernel_size.

    Example:
        >>> box_blur(torch.tensor([[[0.0, 0.0, 3.0, 0.0]]]), 3)
        tensor([[[0., 1., 1., 2.]]])
    """
    pixels, layout, (wide,), reach = _opened(image, kernel_size, {"width": (kernel_size if width is None else width, 1.0, inf)})
    kernel = box(wide, reach)
    kernel = (kernel / kernel.sum(-1, keepdim=True)).to(pixels.dtype)
    return close_image(convolve.separable(pixels, kernel, kernel), layout)


@formerly(angle="degrees")
def motion_blur(image: Shaped[Tensor, "*b c h w"], kernel_size: int, length: Factor, degrees: Factor) -> Shaped[Tensor, "*b c h w"]:
    """Average along a line, as a camera that moves; borders mirror without repeating the edge pixel.

    Args:
        image: (C, H, W) or (B, C, H, W), floating point or uint8.
        kernel_size: odd number of rows and columns that hold the line, which is cut off at their border.
        length: of the line in pixels, >= 0: a number or a tensor () or (B,).
        degrees: its direction, counter-clockwise from the x axis, likewise.

    Gradient:
        image: exact. length, degrees: almost everywhere.

    Source:
        The mean of the picture shifted along the line (``scipy.ndimage.shift(order=1, mode="mirror")``).

    Example:
        >>> motion_blur(torch.eye(5)[None], 3, 0.0, 45.0).equal(torch.eye(5)[None])
        True
    """
    numbers = {"length": (length, 0.0, inf), "degrees": (degrees, -inf, inf)}
    pixels, layout, (long, turn), reach = _opened(image, kernel_size, numbers)
    kernel = line(long, turn, reach)
    return close_image(convolve.dense(pixels, (kernel / kernel.sum((-2, -1), keepdim=True)).to(pixels.dtype)), layout)


def defocus_blur(image: Shaped[Tensor, "*b c h w"], kernel_size: int, radius: Factor) -> Shaped[Tensor, "*b c h w"]:
    """Average over a disk with a rim one pixel wide, as a lens out of focus; borders mirror without repeating the edge pixel.

    Args:
        image: (C, H, W) or (B, C, H, W), floating point or uint8.
        kernel_size: odd number of rows and columns that hold the disk, which is cut off at their border.
        radius: in pixels, >= 0: a number or a tensor () or (B,).

    Gradient:
        image: exact. radius: almost everywhere.

    Source:
        ``scipy.ndimage.correlate(mode="mirror")`` with the disk; `pellucid.RandomDefocusBlur`.

    Example:
        >>> defocus_blur(torch.eye(5)[None], 3, 0.0).equal(torch.eye(5)[None])
        True
    """
    pixels, layout, (wide,), reach = _opened(image, kernel_size, {"radius": (radius, 0.0, inf)})
    return close_image(convolve.dense(pixels, disk(wide, reach).to(pixels.dtype)), layout)


def median_blur(image: Shaped[Tensor, "*b c h w"], kernel_size: int | Size) -> Shaped[Tensor, "*b c h w"]:
    """Replace every value by the median of those around it, each channel for itself; borders repeat the edge pixel.

    Args:
        image: (C, H, W) or (B, C, H, W), floating point or uint8.
        kernel_size: odd number of rows and columns, or (rows, columns).

    Gradient:
        image: almost everywhere (to the pixel that is the median).

    Source:
        ``cv2.medianBlur``.

    Example:
        >>> median_blur(torch.tensor([[[0.0, 9.0, 1.0, 2.0]]]), (1, 3))
        tensor([[[0., 1., 2., 2.]]])
    """
    taps = as_size("kernel_size", kernel_size)
    if not all(count % 2 for count in taps):
        raise invalid("kernel_size", expected="odd numbers of rows and columns", got=kernel_size)
    pixels, layout = open_image(image)
    return close_image(convolve.median(to_compute(pixels), taps), layout)


def zoom_blur(image: Shaped[Tensor, "*b c h w"], factor: Factor, *, zooms: int = 9) -> Shaped[Tensor, "*b c h w"]:
    """Average zooms about the middle, as a lens that is zoomed while it exposes.

    Args:
        image: (C, H, W) or (B, C, H, W), floating point or uint8.
        factor: the largest zoom, from 1; the others lie evenly between 1 and it. A number or a tensor () or (B,).
        zooms: how many, 2 to 32.

    Gradient:
        image: exact. factor: almost everywhere.

    Source:
        The mean of ``scipy.ndimage.map_coordinates`` at these zooms.

    Example:
        >>> zoom_blur(torch.tensor([[[0.0, 0.0, 1.0, 0.0, 0.0]]]), 2.0, zooms=2)
        tensor([[[0.0000, 0.2500, 1.0000, 0.2500, 0.0000]]])
    """
    count = whole_number("zooms", zooms, 2, MOST_ZOOMS)
    pixels, layout, (far,) = open_with(image, {"factor": (factor, 1.0, inf)})
    work = to_compute(pixels)
    maps = zooms_to(far.to(work.dtype), count, ImageSpec(*work.shape[1:]), work)
    size = (work.shape[2], work.shape[3])
    first, *rest = (warp.warp(work, warp.pack(found, size=size, padding_mode="border")) for found in maps)
    return close_image(sum(rest, first) / count, layout)


def _opened(
    image: Tensor, kernel_size: int, numbers: dict[str, tuple[Factor, float, float]]
) -> tuple[Tensor, Layout, list[Tensor], Tensor]:
    """Pixels to compute on, their layout, each named number (value, least, most), and the taps' distances from the middle."""
    check_taps(kernel_size)
    pixels, layout, read = open_with(image, numbers)
    reach = torch.arange(kernel_size, dtype=read[0].dtype, device=pixels.device) - kernel_size // 2
    return to_compute(pixels), layout, read, reach


def check_taps(kernel_size: object) -> None:
    """Raise for anything but an odd number of taps."""
    if not isinstance(kernel_size, int) or isinstance(kernel_size, bool) or kernel_size < 1 or kernel_size % 2 == 0:
        raise invalid("kernel_size", expected="an odd number of taps", got=repr(kernel_size))
