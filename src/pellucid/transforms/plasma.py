"""Fog, uneven light and shadow, shaped by clouds.

Owns: RandomPlasmaFog, RandomPlasmaBrightness, RandomPlasmaContrast, RandomPlasmaShadow.
Must not: make clouds; they draw their key.
Read next: ``noise.py``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from pellucid.random.fields import Chance, Range, interval
from pellucid.transforms.base import Names, drawn
from pellucid.transforms.noise import Grained
from pellucid.types import EndClip

__all__ = ["RandomPlasmaBrightness", "RandomPlasmaContrast", "RandomPlasmaFog", "RandomPlasmaShadow"]


_DECAY = drawn(interval, low=1.0, high=10.0)


@dataclass(frozen=True)
class RandomPlasmaFog(Grained):
    """Lay a cloud over the image: (x + strength * cloud) * m / (m + strength), with m the image's largest value.

    Args:
        strength: how thick, >= 0: a number, pair, `Learnable` or distribution. ImageNet-C's severities have 1.5 to 3.
        decay: how smooth the cloud is, 1 to 10, likewise: details of half the size are weaker by its square.

    The record keeps two words per sample, not the cloud. Frames of a video share it.

    Identity at:
        strength = 0, on images in [0, 1].
    Source:
        The fog of Hendrycks and Dietterich, ICLR 2019; see ``pellucid.corruptions``.

    Example:
        >>> foggy = pellucid.RandomPlasmaFog(2.0, 2.0, p=1.0)(torch.full((1, 3, 8, 8), 0.5))
        >>> bool(abs(foggy.min() - 0.1) < 1e-6), bool(abs(foggy.max() - 0.5) < 1e-6)
        (True, True)
    """

    strength: Range = field(default=(0.5, 2.0), metadata=drawn(interval, low=0.0))
    decay: Range = field(default=(1.4, 2.0), metadata=_DECAY)
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    law: ClassVar[str] = "fog"


@dataclass(frozen=True)
class RandomPlasmaBrightness(Grained):
    """Brighten and darken unevenly: add strength * (2 cloud - 1).

    Args:
        strength: the most that is added or taken away, 0 to 1: a number, pair, `Learnable` or distribution.
        decay: as in `RandomPlasmaFog`.

    Identity at:
        strength = 0, on images in [0, 1].

    Example:
        >>> uneven = pellucid.RandomPlasmaBrightness(0.2, p=1.0)(torch.full((1, 3, 8, 8), 0.5))
        >>> bool(abs(uneven.min() - 0.3) < 1e-6), bool(abs(uneven.max() - 0.7) < 1e-6)
        (True, True)
    """

    strength: Range = field(default=(0.1, 0.4), metadata=drawn(interval, low=0.0, high=1.0))
    decay: Range = field(default=(1.4, 2.0), metadata=_DECAY)
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    law: ClassVar[str] = "light"
    like: ClassVar[Names] = {"albumentations": "PlasmaBrightnessContrast"}


@dataclass(frozen=True)
class RandomPlasmaContrast(Grained):
    """Change the contrast unevenly: the distance from the middle grey is scaled by 1 + strength * (4 cloud - 1).

    Args:
        strength: 0 to 1: a number, pair, `Learnable` or distribution; 1 is kornia's.
        decay: as in `RandomPlasmaFog`.

    Identity at:
        strength = 0, on images in [0, 1].
    Source:
        kornia's transform of this name.

    Example:
        >>> flat = pellucid.RandomPlasmaContrast(1.0, p=1.0)(torch.full((1, 3, 8, 8), 0.5))
        >>> bool((flat == 0.5).all())  # the middle grey stays
        True
    """

    strength: Range = field(default=(0.2, 0.8), metadata=drawn(interval, low=0.0, high=1.0))
    decay: Range = field(default=(1.4, 2.0), metadata=_DECAY)
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    law: ClassVar[str] = "contrast"


@dataclass(frozen=True)
class RandomPlasmaShadow(Grained):
    """Lay shadows on the image where a cloud is thin.

    Args:
        darkness: the share of the light that a shadow takes, 0 to 1: a number, pair, `Learnable` or distribution.
        amount: shadow lies where the cloud is below this value, 0 to 1, likewise; it grows to its full darkness within a tenth.
        decay: as in `RandomPlasmaFog`.

    Identity at:
        darkness = 0, on images in [0, 1].

    Example:
        >>> dark = pellucid.RandomPlasmaShadow(0.5, 0.5, p=1.0)(torch.ones(1, 3, 8, 8))
        >>> float(dark.min()), float(dark.max())
        (0.5, 1.0)
    """

    darkness: Range = field(default=(0.2, 0.6), metadata=drawn(interval, low=0.0, high=1.0))
    amount: Range = field(default=(0.3, 0.6), metadata=drawn(interval, low=0.0, high=1.0))
    _: KW_ONLY
    decay: Range = field(default=(1.4, 2.0), metadata=_DECAY)
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    law: ClassVar[str] = "shadow"
    like: ClassVar[Names] = {"albumentations": "PlasmaShadow"}
