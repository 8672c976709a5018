"""Hue, saturation and value, changed by addition.

Owns: HueSaturationValue.
Must not: convert colours itself.
Read next: ``../color/hsv.py``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from torch import Tensor

from pellucid.random.fields import Chance, Range, symmetric
from pellucid.segments import CurveSpec, Hsv, SegmentSpec
from pellucid.transforms.base import Params, Transform, drawn, slopes
from pellucid.transforms.jitter import hue_turns
from pellucid.types import ImageSpec

__all__ = ["HueSaturationValue"]


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
        >>> import torch, pellucid
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
