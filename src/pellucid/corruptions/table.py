"""ImageNet-C's fifteen corruptions: their constants, what each draws, its formula, and its gradient.

Owns: `TABLE`.
Must not: read what users hand in.
Read next: ``call.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pellucid import functional as F
from pellucid.corruptions.draws import Draws
from pellucid.kernels import blend, color, convolve
from pellucid.kernels.blend import grain
from pellucid.kernels.blend.lighting import lit
from pellucid.kernels.blend.plasma import fog, plasma
from pellucid.kernels.blend.weather import SNOW, snow
from pellucid.kernels.convolve.lines import along_both, box_matrix, gaussian_matrix, motion, zoomed

__all__ = ["TABLE", "Corruption"]


Drawing: TypeAlias = Callable[[Draws, Any], dict[str, Any]]


@dataclass(frozen=True)
class Corruption:
    """One corruption.

    Args:
        name: as in ImageNet-C.
        constants: for severities 1 to 5.
        draw: (draws, constants) -> the random values by name.
        formula: (image in [0, 1], constants, the random values) -> the corrupted image in [0, 1].
        gradient: to the image: ``exact``, ``almost_everywhere`` or ``surrogate: <name>``.
    """

    name: str
    constants: tuple[Any, ...]
    draw: Drawing
    formula: Callable[..., Tensor]
    gradient: str = "almost_everywhere"


_TABLE: dict[str, Corruption] = {}
TABLE: Mapping[str, Corruption] = MappingProxyType(_TABLE)
"""By name, in the order of the paper."""


def _corruption(
    *constants: Any, draw: Drawing = lambda *_: {}, gradient: str = "almost_everywhere"
) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Enter the decorated formula in the table, under its own name; the arguments are those of `Corruption`."""

    def enter(formula: Callable[..., Tensor]) -> Callable[..., Tensor]:
        name = formula.__name__.removeprefix("_")
        _TABLE[name] = Corruption(name, constants, draw, formula, gradient)
        return formula

    return enter


def _words(draws: Draws, _: Any) -> dict[str, Any]:
    return {"words": draws.words()}


def _per_sample(x: Tensor, number: float) -> Float[Tensor, "b"]:
    return x.new_full((x.shape[0],), number)


def _unit(x: Tensor) -> Tensor:
    return torch.clamp(x, 0.0, 1.0)


@_corruption(0.08, 0.12, 0.18, 0.26, 0.38, draw=_words)
def _gaussian_noise(x: Tensor, c: float, words: Tensor) -> Tensor:
    return blend.noise(x, words, _per_sample(x, 0.0), _per_sample(x, c), clip=True)


@_corruption(60.0, 25.0, 12.0, 5.0, 3.0, draw=_words, gradient="surrogate: slope of the mean")
def _shot_noise(x: Tensor, c: float, words: Tensor) -> Tensor:
    return _unit(grain.shot(x, words, _per_sample(x, c), c))


@_corruption(0.03, 0.06, 0.09, 0.17, 0.27, draw=_words, gradient="exact")
def _impulse_noise(x: Tensor, c: float, words: Tensor) -> Tensor:
    return grain.salt_and_pepper(x, words, _per_sample(x, c), _per_sample(x, 0.5))


def aliased_disk(radius: int, blur: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A disk of whole pixels, softened by a Gaussian of 3 or 5 taps whose borders mirror."""
    reach = np.arange(-max(8, radius), max(8, radius) + 1)
    disk = (reach[:, None] ** 2 + reach**2 <= radius**2).astype(float)
    taps = np.arange(-1, 2) if radius <= 8 else np.arange(-2, 3)
    weights = np.exp(-0.5 * (taps / blur) ** 2)
    weights /= weights.sum()
    for axis in range(2):
        padded = np.pad(disk, [(taps[-1], taps[-1]) if a == axis else (0, 0) for a in range(2)], mode="reflect")
        disk = sum(weight * np.take(padded, np.arange(len(reach)) + k, axis=axis) for k, weight in enumerate(weights))
    return disk / (reach[:, None] ** 2 + reach**2 <= radius**2).sum()


@_corruption((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5))
def _defocus_blur(x: Tensor, c: tuple[int, float]) -> Tensor:
    kernel = torch.from_numpy(aliased_disk(*c)).to(x.device, x.dtype)
    return _unit(convolve.dense(x, kernel.expand(x.shape[0], -1, -1)))


def _draw_glass(draws: Draws, c: tuple[float, int, int]) -> dict[str, Any]:
    return {"moves": [torch.floor(draws.uniform(2) * (2 * c[1])).to(torch.int64) - c[1] for _ in range(c[2])]}


def shuffled(size: tuple[int, int], reach: int, moves: Tensor) -> Tensor:
    """The flat index that each value comes from (b, h w), once every pixel, from the last to the first, took a neighbour's value.

    Args:
        size: (height, width).
        reach: pixels this close to the border keep their value.
        moves: (b, 2, h, w), the neighbour's offset in x and y, in [-reach, reach).
    """
    height, width = size
    rows, columns = (torch.arange(length, device=moves.device) for length in size)
    inner = ((rows > reach) & (rows <= height - reach))[:, None] & ((columns > reach) & (columns <= width - reach))
    here = (rows[:, None] * width + columns).expand(moves.shape[0], -1, -1)
    taken = torch.where(inner, here + moves[:, 1] * width + moves[:, 0], here).flatten(1)
    here = here.flatten(1)
    # A neighbour later in the picture has had its turn and holds the value that it took. Pointer doubling follows these chains.
    had_turn = (taken > here) & inner.flatten().expand_as(here).gather(1, taken)
    link = torch.where(had_turn, taken, here)
    for _ in range(math.ceil(math.log2(height * width))):
        link = link.gather(1, link)
    return taken.gather(1, link)


@_corruption(
    *((0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2)), draw=_draw_glass, gradient="surrogate: straight-through"
)
def _glass_blur(x: Tensor, c: tuple[float, int, int], moves: list[Tensor]) -> Tensor:
    sides = [gaussian_matrix(length, c[0], "nearest", 4.0) for length in x.shape[-2:]]
    soft = along_both(x, *sides)
    soft = soft + (torch.floor(soft.detach() * 255.0) / 255.0 - soft.detach())
    flat = soft.flatten(2)
    for one in moves:
        flat = flat.gather(2, shuffled((x.shape[-2], x.shape[-1]), c[1], one)[:, None].expand_as(flat))
    return _unit(along_both(flat.unflatten(2, x.shape[-2:]), *sides))


@_corruption(
    *((10, 3.0), (15, 5.0), (15, 8.0), (15, 12.0), (20, 15.0)), draw=lambda draws, _: {"degrees": draws.number(-45.0, 45.0)}
)
def _motion_blur(x: Tensor, c: tuple[int, float], degrees: Tensor) -> Tensor:
    return _unit(motion(x, *c, degrees))


@_corruption((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03))
def _zoom_blur(x: Tensor, c: tuple[float, float]) -> Tensor:
    zooms = np.arange(1.0, *c)
    total = x
    for zoom in zooms.tolist():
        total = total + zoomed(x, zoom)
    return _unit(total / (len(zooms) + 1))


@_corruption(*SNOW, draw=lambda draws, _: {"normal": draws.normal(), "degrees": draws.number(-135.0, -45.0)})
def _snow(x: Tensor, c: tuple[Any, ...], normal: Tensor, degrees: Tensor) -> Tensor:
    return _unit(snow(x, normal, degrees, c))


@_corruption(
    *((1.0, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
    draw=lambda draws, _: {name: draws.number(0.0, 1.0) for name in ("picture", "top", "left")},
)
def _frost(x: Tensor, c: tuple[float, float], frost: Tensor) -> Tensor:
    return _unit(c[0] * x + c[1] * frost)


@_corruption(
    *((1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4)),
    draw=lambda draws, c: {"cloud": plasma(draws.square, draws.size, c[1])},
)
def _fog(x: Tensor, c: tuple[float, float], cloud: Tensor) -> Tensor:
    return _unit(lit(x, *fog(x, cloud[:, None], _per_sample(x, c[0]))))


@_corruption(0.1, 0.2, 0.3, 0.4, 0.5)
def _brightness(x: Tensor, c: float) -> Tensor:
    if x.shape[1] != 3:
        return _unit(x + c)
    return color.shift_hsv(x, _per_sample(x, 0.0), _per_sample(x, 0.0), _per_sample(x, c))


@_corruption(0.4, 0.3, 0.2, 0.1, 0.05)
def _contrast(x: Tensor, c: float) -> Tensor:
    mean = x.mean((2, 3), keepdim=True)
    return _unit((x - mean) * c + mean)


_EDGE = 244.0
"""The side in pixels that the elastic corruption's constants refer to."""


def _draw_elastic(draws: Draws, c: tuple[float, float, float]) -> dict[str, Any]:
    height, width = draws.size
    center, reach = torch.tensor([height // 2, width // 2], dtype=torch.float64), min(draws.size) // 3
    corners = torch.stack((center + reach, center + torch.tensor([reach, -reach]), center - reach)).to(draws.device)
    moved = corners + c[2] * (2.0 * draws.numbers(6).unflatten(1, (3, 2)) - 1.0)
    sides = [gaussian_matrix(length, c[1], "reflect", 3.0) for length in draws.size]
    across, down = ((along_both(2.0 * draws.uniform(1)[:, 0] - 1.0, *sides) * c[0]) for _ in range(2))
    return {"dst_from_src": F.get_affine_transform(corners.expand_as(moved), moved), "across": across, "down": down}


@_corruption(
    *((_EDGE * 2.0, _EDGE * 0.7, _EDGE * 0.1), (_EDGE * 2.0, _EDGE * 0.08, _EDGE * 0.2)),
    *((_EDGE * alpha, _EDGE * 0.01, _EDGE * 0.02) for alpha in (0.05, 0.07, 0.12)),
    draw=_draw_elastic,
)
def _elastic_transform(x: Tensor, c: Any, dst_from_src: Tensor, across: Tensor, down: Tensor) -> Tensor:
    del c
    size = (x.shape[-1], x.shape[-2])
    warped = F.warp_affine(x, dst_from_src, size, border_mode="reflect_101")
    return _unit(F.remap(warped, across, down, relative=True, border_mode="reflect"))


@_corruption(0.6, 0.5, 0.4, 0.3, 0.25, gradient="exact")
def _pixelate(x: Tensor, c: float) -> Tensor:
    down = [box_matrix(length, int(length * c)) for length in x.shape[-2:]]
    up = [box_matrix(int(length * c), length) for length in x.shape[-2:]]
    return along_both(along_both(x, *down), *up)


@_corruption(25, 18, 15, 10, 7, gradient="surrogate: jump proximity")
def _jpeg_compression(x: Tensor, c: int) -> Tensor:
    return F.jpeg(_unit(x), c)
