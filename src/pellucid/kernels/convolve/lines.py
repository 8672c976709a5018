"""Resampling and blurring along one axis, some of it as matrices (output, input), and a Gaussian line at any angle.

Owns: `gaussian_matrix`, `box_matrix`, `along_both`, `zoomed`, `motion`.
Must not: draw.
Read next: ``../blend/weather.py``.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from torch import Tensor

from pellucid.core.constants import wide_dtype
from pellucid.kernels.convolve import AVAILABLE, dense
from pellucid.kernels.explicit import implementation

__all__ = ["along_both", "box_matrix", "gaussian_matrix", "motion", "zoomed"]

_EDGES = {"reflect": "symmetric", "nearest": "edge", "mirror": "reflect"}


@lru_cache(maxsize=64)
def gaussian_matrix(length: int, sigma: float, mode: str, truncate: float) -> NDArray[np.float64]:
    """``scipy.ndimage.gaussian_filter1d`` with its names of borders."""
    radius = int(truncate * sigma + 0.5)
    reach = np.arange(-radius, radius + 1)
    weights = np.exp(-0.5 * (reach / sigma) ** 2)
    weights /= weights.sum()
    places = np.pad(np.arange(length), radius, mode=_EDGES[mode])  # type: ignore[call-overload]
    matrix = np.zeros((length, length))
    for tap, weight in enumerate(weights):
        matrix[np.arange(length), places[tap : tap + length]] += weight
    return matrix


@lru_cache(maxsize=64)
def box_matrix(length: int, wanted: int) -> NDArray[np.float64]:
    """Pillow's ``resize`` with ``Image.BOX``: the mean of the pixels whose centres lie in the output pixel."""
    scale = length / wanted
    stretch = max(scale, 1.0)
    matrix = np.zeros((wanted, length))
    for row in range(wanted):
        center = (row + 0.5) * scale
        first, last = max(int(center - 0.5 * stretch + 0.5), 0), min(int(center + 0.5 * stretch + 0.5), length)
        from_center = (np.arange(first, last) - center + 0.5) / stretch
        weights = ((from_center > -0.5) & (from_center <= 0.5)).astype(float)
        matrix[row, first:last] = weights / weights.sum()
    return matrix


def along_both(
    image: Float[Tensor, "*b h w"], rows: NDArray[np.float64], columns: NDArray[np.float64]
) -> Float[Tensor, "*b h2 w2"]:
    """Multiply both axes of a picture by their matrices.

    Gradient:
        image: exact.
    """
    down, across = (torch.from_numpy(matrix).to(image.device, image.dtype) for matrix in (rows, columns))
    return down @ image @ across.mT


def zoomed(image: Float[Tensor, "*b h w"], zoom: float) -> Float[Tensor, "*b h w"]:
    """Cut the middle out, enlarge it as ``scipy.ndimage.zoom(order=1)`` does, and cut what is too much.

    Gradient:
        image: exact.
    """
    size = {dim: image.shape[dim] for dim in (-1, -2)}  # columns first, while the rows are few
    for dim, length in size.items():
        part = math.ceil(length / zoom)
        image = image.narrow(dim, (length - part) // 2, part)
    for dim, length in size.items():
        image = _enlarged(image, zoom, dim, length)
    return image


def _enlarged(image: Tensor, zoom: float, dim: int, length: int) -> Tensor:
    """Enlarge along one axis, and keep ``length`` pixels in the middle."""
    part = image.shape[dim]
    grown = round(part * zoom)
    step = (part - 1) / max(grown - 1, 1)
    at = (torch.arange(length, dtype=wide_dtype(image.device), device=image.device) + (grown - length) // 2) * step
    left = torch.clamp(torch.floor(at), max=max(part - 2, 0))
    share = (at - left).to(image.dtype)
    share = share if dim == -1 else share[:, None]
    low = left.to(torch.int64)
    high = torch.clamp(low + 1, max=part - 1)
    return torch.lerp(image.index_select(dim, low), image.index_select(dim, high), share)


def motion(
    image: Float[Tensor, "b c h w"], radius: int, sigma: float, degrees: Float[Tensor, "b"], *, impl: str = "auto"
) -> Float[Tensor, "b c h w"]:
    """Half a Gaussian on whole pixels along a line, as ImageMagick blurs by motion; borders repeat the edge pixel.

    Args:
        image: any picture.
        radius: half the length of the line, less half a pixel.
        sigma: of the Gaussian, from the pixel on.
        degrees: direction in which pixels are read, clockwise from the x axis.
        impl: who computes it; for Triton, which cannot, the reference does.

    Gradient:
        image: exact. degrees: none.
    """
    taps = 2 * radius + 1
    weights = [math.exp(-(tap**2) / (2.0 * sigma**2)) for tap in range(taps)]
    whole = sum(weights)
    steps = torch.arange(taps, dtype=wide_dtype(image.device), device=image.device)
    angle = torch.deg2rad(degrees.detach().to(steps.dtype))[:, None]
    x, y = (torch.ceil(steps * part - 0.5).to(torch.int64) for part in (torch.cos(angle), torch.sin(angle)))  # b taps
    height, width = image.shape[-2:]
    if implementation("reference" if impl == "triton" else impl, image.device, AVAILABLE, image) != "reference":
        reach = taps - 1
        kernel = _line(x, y, torch.tensor(weights, dtype=image.dtype, device=image.device) / whole)
        around = torch.nn.functional.pad(image, (reach,) * 4, mode="replicate")
        return dense(around, kernel)[..., reach : reach + height, reach : reach + width]
    total = torch.zeros_like(image)
    for tap, weight in enumerate(weights):
        rows = torch.clamp(torch.arange(height, device=image.device) + y[:, tap, None], 0, height - 1)[:, None, :, None]
        columns = torch.clamp(torch.arange(width, device=image.device) + x[:, tap, None], 0, width - 1)[:, None, None, :]
        total = total + (weight / whole) * image.gather(2, rows.expand_as(image)).gather(3, columns.expand_as(image))
    return total


def _line(x: Int64[Tensor, "b n"], y: Int64[Tensor, "b n"], weights: Float[Tensor, "n"]) -> Float[Tensor, "b k k"]:
    """A square of zeros about the origin, with weights at whole places less than n from it; those at one place add up."""
    count, reach = len(weights), len(weights) - 1
    side = 2 * reach + 1
    rows, columns = (torch.clamp(place, -reach, reach) + reach for place in (y, x))  # an angle may be NaN
    square = torch.zeros((len(x), side * side), dtype=weights.dtype, device=weights.device)
    return square.scatter_add(1, rows * side + columns, weights.expand(len(x), count)).unflatten(1, (side, side))
