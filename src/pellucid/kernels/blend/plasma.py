"""Clouds, and the light under them: fog, brightness, contrast, shadow.

Owns: `plasma`, `plasma_of`, `fog`, `light`, `contrast`, `shadow`.
Must not: draw; fields come from two words per sample.
Read next: ``grain.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor

from pellucid.kernels.blend.lighting import Light
from pellucid.kernels.conversion import as_colors
from pellucid.random.patterns import uniform_field

__all__ = ["contrast", "fog", "light", "plasma", "plasma_of", "shadow"]


def plasma(
    uniform: Callable[[int], Float[Tensor, "b n n"]], size: tuple[int, int], decay: float | Float[Tensor, "b 1 1"]
) -> Float[Tensor, "b h w"]:
    """A cloud from 0 to 1 by midpoint displacement on a torus.

    Args:
        uniform: n -> a new field (b, n, n) of numbers uniform on (0, 1); asked for three at each size, squares first.
        size: (height, width), cut out of the smallest power of two that holds it.
        decay: by what the displacement is divided each time the grid doubles; the larger, the smoother.

    Gradient:
        decay: almost everywhere.
    Source:
        The diamond-square algorithm (Fournier, Fussell, Carpenter, 1982), as ImageNet-C's ``plasma_fractal`` has it.
    """
    side = 1
    while side < max(size):
        side *= 2
    grid = uniform(1) * 0.0
    most = grid + 1e4  # by how much a mean of four is displaced, at most
    while (n := grid.shape[-1]) < side:

        def displaced(four: Tensor, most: Tensor = most) -> Tensor:
            return torch.addcmul(0.25 * four - most, uniform(four.shape[-1]), 2.0 * most)

        pairs = grid + grid.roll(-1, -2)
        middle = displaced(pairs + pairs.roll(-1, -1))
        two = middle + grid
        beside = displaced(two + middle.roll(1, -2) + grid.roll(-1, -1))
        below = displaced(two + middle.roll(1, -1) + grid.roll(-1, -2))
        even, odd = torch.stack((grid, below), 2), torch.stack((beside, middle), 2)  # columns: b n 2 n
        grid = torch.stack((even, odd), 1).flatten(2).mT.unflatten(1, (2 * n, n)).flatten(2)  # b 2n 2n
        most = most / decay**2
    lowest, highest = grid.amin((-2, -1), keepdim=True), grid.amax((-2, -1), keepdim=True)
    spread = highest - lowest
    return (grid[:, : size[0], : size[1]] - lowest) / torch.where(spread > 0, spread, 1.0)


def plasma_of(
    words: Int64[Tensor, "b 2"], size: tuple[int, int], decay: Float[Tensor, "b"], dtype: torch.dtype
) -> Float[Tensor, "b 1 h w"]:
    """The cloud of two words per sample; each of its fields derives words of its own. Fields for small grids are drawn together, as
    the first numbers of larger ones.
    """
    asked = 0
    ready: list[Tensor] = []

    def uniform(side: int) -> Tensor:
        nonlocal asked, ready
        if not ready:
            count, most = (3, side) if asked else _SMALL
            low, high = words.unbind(1)
            number = torch.arange(asked + 1, asked + count + 1, device=words.device)[:, None]  # n 1
            each = torch.stack((low.expand(count, -1), high ^ number), -1).flatten(0, 1)
            ready = [*uniform_field(each, (1, 1, most * most), dtype).unflatten(0, (count, -1))]
            asked += count
        return ready.pop(0).flatten(1)[:, : side * side].unflatten(1, (side, side))

    return plasma(uniform, size, decay[:, None, None])[:, None]


_SMALL = 19, 32  # fields of grids up to 32 x 32: the first, and three for each size


def fog(image: Num[Tensor, "b c h w"], cloud: Float[Tensor, "b 1 h w"], strength: Float[Tensor, "#b"]) -> Light:
    """Add ``strength`` times the cloud, and darken so that the brightest value would stay what it is."""
    thick = strength[:, None, None, None]
    most = as_colors(image.amax((1, 2, 3), keepdim=True), strength.dtype)
    whole = most + thick
    share = most / torch.where(whole == 0, 1.0, whole)
    return share, share * thick * cloud


def light(image: Num[Tensor, "b c h w"], cloud: Float[Tensor, "b 1 h w"], strength: Float[Tensor, "#b"]) -> Light:
    """Add from -strength to strength, as the cloud goes from 0 to 1."""
    del image
    return None, strength[:, None, None, None] * (2.0 * cloud - 1.0)


def contrast(image: Num[Tensor, "b c h w"], cloud: Float[Tensor, "b 1 h w"], strength: Float[Tensor, "#b"]) -> Light:
    """Scale the distance from the middle grey, by 1 - strength to 1 + 3 strength as the cloud goes from 0 to 1."""
    del image
    scale = 1.0 + strength[:, None, None, None] * (4.0 * cloud - 1.0)
    return scale, 0.5 - 0.5 * scale


def shadow(
    image: Num[Tensor, "b c h w"], cloud: Float[Tensor, "b 1 h w"], darkness: Float[Tensor, "#b"], amount: Float[Tensor, "#b"]
) -> Light:
    """Darken by a share where the cloud is below ``amount``; over a tenth of its range the shadow sets in."""
    del image
    share = torch.clamp((amount[:, None, None, None] - cloud) * 10.0 + 0.5, 0.0, 1.0)
    return 1.0 - darkness[:, None, None, None] * share, None
