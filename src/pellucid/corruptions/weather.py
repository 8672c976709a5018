"""Plasma, and what falls from the sky.

Owns: `plasma`, `snow_layer`.
Must not: draw; uniform and normal fields are given by a function or as tensors.
Read next: ``table.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.corruptions.lines import along_both, motion, zoom_matrix

__all__ = ["plasma", "snow_layer"]


def plasma(uniform: Callable[[int], Float[Tensor, "b n n"]], size: tuple[int, int], decay: float) -> Float[Tensor, "b h w"]:
    """A cloud from 0 to 1 by midpoint displacement on a torus.

    Args:
        uniform: n -> a new field (b, n, n) of numbers uniform on (0, 1); asked for three at each size, squares first.
        size: (height, width), cut out of the smallest power of two that holds it.
        decay: by what the displacement is divided each time the grid doubles; the larger, the smoother.

    Source:
        The diamond-square algorithm (Fournier, Fussell, Carpenter, 1982), as ImageNet-C's ``plasma_fractal`` has it.
    """
    side = 1 << (max(size) - 1).bit_length()
    grid = uniform(1) * 0.0
    wibble = 100.0
    while grid.shape[-1] < side:
        count = grid.shape[-1]

        def displaced(four: Tensor, count: int = count, wibble: float = wibble) -> Tensor:
            return four / 4.0 + wibble * (2.0 * wibble * uniform(count) - wibble)

        pairs = grid + grid.roll(-1, -2)
        middle = displaced(pairs + pairs.roll(-1, -1))
        beside = displaced(middle + middle.roll(1, -2) + grid + grid.roll(-1, -1))
        below = displaced(middle + middle.roll(1, -1) + grid + grid.roll(-1, -2))
        rows = [torch.stack(two, -1).flatten(-2) for two in ((grid, beside), (below, middle))]  # b n 2n
        grid = torch.stack(rows, -2).flatten(-3, -2)  # b 2n 2n
        wibble = wibble / decay
    lowest, highest = grid.amin((-2, -1), keepdim=True), grid.amax((-2, -1), keepdim=True)
    spread = highest - lowest
    return ((grid - lowest) / torch.where(spread > 0, spread, 1.0))[:, : size[0], : size[1]]


def snow_layer(
    normal: Float[Tensor, "b h w"],
    degrees: Float[Tensor, "b"],
    *,
    mean: float,
    spread: float,
    zoom: float,
    threshold: float,
    radius: int,
    sigma: float,
) -> Float[Tensor, "b h w"]:
    """Flakes of thresholded noise, enlarged, and drawn out by their fall.

    Gradient:
        none: it is made of draws.
    """
    height, width = normal.shape[-2:]
    flakes = along_both(mean + spread * normal, zoom_matrix(height, zoom), zoom_matrix(width, zoom))
    flakes = torch.floor(torch.clamp(torch.where(flakes < threshold, 0.0, flakes), 0.0, 1.0) * 255.0) / 255.0
    fallen = motion(flakes[:, None], radius, sigma, degrees)[:, 0]
    return torch.round(torch.clamp(fallen, 0.0, 1.0) * 255.0) / 255.0
