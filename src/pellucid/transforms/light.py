"""Light that falls unevenly: gradients, spots, shadows and flares.

Owns: RandomLinearIllumination, RandomCornerIllumination, RandomSpotIllumination, RandomShadow, RandomSunFlare.
Must not: draw clouds; `plasma.py` has light in the shape of clouds.
Read next: ``plasma.py``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from pellucid.random.distributions import Categorical
from pellucid.random.fields import Chance, Range, interval, symmetric
from pellucid.transforms.base import Names, drawn
from pellucid.transforms.noise import Grained
from pellucid.types import EndClip

__all__ = ["RandomCornerIllumination", "RandomLinearIllumination", "RandomShadow", "RandomSpotIllumination", "RandomSunFlare"]

_SHARE = drawn(interval, low=0.0, high=1.0)
_PLACE = drawn(interval, low=-1.0, high=2.0)


@dataclass(frozen=True)
class RandomLinearIllumination(Grained):
    """Let the light grow in one direction: times 1 - intensity at one end of the picture, 1 + intensity at the other.

    Args:
        intensity: -1 to 1: a number, pair, `Learnable` or distribution.
        degrees: of the direction, counter-clockwise from the x axis: a number d for (-d, d), a pair, or likewise; 45 and the like
            light a corner, as `RandomCornerIllumination` does by a number that is added.

    Identity at:
        intensity = 0, on images in [0, 1].
    Source:
        albumentations' Illumination with ``mode="linear"``; kornia's transform of this name adds instead.

    Example:
        >>> pellucid.RandomLinearIllumination(0.5, (0.0, 0.0), p=1.0)(torch.full((1, 1, 1, 4), 0.5)).flatten()
        tensor([0.3125, 0.4375, 0.5625, 0.6875])
    """

    intensity: Range = field(default=(-0.3, 0.3), metadata=drawn(interval, low=-1.0, high=1.0))
    degrees: Range = field(default=180.0, metadata=drawn(symmetric))
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "Illumination"}
    keyed: ClassVar[bool] = False
    law: ClassVar[str] = "slope"


@dataclass(frozen=True)
class RandomCornerIllumination(Grained):
    """Add light that is strongest in one corner of the picture, and nothing in the opposite one.

    Args:
        gain: the light that is added in that corner, 0 to 1: a number, pair, `Learnable` or distribution.
        sign: a factor of that light, -1 to 1, likewise; negative light darkens.
        x, y: the corner: 0 at the left and above, 1 at the right and below, likewise. Between two corners light is less uneven.

    Identity at:
        gain = 0, on images in [0, 1].
    Source:
        kornia's RandomLinearCornerIllumination, on images in [0, 1].

    Example:
        >>> pellucid.RandomCornerIllumination(0.25, sign=-1.0, x=0.0, y=1.0, p=1.0)(torch.full((1, 1, 3, 3), 0.5))[0, 0]
        tensor([[0.3750, 0.4375, 0.5000],
                [0.3125, 0.3750, 0.4375],
                [0.2500, 0.3125, 0.3750]])
    """

    gain: Range = field(default=(0.01, 0.2), metadata=_SHARE)
    _: KW_ONLY
    sign: Range = field(default=Categorical((-1.0, 1.0)), metadata=drawn(interval, low=-1.0, high=1.0))
    x: Range = field(default=Categorical((0.0, 1.0)), metadata=_SHARE)
    y: Range = field(default=Categorical((0.0, 1.0)), metadata=_SHARE)
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"kornia": "RandomLinearCornerIllumination"}
    keyed: ClassVar[bool] = False
    law: ClassVar[str] = "corner"


@dataclass(frozen=True)
class RandomSpotIllumination(Grained):
    """Brighten or darken about a place: times 1 + intensity there, falling off as a Gaussian.

    Args:
        intensity: -1 to 1: a number, pair, `Learnable` or distribution.
        x, y: of the place, in shares of the width and height, -1 to 2, likewise.
        sigma: of the Gaussian, as a share of the longer side, 0.05 to 4, likewise.

    Identity at:
        intensity = 0, on images in [0, 1].
    Source:
        albumentations' Illumination with ``mode="gaussian"``; kornia's RandomGaussianIllumination adds instead.

    Example:
        >>> lit = pellucid.RandomSpotIllumination(1.0, x=0.5, y=0.5, sigma=0.2, p=1.0)(torch.full((1, 1, 5, 5), 0.25))
        >>> float(lit[0, 0, 2, 2])
        0.5
    """

    intensity: Range = field(default=(-0.4, 0.4), metadata=drawn(interval, low=-1.0, high=1.0))
    _: KW_ONLY
    x: Range = field(default=(0.1, 0.9), metadata=_PLACE)
    y: Range = field(default=(0.1, 0.9), metadata=_PLACE)
    sigma: Range = field(default=(0.2, 1.0), metadata=drawn(interval, low=0.05, high=4.0))
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"kornia": "RandomGaussianIllumination"}
    keyed: ClassVar[bool] = False
    law: ClassVar[str] = "spot"


@dataclass(frozen=True)
class RandomShadow(Grained):
    """Lay the shadow of a post on the picture: a slanted band, whose edges are about two pixels soft.

    Args:
        darkness: the share of the light that it takes, 0 to 1: a number, pair, `Learnable` or distribution.
        x: where its middle crosses the middle row, in shares of the width, -1 to 2, likewise.
        width: of the band, as a share of the picture's, 0 to 1, likewise.
        degrees: from the vertical, counter-clockwise: a number d for (-d, d), a pair, or likewise.

    `RandomPlasmaShadow` has shadows of any shape.

    Identity at:
        darkness = 0.
    Source:
        Its formula; albumentations' transform of this name has polygons with hard edges.

    Example:
        >>> dark = pellucid.RandomShadow(0.5, x=0.5, width=0.5, degrees=0.0, p=1.0)(torch.ones(1, 1, 1, 32))
        >>> round(float(dark[0, 0, 0, 16]), 3), round(float(dark[0, 0, 0, 0]), 3)
        (0.5, 1.0)
    """

    darkness: Range = field(default=(0.2, 0.6), metadata=_SHARE)
    _: KW_ONLY
    x: Range = field(default=(0.0, 1.0), metadata=_PLACE)
    width: Range = field(default=(0.1, 0.5), metadata=_SHARE)
    degrees: Range = field(default=60.0, metadata=drawn(symmetric))
    p: Chance = 0.5
    same_on_batch: bool = False

    keyed: ClassVar[bool] = False
    white: ClassVar[bool] = True
    law: ClassVar[str] = "band"


@dataclass(frozen=True)
class RandomSunFlare(Grained):
    """Let the sun shine into the lens: a white glow, and its reflections on the line through the picture's middle.

    Args:
        strength: 0 to 1: a number, pair, `Learnable` or distribution; 1 is white where the sun is.
        x, y: of the sun, in shares of the width and height, -1 to 2, likewise.
        radius: of the glow (its standard deviation), as a share of the longer side, 0.01 to 1, likewise.

    Identity at:
        strength = 0.
    Source:
        Its formula; albumentations' transform of this name draws circles of many colours.

    Example:
        >>> bright = pellucid.RandomSunFlare(0.5, x=0.25, y=0.5, radius=0.1, p=1.0)(torch.zeros(1, 1, 4, 4))
        >>> bool((bright >= 0).all()), bool((bright <= 1).all())
        (True, True)
    """

    strength: Range = field(default=(0.4, 0.9), metadata=_SHARE)
    _: KW_ONLY
    x: Range = field(default=(0.0, 1.0), metadata=_PLACE)
    y: Range = field(default=(0.0, 0.5), metadata=_PLACE)
    radius: Range = field(default=(0.05, 0.2), metadata=drawn(interval, low=0.01, high=1.0))
    p: Chance = 0.5
    same_on_batch: bool = False

    keyed: ClassVar[bool] = False
    white: ClassVar[bool] = True
    law: ClassVar[str] = "flare"
