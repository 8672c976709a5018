"""Lossy codecs as transforms.

Owns: RandomJPEG.
Must not: write or read files.
Read next: ``../kernels/codec/surrogate.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from torch import Tensor

from pellucid.errors import invalid
from pellucid.random.fields import Chance, Range, interval
from pellucid.segments import Codec, CodecSpec, SegmentSpec
from pellucid.transforms.base import Names, Params, Transform, by_options, drawn
from pellucid.types import CodecGradient, ImageSpec, Subsampling

__all__ = ["RandomJPEG"]


@dataclass(frozen=True)
class RandomJPEG(Transform):
    """Encode as JPEG and decode again, with probability p: bit for bit as if Pillow had written a file and read it.

    Args:
        quality: 1 to 100: a number, pair, `Learnable` or distribution. A drawn value is rounded to a whole number, so
            ``(49.5, 52.5)`` gives 50, 51 and 52 equal chances.
        subsampling: of the colour differences: ``4:2:0`` (halves in both axes), ``4:2:2`` (half the columns) or ``4:4:4``.
        image_gradient: slope of a coefficient's rounding: ``proximity`` (a Gaussian of 0.2 steps at each jump, which is where
            a coefficient can change), ``cubic`` (3 d^2 at distance d from the stored value), ``straight_through`` (1) or
            ``none`` (zero).
        h: reach of the secant to the quality.

    Floating-point images are brought to 8 bits first, and so clipped to [0, 1].

    Gradient:
        image: surrogate or none, as chosen; zero where clipped. quality: surrogate (the difference of the results at
        ``quality + h`` and ``quality - h``). gate: exact.
    Source:
        Pillow's ``Image.save(format="JPEG")`` and ``Image.open``.

    Example:
        >>> row = torch.tensor([[[[0, 40, 80, 120, 160, 200, 240, 255]]]], dtype=torch.uint8)
        >>> pellucid.RandomJPEG(30, p=1.0)(row).flatten()
        tensor([  0,  40,  86, 120, 158, 205, 242, 255], dtype=torch.uint8)
    """

    quality: Range = field(default=(30, 95), metadata=drawn(interval, low=1.0, high=100.0))
    _: KW_ONLY
    subsampling: Subsampling = "4:2:0"
    image_gradient: CodecGradient = "proximity"
    h: float = 5.0
    p: Chance = 0.5
    same_on_batch: bool = False

    white: ClassVar[bool] = True
    absent: ClassVar[Mapping[str, str]] = {"narrow": "float64"}
    channels: ClassVar[tuple[int, ...]] = (1, 3)
    lowers_to: ClassVar[SegmentSpec | None] = CodecSpec()
    like: ClassVar[Names] = {"torchvision": "JPEG", "albumentations": "ImageCompression"}

    @by_options
    def gradients(self) -> Mapping[str, str]:
        image = "none" if self.image_gradient == "none" else f"surrogate: {self.image_gradient}"
        return {"image": image, "quality": "surrogate: secant", "gate": "exact"}

    def check(self) -> None:
        if not self.h > 0:
            raise invalid("RandomJPEG.h", expected="a reach > 0", got=self.h)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Codec:
        return Codec(values["quality"], values.get("gate"), self.subsampling, self.image_gradient, self.h)
