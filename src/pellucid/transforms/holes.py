"""Rectangles painted over: one, several, or a grid of them.

Owns: RandomErasing, CoarseDropout, GridDropout.
Must not: touch pixels; a hole is four numbers.
Read next: ``../kernels/blend/reference.py``.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.errors import invalid
from pellucid.random.distributions import Bits, Distribution, Uniform, Uniforms
from pellucid.random.fields import Chance, Range, interval, log_range, no_lone_number
from pellucid.segments import BlendSpec, Patch
from pellucid.transforms.base import Names, Params, Transform, drawn, gated, keep_learned, slopes
from pellucid.types import Fill, ImageSpec, RandomNoise

__all__ = ["CoarseDropout", "GridDropout", "RandomErasing"]

_MOST_HOLES = 64
_MOST_CELLS = 32.0
"""Of a grid, along each axis; where a draw has no bound, such as a `Normal`, what goes beyond covers nothing more."""


class _Holes(Transform):
    """The base: rectangles of a colour, or of noise."""

    fill: Fill | RandomNoise
    mask_fill: float | None
    hides: bool
    inside: bool = True
    gradients = slopes("exact", **dict.fromkeys(("x", "y"), "almost_everywhere"), words="none")

    def segment(self, spec: ImageSpec) -> BlendSpec:
        if isinstance(self.fill, tuple) and len(self.fill) not in (1, spec.channels):
            raise invalid(f"{type(self).__name__}.fill", expected=f"{spec.channels} numbers, one per channel", got=self.fill)
        return BlendSpec(mask_fill=self.mask_fill, hides=self.hides)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        words = {"words": Bits()} if self.fill == "random" else {}
        return {**super().draws(spec), **self.places(), **words}

    def places(self) -> dict[str, Distribution]:
        """Where the holes lie."""
        return {"x": Uniform(0.0, 1.0), "y": Uniform(0.0, 1.0)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Patch:
        box = self.boxes(values, spec)
        if isinstance(self.fill, str):
            return Patch(box, None, values["words"])
        colors = self.fill if isinstance(self.fill, tuple) else (self.fill,)
        colors = colors * (spec.channels // len(colors))
        return Patch(box, constant(colors, like.dtype, like.device)[None], None)

    def starts(self, place: Tensor, side: Tensor, room: float) -> Tensor:
        """Where holes of these sides begin along an axis, from places in [0, 1]."""
        return place * (room - side) if self.inside else place * room - side / 2.0

    def boxes(self, values: Params, spec: ImageSpec) -> Float[Tensor, "b n 4"]:
        """The holes, in pixel edges."""
        raise NotImplementedError


def _area(name: str, value: Range) -> Distribution:
    no_lone_number(name, value, lambda area: (0.0, area))
    return interval(name, value, low=0.0, high=1.0)


@dataclass(frozen=True)
class RandomErasing(_Holes):
    """Paint a random rectangle over, with probability p.

    The rectangle is continuous: pixels cut by its edge are mixed by the share covered, so it has gradients.

    Args:
        scale: area of the rectangle as a fraction of the image's: a pair, a `Learnable` or a distribution. A single number other
            than 0 and 1 raises: it could mean a range or always the same.
        ratio: width / height, likewise; a pair draws log-uniformly. Limited so that the rectangle fits the image.
        fill: a number, one per channel, or ``"random"`` for standard normal noise; in [0, 1] units.
        inside: the whole rectangle lies in the picture; False: its centre lies anywhere in it, and the border cuts off the rest.
        mask_fill: the class of masks under the holes, whose edges are hard there; None leaves masks as they are.
        hides: holes hide boxes and keypoints: keypoints under a hole become invalid; a box shrinks to the hull of its visible part,
            and is invalid if that is nothing, or less than ``min_area`` or ``min_visibility`` ask for.

    Gradient:
        image: exact (zero under the rectangle). scale, ratio, x, y, gate: almost everywhere. words: none.
    On each target:
        image only, but for ``mask_fill`` and ``hides``.
    Errors:
        InvalidArgument for an area outside of [0, 1], a ratio that is not above 0, or a number of values that is not that
        of the channels.

    Example:
        >>> erased = pellucid.RandomErasing(p=1.0, scale=(0.5, 0.5), ratio=(1.0, 1.0))(torch.ones(1, 1, 8, 8))
        >>> round(erased.mean().item(), 4)
        0.5
    """

    _: KW_ONLY
    scale: Range = field(default=(0.02, 0.33), metadata=drawn(_area))
    ratio: Range = field(default=(0.3, 3.3), metadata=drawn(log_range))
    fill: Fill | RandomNoise = 0.0
    inside: bool = True
    mask_fill: float | None = None
    hides: bool = False
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "Erasing"}

    def check(self) -> None:
        keep_learned(self, "scale", "ratio")

    def boxes(self, values: Params, spec: ImageSpec) -> Float[Tensor, "b 1 4"]:
        area = values["scale"] * (spec.height * spec.width)
        # An empty rectangle is legal, but the square root has no finite slope at 0: the area is kept above it.
        area = torch.where(area > 0, area, 1e-12)
        ratio = torch.maximum(torch.minimum(values["ratio"], spec.width**2 / area), area / spec.height**2)
        width, height = torch.sqrt(area * ratio), torch.sqrt(area / ratio)
        left, top = self.starts(values["x"], width, spec.width), self.starts(values["y"], height, spec.height)
        width, height = gated(values, width, 0.0), gated(values, height, 0.0)
        return torch.stack((left, top, left + width, top + height), dim=-1)[:, None]


@dataclass(frozen=True)
class CoarseDropout(_Holes):
    """Paint several random rectangles over, with probability p: Cutout where there is one hole.

    The rectangles are continuous: pixels cut by an edge are mixed by the share covered, so they have gradients. Where two meet,
    the shares add up to at most the whole pixel.

    Args:
        count: how many, at most 64: a number, pair, `Learnable` or distribution. At 2.5, a third hole has half the area;
            ``Categorical((1, 2, 3))`` draws whole numbers.
        height, width: of each hole, as fractions of the image's: a number, pair, `Learnable` or distribution. All holes of a
            picture have one size.
        fill, inside, mask_fill, hides: as in `RandomErasing`.

    Gradient:
        image: exact (zero under a hole). count, height, width, x, y, gate: almost everywhere (zero to the place of a hole beyond
        the count). words: none.
    On each target:
        image only, but for ``mask_fill`` and ``hides``.
    Identity at:
        count = 0.
    Errors:
        InvalidArgument for a fraction outside of [0, 1], more than 64 holes, or a number of values that is not that of the
        channels.
    Source:
        DeVries and Taylor, "Improved regularization of convolutional neural networks with Cutout", 2017, with ``inside=False``.

    Example:
        >>> holed = pellucid.CoarseDropout(1, height=(0.5, 0.5), width=(0.25, 0.25), p=1.0)(torch.ones(1, 1, 8, 8))
        >>> round(holed.mean().item(), 4)
        0.875
    """

    count: Range = field(default=(1.0, 4.0), metadata=drawn(interval, low=0.0, high=_MOST_HOLES))
    _: KW_ONLY
    height: Range = field(default=(0.1, 0.25), metadata=drawn(interval, low=0.0, high=1.0))
    width: Range = field(default=(0.1, 0.25), metadata=drawn(interval, low=0.0, high=1.0))
    fill: Fill | RandomNoise = 0.0
    inside: bool = True
    mask_fill: float | None = None
    hides: bool = False
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "Cutout"}

    def places(self) -> dict[str, Distribution]:
        most = max(1, math.ceil(min(self._fixed["count"].span()[1], _MOST_HOLES)))
        return {"x": Uniforms(most), "y": Uniforms(most)}

    def boxes(self, values: Params, spec: ImageSpec) -> Float[Tensor, "b n 4"]:
        x, y = values["x"], values["y"]  # b n
        # Holes beyond the count have no size, and so cover nothing; the square root's slope there is not needed.
        area = torch.clamp(values["count"][:, None] - torch.arange(x.shape[1], device=x.device), 0.0, 1.0)
        side = torch.where(area > 0, torch.sqrt(torch.where(area > 0, area, 1.0)), 0.0)
        width, height = (gated(values, values[name][:, None] * side, 0.0) for name in ("width", "height"))
        left, top = self.starts(x, width, 1.0), self.starts(y, height, 1.0)
        edges = torch.stack((left, top, left + width, top + height), -1)
        return _in_pixels(edges, spec)


@dataclass(frozen=True)
class GridDropout(_Holes):
    """Paint a regular grid of rectangles over, with probability p.

    Args:
        cells: how many fit across the image, along each axis: a number, pair, `Learnable` or distribution in [1, 32]. Cells
            have the image's own proportions.
        ratio: side of a hole relative to its cell's, in [0, 1], likewise.
        fill, mask_fill, hides: as in `RandomErasing`.

    The grid begins anywhere within a cell. Edges are mixed by the share covered, so they have gradients.

    Gradient:
        image: exact (zero under a hole). cells, ratio, x, y, gate: almost everywhere. words: none.
    On each target:
        image only, but for ``mask_fill`` and ``hides``.
    Identity at:
        ratio = 0.
    Errors:
        InvalidArgument for numbers outside of their ranges, or a number of values that is not that of the channels.
    Source:
        Chen et al., "GridMask data augmentation", 2020, without its rotation.

    Example:
        >>> grid = pellucid.GridDropout(cells=2, ratio=0.5, p=1.0)(torch.ones(1, 1, 16, 16))
        >>> round(grid.mean().item(), 3)
        0.75
    """

    cells: Range = field(default=(3.0, 7.0), metadata=drawn(interval, low=1.0, high=_MOST_CELLS))
    ratio: Range = field(default=0.5, metadata=drawn(interval, low=0.0, high=1.0))
    _: KW_ONLY
    fill: Fill | RandomNoise = 0.0
    mask_fill: float | None = None
    hides: bool = False
    p: Chance = 0.5
    same_on_batch: bool = False

    def boxes(self, values: Params, spec: ImageSpec) -> Float[Tensor, "b n 4"]:
        count = 1 + math.ceil(min(self._fixed["cells"].span()[1], _MOST_CELLS))
        cell = 1.0 / values["cells"][:, None]
        side = gated(values, values["ratio"][:, None] * cell, 0.0)
        place = torch.arange(count, dtype=cell.dtype, device=cell.device) - 1.0
        left, top = ((place + values[name][:, None]) * cell for name in ("x", "y"))  # b count
        columns, rows = (torch.stack((low, low + side), -1) for low in (left, top))  # b count 2
        columns = columns[:, None].expand(-1, count, -1, -1)
        rows = rows[:, :, None].expand(-1, -1, count, -1)
        edges = torch.stack((columns[..., 0], rows[..., 0], columns[..., 1], rows[..., 1]), -1).flatten(1, 2)
        return _in_pixels(edges, spec)


def _in_pixels(edges: Float[Tensor, "b n 4"], spec: ImageSpec) -> Float[Tensor, "b n 4"]:
    """Turn edges in fractions of the picture into pixels."""
    left, top, right, bottom = edges.unbind(-1)
    return torch.stack((left * spec.width, top * spec.height, right * spec.width, bottom * spec.height), -1)
