"""Pictures put together from several reads: of other samples, or of other places in one picture.

Owns: Mosaic, GridShuffle, RandomZoomBlur.
Must not: paint a collage; a tile is a map and a rectangle.
Read next: ``mix.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.arguments import whole_number
from pellucid.core.constants import constant
from pellucid.errors import invalid
from pellucid.geometry.matrices import scale_shift
from pellucid.random.distributions import Distribution, Permutation
from pellucid.random.fields import Chance, Range, interval, log_range
from pellucid.segments import Layers, LayerSpec
from pellucid.transforms.base import Names, Params, Transform, as_size, drawn, gated, gated_matrix, keep_learned, slopes
from pellucid.transforms.mix import check_classes, everywhere
from pellucid.types import Fill, ImageSpec, Pairing, Size

__all__ = ["GridShuffle", "Mosaic", "RandomZoomBlur"]

_MOST_TILES, MOST_ZOOMS = 64, 32


def _both(name: str, value: Range) -> dict[str, Distribution]:
    place = interval(name, value, low=0.0, high=1.0)
    return {"x": place, "y": place}


@dataclass(frozen=True)
class Mosaic(Transform):
    """Show four pictures around a point, each with a corner at it: the sample's own above on the left, three partners beside it.

    The picture keeps its size, and shows of each tile what fits. The point lies between pixels, so that tiles at scale 1 are
    copied.

    Args:
        center: where they meet, as a share of width and of height, drawn for each: a number, a pair or a distribution.
        scale: of the tiles, relative to the pictures: 1, a pair, a `Learnable` or a distribution. A pair draws log-uniformly: under
            (0.5, 2.0), half of the tiles are smaller than their pictures.
        fill: the colour beyond a tile, in the image's units.
        num_classes, pairing: as in `MixUp`; samples 0 to 3 meet, 4 to 7, and so on; where a partner is missing, a
            sample shows itself.

    Gradient:
        image: exact, to all four pictures. scale, gate: almost everywhere. x, y: none (the point is rounded to whole pixels).
    On each target:
        image, mask, heatmap, depth: each tile as its picture. boxes, keypoints: those of all four, one after another, cut at the
        tiles. labels: shares of classes by visible area; labels of boxes and keypoints go with these.
    Errors:
        InvalidArgument for a place outside of [0, 1], a scale that is not above 0, and for class numbers without ``num_classes``.
    Source:
        Bochkovskiy and others, YOLOv4 (2020).

    Example:
        >>> pictures = torch.arange(4.0).reshape(4, 1, 1, 1).expand(4, 1, 4, 4)
        >>> pellucid.Mosaic(0.5)(pictures)[0, 0]
        tensor([[0., 0., 1., 1.],
                [0., 0., 1., 1.],
                [2., 2., 3., 3.],
                [2., 2., 3., 3.]])
    """

    center: Range = field(default=(0.3, 0.7), metadata=drawn(_both, "x", "y"))
    scale: Range = field(default=1.0, metadata=drawn(log_range))
    _: KW_ONLY
    fill: Fill = 0.0
    num_classes: int | None = None
    pairing: Pairing = "xor"
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"kornia": "RandomMosaic"}
    gradients = slopes("exact", x="none", y="none")
    tied: ClassVar[tuple[str, ...]] = ("x", "y")

    def check(self) -> None:
        check_classes("Mosaic.num_classes", self.num_classes)
        keep_learned(self, "scale")

    def segment(self, spec: ImageSpec) -> LayerSpec:
        return LayerSpec((0, 1, 2, 3), self.pairing, covers=False, num_classes=self.num_classes)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Layers:
        scale, sides = values["scale"], (spec.width, spec.height)
        at = [torch.floor(values[name] * side + 0.5) for name, side in zip(("x", "y"), sides, strict=True)]
        maps, boxes, areas = [], [], []
        for tile in range(4):
            shifts, low, high, area = [], [], [], torch.ones_like(scale)
            for place, side, after in zip(at, sides, (tile % 2, tile // 2), strict=True):
                # In pixel edges: the tile's own end, or its beginning, lies at the point.
                shifts.append((0.5 - place) / scale - 0.5 + (0 if after else side))
                low.append(place if after else torch.zeros_like(place))
                high.append(torch.full_like(place, side) if after else place)
                area = area * torch.minimum(high[-1] - low[-1], scale * side)
            step = 1.0 / scale
            maps.append(scale_shift(step, shifts[0], step, shifts[1], like))
            boxes.append(torch.stack((*low, *high), 1))
            areas.append(area)
        own = gated(values, torch.ones_like(scale), 0.0)
        maps[0], boxes[0] = gated_matrix(values, maps[0]), gated(values, boxes[0], everywhere(spec, 0.0, boxes[0]))
        share = torch.stack(areas, 1) / torch.clamp(sum(areas[1:], areas[0]), min=1.0)[:, None]
        rest = constant((1.0, 0.0, 0.0, 0.0), share.dtype, share.device)
        return Layers(
            torch.stack((torch.ones_like(own), own, own, own), 1),
            box=torch.stack(boxes, 1),
            src_from_dst=torch.stack(maps, 1),
            share=gated(values, share, rest),
            fill=self.fill,
        )


@dataclass(frozen=True)
class GridShuffle(Transform):
    """Cut the picture into tiles and put them back in another order.

    Where the grid does not divide the picture, tiles differ by a row or a column: one that is put in a larger place shows the next
    row of the picture, too, one in a smaller place lacks its last.

    Args:
        grid: how many tiles, (rows, columns), or a number for both; at most 64.
        same_on_batch: one order for the whole batch.

    On each target:
        image, mask, heatmap, depth: tiles move, bit for bit. boxes, keypoints: what of each lies in every tile, tile by tile.
        labels of boxes and keypoints go with these; those of pictures stay.
    Identity at:
        p = 0, or one tile.
    Errors:
        InvalidArgument for a grid of more than 64 tiles, or of more than the picture has pixels.
    Source:
        Copied tiles (numpy, in the tests).

    Example:
        >>> shuffled = pellucid.GridShuffle((1, 4), p=1.0)(torch.arange(4.0).reshape(1, 1, 1, 4))
        >>> sorted(shuffled.flatten().tolist())
        [0.0, 1.0, 2.0, 3.0]
    """

    grid: int | Size = (3, 3)
    _: KW_ONLY
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"kornia": "RandomJigsaw", "albumentations": "RandomGridShuffle"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "gate": "almost_everywhere", "order": "none"}

    def check(self) -> None:
        rows, columns = as_size("GridShuffle.grid", self.grid)
        if rows * columns > _MOST_TILES:
            raise invalid("GridShuffle.grid", expected=f"at most {_MOST_TILES} tiles", got=f"{rows} x {columns}")

    def segment(self, spec: ImageSpec) -> LayerSpec:
        rows, columns = as_size("GridShuffle.grid", self.grid)
        if rows > spec.height or columns > spec.width:
            expected = f"at most {spec.height}x{spec.width} tiles, a pixel each"
            raise invalid("GridShuffle.grid", expected=expected, got=f"{rows}x{columns}")
        return LayerSpec((0,) * (rows * columns), covers=False)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        rows, columns = as_size("GridShuffle.grid", self.grid)
        return {**super().draws(spec), "order": Permutation(rows * columns)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Layers:
        rows, columns = as_size("GridShuffle.grid", self.grid)
        order = values["order"].to(like.dtype)
        place = torch.arange(rows * columns, dtype=like.dtype, device=like.device)
        down, top, bottom = _tile_places(torch.floor(order / columns), torch.floor(place / columns), spec.height, rows)
        across, left, right = _tile_places(order % columns, place % columns, spec.width, columns)
        box = torch.stack((left, top, right, bottom), 1)
        across, down = gated(values, across, 0.0), gated(values, down, 0.0)
        maps = scale_shift(1.0, across.flatten(), 1.0, down.flatten(), like).unflatten(0, order.shape)
        return Layers(torch.ones_like(across), box=box.expand(len(order), -1, -1), src_from_dst=maps)


def _tile_places(taken: Tensor, here: Tensor, length: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Along one axis, in whole pixels: from a tile's place to what it shows, and where the place begins and ends."""
    begin, end, source = (torch.floor(at * length / count) for at in (here, here + 1.0, taken))
    return torch.minimum(source, length - (end - begin)) - begin, begin, end


@dataclass(frozen=True)
class RandomZoomBlur(Transform):
    """Blur outwards from the middle, as a lens that is zoomed while it exposes: the mean of several zooms.

    Args:
        factor: the largest zoom, from 1: a pair, a `Learnable` or a distribution; the others lie evenly between 1 and it.
        zooms: how many.

    Identity at:
        factor = 1.
    Errors:
        InvalidArgument for a factor below 1, or other than 2 to 32 zooms.
    Source:
        The mean of ``scipy.ndimage.map_coordinates`` at these zooms.

    Example:
        >>> row = torch.tensor([[[[0.0, 0.0, 1.0, 0.0, 0.0]]]])
        >>> pellucid.RandomZoomBlur((2.0, 2.0), zooms=2, p=1.0)(row).flatten()
        tensor([0.0000, 0.2500, 1.0000, 0.2500, 0.0000])
    """

    factor: Range = field(default=(1.02, 1.2), metadata=drawn(interval, low=1.0))
    zooms: int = 9
    _: KW_ONLY
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "ZoomBlur"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "factor": "almost_everywhere", "gate": "almost_everywhere"}

    def check(self) -> None:
        object.__setattr__(self, "zooms", whole_number("RandomZoomBlur.zooms", self.zooms, 2, MOST_ZOOMS))

    def segment(self, spec: ImageSpec) -> LayerSpec:
        return LayerSpec((0,) * self.zooms, moves=False)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Layers:
        factor = gated(values, values["factor"], 1.0)
        maps = zooms_to(factor, self.zooms, spec, like)
        shares = constant([1.0 / (k + 1) for k in range(self.zooms)], factor.dtype, factor.device)
        return Layers(shares.expand(len(factor), -1), src_from_dst=torch.stack(maps, 1))


def zooms_to(factor: Float[Tensor, "b"], zooms: int, spec: ImageSpec, like: Tensor) -> list[Float[Tensor, "b 3 3"]]:
    """The maps (src_from_dst) of zooms about the picture's middle, evenly from 1 to ``factor``."""
    maps = []
    for k in range(zooms):
        step = 1.0 / (1.0 + (factor - 1.0) * (k / (zooms - 1)))
        middle = (spec.width - 1) / 2, (spec.height - 1) / 2
        maps.append(scale_shift(step, middle[0] * (1.0 - step), step, middle[1] * (1.0 - step), like))
    return maps
