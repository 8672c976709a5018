"""Tone curves that map each value by itself: a power law with a finite gradient at black, and two curves with jumps.

Owns: `power`, `posterize`, `solarize`, and `Curved`, which names one of them.
Must not: read a histogram (``../kernels/curve/reference.py`` does), or invent gradients (``../kernels/jumps.py`` does).
Read next: ``../kernels/jumps.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["CURVES", "NUMBERS", "SLACK", "SLOPES", "Curved", "posterize", "power", "solarize"]

CURVES = ("power", "posterize", "solarize")
SLOPES = {"none": 0, "straight_through": 1, "soft": 2, "secant": 2}
"""Codes of the surrogate gradients that a curve with jumps may have, to the image or to its amount."""
NUMBERS = 4
"""Numbers per sample: the amount (exponent, bits or threshold), the power's gain, the jump's gate, the reach of its secant."""
SLACK = 1e-3
"""Added in 8-bit units before a comparison, so that whole grey levels survive the division by 255 and back."""


class Curved(NamedTuple):
    """The static part of a curve: its name, its surrogate gradients and the scale of its values.

    Args:
        name: one of `CURVES`.
        image_gradient, surrogate: names in `SLOPES`: the surrogate gradient of a jump to the image, and to its amount.
        scale: 255 for images that came as 8 bits, 1 for others.
    """

    name: str
    image_gradient: str = "none"
    surrogate: str = "none"
    scale: float = 1.0

    @property
    def code(self) -> int:
        """All fields as one number for compiled code: two bits for each name, one for the scale."""
        return CURVES.index(self.name) | SLOPES[self.image_gradient] << 2 | SLOPES[self.surrogate] << 4 | (self.scale != 1.0) << 6

    @classmethod
    def of(cls, code: int) -> Curved:
        """Unpack the number that `code` gives."""
        slopes = ("none", "straight_through", "soft")[code >> 2 & 3], ("none", "straight_through", "secant")[code >> 4 & 3]
        return cls(CURVES[code & 3], *slopes, 255.0 if code >> 6 & 1 else 1.0)


def power(image: Float[Tensor, "b c h w"], exponent: Float[Tensor, "#b"], gain: Float[Tensor, "#b"]) -> Float[Tensor, "b c h w"]:
    """Gain * max(image, 0) ** exponent, exactly the identity where both are 1 (negative values excepted).

    Gradient:
        image, exponent, gain: exact above black. At and below 0 it is 0 to all three: the true slope of x ** gamma at black is
        infinite for gamma < 1, so the subgradient there is a declared choice.
    """
    exponent, gain = exponent[:, None, None, None], gain[:, None, None, None]
    positive = image > 0
    safe = torch.where(positive, image, 1.0)
    return torch.where(positive, gain * safe**exponent, 0.0)


def posterize(image: Float[Tensor, "b c h w"], bits: Float[Tensor, "#b"]) -> Float[Tensor, "b c h w"]:
    """Round each value down to its 8-bit grey level and clear that level's low bits; ``bits`` is rounded to a whole number.

    Args:
        image: in [0, 1]; values outside are cut off.
        bits: how many of the 8 to keep.

    Gradient:
        none: a staircase in both.
    Source:
        ``torchvision.transforms.v2.functional.posterize`` of bytes.
    """
    step = torch.exp2(8.0 - torch.floor(bits + 0.5))[:, None, None, None]
    level = torch.clamp(image * 255.0 + SLACK, 0.0, 255.0)
    return torch.floor(level / step) * step / 255.0


def solarize(image: Float[Tensor, "b c h w"], threshold: Float[Tensor, "#b"], scale: float) -> Float[Tensor, "b c h w"]:
    """Invert the values that are at least the threshold.

    Args:
        image: in [0, 1].
        threshold: in the same units.
        scale: 255 for images that came as 8 bits, 1 for others.

    Gradient:
        image: almost everywhere. threshold: none (pixels jump).
    Source:
        ``torchvision.transforms.v2.functional.solarize``.
    """
    slack = 0.0 if scale == 1.0 else SLACK / scale
    return torch.where(image + slack >= threshold[:, None, None, None], 1.0 - image, image)
