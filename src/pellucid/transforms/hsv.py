"""Hue, saturation and value changed by addition, and vibrance.

Owns: HueSaturationValue, RandomVibrance.
Must not: convert colours to HSV itself.
Read next: ``../color/hsv.py``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from torch import Tensor

from pellucid.color.luma import LUMA
from pellucid.core.constants import constant
from pellucid.random.fields import Chance, Range, interval, symmetric
from pellucid.segments import CurveSpec, Hsv, SegmentSpec
from pellucid.transforms.base import Params, Transform, drawn, slopes
from pellucid.transforms.jitter import hue_turns
from pellucid.transforms.noise import Formula, wide
from pellucid.types import EndClip, ImageSpec

__all__ = ["HueSaturationValue", "RandomVibrance"]


@dataclass(frozen=True)
class HueSaturationValue(Transform):
    """Add to the hue, to the saturation and to the value of HSV.

    `RandomSaturation` scales the difference from the luma instead, and `RandomHue` leaves saturation and value alone; both join a
    resample, which this cannot. Saturation and value are clipped to [0, 1]; grey stays grey.

    Args:
        hue: turns of the hue circle; a number h at most 0.5 draws from (-h, h); a pair or distribution is drawn from directly; a
            `Learnable` is a learned h.
        saturation, value: a number m draws from (-m, m), likewise.

    Gradient:
        image, hue, saturation, value, gate: almost everywhere; exact grey has no hue, and black no saturation.
    Identity at:
        hue = saturation = value = 0 (to rounding), for images in [0, 1].
    Errors:
        InvalidArgument for a negative number, a reversed pair, a turn beyond 0.5, or other than 3 channels.
    Source:
        albumentations' transform of this name, in floating point (oracle: ``colorsys``).

    Example:
        >>> red = torch.tensor([0.5, 0.0, 0.0]).reshape(1, 3, 1, 1)
        >>> pellucid.HueSaturationValue(hue=0.0, saturation=(-0.5, -0.5), value=(0.25, 0.25), p=1.0)(red).flatten()
        tensor([0.7500, 0.3750, 0.3750])
    """

    _: KW_ONLY
    hue: Range = field(default=0.1, metadata=drawn(hue_turns))
    saturation: Range = field(default=0.12, metadata=drawn(symmetric))
    value: Range = field(default=0.08, metadata=drawn(symmetric))
    p: Chance = 0.5
    same_on_batch: bool = False

    gradients = slopes()
    channels: ClassVar[tuple[int, ...]] = (3,)
    lowers_to: ClassVar[SegmentSpec | None] = CurveSpec(tabled=False)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Hsv:
        return Hsv(values["hue"], values["saturation"], values["value"], values.get("gate"))


def _vibrant(image: Tensor, vibrance: Tensor) -> Tensor:
    luma = (image * constant(LUMA, image.dtype, image.device)[:, None, None]).sum(1, keepdim=True)
    chroma = image.amax(1, keepdim=True) - image.amin(1, keepdim=True)
    return luma + (image - luma) * (1.0 + wide(vibrance) * (1.0 - chroma))


@dataclass(frozen=True)
class RandomVibrance(Formula):
    """Saturate pale colours more than strong ones, which would soon be clipped; negative numbers make pale ones paler.

    The difference of each pixel from its luma is multiplied by 1 + vibrance * (1 - chroma), where the chroma is the largest channel
    less the smallest. `RandomSaturation` treats all pixels alike.

    Args:
        vibrance: -1 to 1: a number, pair, `Learnable` or distribution.

    Identity at:
        vibrance = 0 (to rounding), on images in [0, 1].
    Source:
        The idea is that of photo editors; where all pixels have one chroma c, this is torchvision's ``adjust_saturation`` by
        1 + vibrance * (1 - c).

    Example:
        >>> pale = torch.tensor([0.6, 0.5, 0.5]).reshape(1, 3, 1, 1)
        >>> pellucid.RandomVibrance(0.5, p=1.0)(pale).flatten()
        tensor([0.6315, 0.4865, 0.4865])
    """

    vibrance: Range = field(default=(-0.3, 0.7), metadata=drawn(interval, low=-1.0, high=1.0))
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    _formula = staticmethod(_vibrant)
    keyed: ClassVar[bool] = False
    channels: ClassVar[tuple[int, ...]] = (3,)
