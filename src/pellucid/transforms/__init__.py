"""Transforms: frozen values that say what may happen to an image.

Owns: every transform, and the table of them by name.
Must not: draw, execute, or know which implementation runs.
Read next: ``base.py``.
"""

from pellucid.transforms.affine import RandomAffine, RandomRotation, RandomScale, RandomShear, RandomTranslate
from pellucid.transforms.base import Transform
from pellucid.transforms.blur import RandomGaussianBlur, RandomSharpness
from pellucid.transforms.choices import Apply, OneOf, Shuffle, SomeOf
from pellucid.transforms.codec import RandomJPEG
from pellucid.transforms.color import Denormalize, Normalize, RandomChannelShuffle, RandomGrayscale, RandomInvert
from pellucid.transforms.crop import CenterCrop, RandomCrop, RandomResizedCrop
from pellucid.transforms.discrete import RandomAutoContrast, RandomEqualize, RandomPosterize, RandomSolarize
from pellucid.transforms.flip import RandomHorizontalFlip, RandomRotation90, RandomVerticalFlip
from pellucid.transforms.jitter import ColorJitter, RandomBrightness, RandomContrast, RandomHue, RandomSaturation
from pellucid.transforms.lie import RandomLieAffine
from pellucid.transforms.noise import RandomErasing, RandomGaussianNoise
from pellucid.transforms.perspective import RandomPerspective
from pellucid.transforms.resize import Letterbox, Pad, Resize
from pellucid.transforms.tone import RandomGamma

__all__ = [  # noqa: RUF022 - the order of the documentation: geometry, then colour, then the rest, then choices
    "RandomHorizontalFlip",
    "RandomVerticalFlip",
    "RandomRotation90",
    "RandomAffine",
    "RandomRotation",
    "RandomTranslate",
    "RandomShear",
    "RandomScale",
    "RandomLieAffine",
    "RandomPerspective",
    "RandomCrop",
    "RandomResizedCrop",
    "CenterCrop",
    "Resize",
    "Pad",
    "Letterbox",
    "ColorJitter",
    "RandomBrightness",
    "RandomContrast",
    "RandomSaturation",
    "RandomHue",
    "RandomGrayscale",
    "RandomInvert",
    "RandomGamma",
    "RandomPosterize",
    "RandomSolarize",
    "RandomEqualize",
    "RandomAutoContrast",
    "RandomChannelShuffle",
    "RandomGaussianBlur",
    "RandomSharpness",
    "RandomGaussianNoise",
    "RandomErasing",
    "RandomJPEG",
    "Normalize",
    "Denormalize",
    "OneOf",
    "SomeOf",
    "Shuffle",
    "Apply",
]

ALL: tuple[type[Transform], ...] = tuple(globals()[name] for name in __all__)
"""Every transform there is; serialisation, tests and documentation read this."""
