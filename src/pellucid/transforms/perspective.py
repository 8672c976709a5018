"""RandomPerspective.

Owns: the four-corner distortion.
Must not: solve linear systems; ``geometry.matrices`` has the closed form.
Read next: ``crop.py``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from pellucid.geometry.matrices import inverse, quad_from_unit_square, scale_shift
from pellucid.random.distributions import Constant, Distribution, Uniform
from pellucid.random.fields import Chance, Range, interval
from pellucid.random.learnable import Learnable
from pellucid.transforms.base import Names, Params, drawn
from pellucid.transforms.warping import Warping
from pellucid.types import Fill, ImageSpec, Interpolation, PaddingMode

__all__ = ["RandomPerspective"]

_CORNERS = ("top_left", "top_right", "bottom_right", "bottom_left")
_NAMES = tuple(f"{corner}_{axis}" for corner in _CORNERS for axis in "xy")
_INWARD = ((1, 1), (-1, 1), (-1, -1), (1, -1))


def _corners(name: str, scale: Range) -> dict[str, Distribution]:
    inward = interval(name, scale, low=0.0, high=1.0)
    if isinstance(inward, Constant) and (isinstance(inward.value, Learnable) or inward.value > 0):
        inward = Uniform(0.0, inward.value)  # a number, learned or not, is the largest displacement
    return dict.fromkeys(_NAMES, inward)


@dataclass(frozen=True)
class RandomPerspective(Warping):
    """Pull each corner of the image inward by its own random amount.

    Args:
        distortion_scale: in [0, 1); each corner moves by up to this fraction of half the width and height. A number d draws from
            (0, d); a `Learnable` is a learned d; a pair or distribution is drawn from directly.

    On each target:
        image: resampled. mask: nearest. boxes: hull of the mapped corners. keypoints: exact.
    Identity at:
        distortion_scale = 0.
    Source:
        ``cv2.getPerspectiveTransform`` on the drawn corners.

    Example:
        >>> pellucid.RandomPerspective(0.4, p=1.0)(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 3, 8, 8])
    """

    distortion_scale: Range = field(default=0.5, metadata=drawn(_corners, *_NAMES))
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "zeros"
    fill: Fill = 0.0
    mask_fill: float | None = None
    p: Chance = 0.5
    same_on_batch: bool = False

    tied: ClassVar[tuple[str, ...]] = _NAMES

    projective: ClassVar[bool] = True
    like: ClassVar[Names] = {"albumentations": "Perspective"}

    def matrix(self, values: Params, spec: ImageSpec, like: Tensor) -> Tensor:
        corners = []
        for corner, (sign_x, sign_y) in zip(_CORNERS, _INWARD, strict=True):
            x = values[f"{corner}_x"] * (sign_x / 2) + (sign_x < 0)
            y = values[f"{corner}_y"] * (sign_y / 2) + (sign_y < 0)
            corners.append(torch.stack((x, y), dim=-1))
        # In the unit square: the displaced corners, and back to the square; then to pixel edges on both sides.
        unit_from_quad = inverse(quad_from_unit_square(torch.stack(corners, dim=1)))
        width, height = spec.width, spec.height
        pixels_from_unit = scale_shift(width, -0.5, height, -0.5, like)
        unit_from_pixels = scale_shift(1.0 / width, 0.5 / width, 1.0 / height, 0.5 / height, like)
        matrix = pixels_from_unit @ unit_from_quad @ unit_from_pixels
        return matrix / matrix[..., 2:, 2:]
