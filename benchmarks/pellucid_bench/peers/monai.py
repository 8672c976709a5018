"""MONAI's version of the elastic case.

Owns: its transforms with the settings' ranges.
Must not: jitter colours as the others do: it has no hue or saturation.
Read next: ``fuse_augmentations.py``.
"""

from __future__ import annotations

import math

import torch
from monai.transforms import Compose, Rand2DElastic, RandAdjustContrast
from torch import Tensor

from pellucid_bench.settings import CASES, Elastic
from pellucid_bench.subject import IMAGE_FLOAT, Subject

__all__ = ["elastic"]


def elastic() -> list[Subject]:
    """``Rand2DElastic``, whose affine map and zoom share its resample, and a tone curve."""
    s = CASES["elastic"]
    assert isinstance(s, Elastic)
    spacing, turn, zoom = math.sqrt(3.0) * s.sigma, math.radians(s.degrees), 1.0 - math.sqrt(s.crop[0])
    bent = Rand2DElastic(spacing, (0.0, 2.0), prob=1.0, rotate_range=turn, scale_range=((-zoom, 0.0),) * 2, padding_mode="zeros")
    pipeline = Compose([bent, RandAdjustContrast(prob=1.0, gamma=(0.9, 1.1))])

    def forward(images: Tensor) -> Tensor:
        return torch.stack([torch.as_tensor(pipeline(image)) for image in images])

    return [Subject("monai, a tone curve for the jitter", IMAGE_FLOAT, forward)]
