"""A picture made smaller or larger on a canvas of fixed size, at a random place.

Owns: RandomZoomOut, ScaleJitter.
Must not: change the size of the batch from sample to sample.
Read next: ``resize.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from torch import Tensor

from pellucid.geometry.matrices import scale_shift
from pellucid.random.distributions import Distribution, Uniform
from pellucid.random.fields import Chance, Range, interval
from pellucid.segments import Warp, WarpSpec
from pellucid.transforms.base import Params, Transform, as_size, by_options, drawn, gated_matrix, moved_by
from pellucid.transforms.warping import resizing
from pellucid.types import Fill, ImageSpec, Interpolation, Size

__all__ = ["RandomZoomOut", "ScaleJitter"]


class _Placed(Transform):
    """The base: the picture is scaled by one factor and placed at random on the canvas, or cut at random if it is larger."""

    fill: Fill
    mask_fill: float | None
    interpolation: Interpolation
    antialias: bool

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {**super().draws(spec), "x": Uniform(0.0, 1.0), "y": Uniform(0.0, 1.0)}

    def _warp(self, spec: ImageSpec, size: Size, smallest: Any) -> WarpSpec:
        """The spec of a canvas of this size, and of pictures that shrink by ``smallest`` at most."""
        shown = {"padding_mode": "constant", "fill": self.fill, "mask_fill": self.mask_fill}
        return resizing(self, size, 1.0 / smallest, 1.0 / smallest, **shown)

    def _place(self, values: Params, zoom: Tensor, spec: ImageSpec, size: Size, like: Tensor) -> Tensor:
        step = 1.0 / zoom
        left = values["x"] * (size[1] - spec.width * zoom)
        top = values["y"] * (size[0] - spec.height * zoom)
        # output pixel centre q lies at edge coordinate q + 1/2, and the picture begins at (left, top)
        return scale_shift(step, (0.5 - left) * step - 0.5, step, (0.5 - top) * step - 0.5, like)


@dataclass(frozen=True)
class RandomZoomOut(_Placed):
    """Put the picture, smaller, somewhere on a canvas of its own size, with probability p.

    SSD pads to a larger canvas of random size and resizes that back; this is both in one resample.

    Args:
        side: of the larger canvas, in units of the picture's: a pair, number, `Learnable` or distribution, 1 to 16.
        fill: the value of the canvas, in the image's units.
        antialias: low-pass.

    On each target:
        image: resampled. mask: nearest. boxes, keypoints: scaled and shifted.
    Identity at:
        side = 1.
    Source:
        ``torchvision.transforms.v2.RandomZoomOut`` followed by ``Resize``.

    Example:
        >>> small = pellucid.RandomZoomOut((2, 2), fill=0.0, p=1.0)(torch.ones(1, 1, 8, 8))
        >>> round(small.mean().item(), 3)
        0.25
    """

    side: Range = field(default=(1.0, 4.0), metadata=drawn(interval, low=1.0, high=16.0))
    _: KW_ONLY
    fill: Fill = 0.0
    interpolation: Interpolation = "bilinear"
    antialias: bool = True
    mask_fill: float | None = None
    p: Chance = 0.5
    same_on_batch: bool = False

    @by_options
    def gradients(self) -> Mapping[str, str]:
        return moved_by("side", "x", "y", "gate", interpolation=self.interpolation)

    def segment(self, spec: ImageSpec) -> WarpSpec:
        return self._warp(spec, spec.size, 1.0 / min(16.0, self._fixed["side"].span()[1]))

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        return Warp(gated_matrix(values, self._place(values, 1.0 / values["side"], spec, spec.size, like)))


@dataclass(frozen=True)
class ScaleJitter(_Placed):
    """Resize by a random factor times the scale that just fits, and cut or pad to a fixed size at random: large-scale jitter.

    Args:
        size: (height, width) of the output, or an int for a square.
        scale: 1 fits the whole picture into the output: a pair, number, `Learnable` or distribution, 0.05 to 20.
        fill: the value outside of the picture, in the image's units.

    On each target:
        image: resampled. mask: nearest. boxes, keypoints: scaled and shifted.
    Identity at:
        scale = 1, the image's own size.
    Source:
        Ghiasi et al., "Simple copy-paste is a strong data augmentation method for instance segmentation", CVPR 2021;
        ``torchvision.transforms.v2.ScaleJitter`` followed by a crop or padding.

    Example:
        >>> pellucid.ScaleJitter((8, 8), scale=(0.5, 0.5))(torch.ones(1, 3, 16, 16)).mean().round(decimals=3)
        tensor(0.2500)
    """

    size: int | Size
    scale: Range = field(default=(0.1, 2.0), metadata=drawn(interval, low=0.05, high=20.0))
    _: KW_ONLY
    fill: Fill = 0.0
    interpolation: Interpolation = "bilinear"
    antialias: bool = True
    mask_fill: float | None = None
    same_on_batch: bool = False

    @by_options
    def gradients(self) -> Mapping[str, str]:
        return moved_by("scale", "x", "y", interpolation=self.interpolation)

    def segment(self, spec: ImageSpec) -> WarpSpec:
        size = as_size("ScaleJitter.size", self.size)
        return self._warp(spec, size, _fitting(size, spec) * max(0.05, self._fixed["scale"].span()[0]))

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        size = as_size("ScaleJitter.size", self.size)
        return Warp(self._place(values, values["scale"] * _fitting(size, spec), spec, size, like))


def _fitting(size: Size, spec: ImageSpec) -> Any:
    """The factor with which the whole picture just fits."""
    return min(size[0] / spec.height, size[1] / spec.width)
