"""Transforms: frozen values that say what may happen to an image.

Owns: every transform, and the table of them by name.
Must not: draw, execute, or know which implementation runs.
Read next: ``base.py``.
"""

from pellucid.transforms.affine import RandomAffine, RandomRotation, RandomScale, RandomShear, RandomTranslate
from pellucid.transforms.base import Transform
from pellucid.transforms.blur import RandomEmboss, RandomGaussianBlur, RandomSharpness, RandomUnsharpMask
from pellucid.transforms.channels import ChannelDropout, PlanckianJitter, RandomBrightnessContrast, RandomSepia, RGBShift
from pellucid.transforms.choices import Apply, OneOf, Shuffle, SomeOf
from pellucid.transforms.codec import RandomJPEG
from pellucid.transforms.collage import GridShuffle, Mosaic, RandomZoomBlur
from pellucid.transforms.color import Denormalize, Normalize, RandomChannelShuffle, RandomGrayscale, RandomInvert
from pellucid.transforms.crop import CenterCrop, RandomCrop, RandomIoUCrop, RandomResizedCrop
from pellucid.transforms.discrete import RandomAutoContrast, RandomCLAHE, RandomEqualize, RandomPosterize, RandomSolarize
from pellucid.transforms.elastic import RandomElastic
from pellucid.transforms.filters import RandomBoxBlur, RandomDefocusBlur, RandomMedianBlur, RandomMotionBlur
from pellucid.transforms.flip import RandomHorizontalFlip, RandomRotation90, RandomVerticalFlip
from pellucid.transforms.function import Lambda
from pellucid.transforms.grid import GridDistortion
from pellucid.transforms.holes import CoarseDropout, GridDropout, RandomErasing
from pellucid.transforms.hsv import HueSaturationValue
from pellucid.transforms.jitter import (
    ColorJitter,
    RandomBrightness,
    RandomContrast,
    RandomHue,
    RandomPhotometricDistort,
    RandomSaturation,
)
from pellucid.transforms.lens import LensDistortion, RandomFisheye, RollingShutter
from pellucid.transforms.lie import RandomLieAffine
from pellucid.transforms.mix import CutMix, MixUp
from pellucid.transforms.mixture import Mixture
from pellucid.transforms.noise import PoissonGaussianNoise, RandomGaussianNoise, SaltAndPepper, ShotNoise
from pellucid.transforms.paste import CopyPaste
from pellucid.transforms.perspective import RandomPerspective
from pellucid.transforms.plasma import RandomPlasmaBrightness, RandomPlasmaFog, RandomPlasmaShadow
from pellucid.transforms.resize import Letterbox, LongestMaxSize, Pad, PadIfNeeded, Resize
from pellucid.transforms.tone import RandomGamma
from pellucid.transforms.waves import RandomThinPlateSpline, RandomWave
from pellucid.transforms.weather import RandomRain, RandomSnow
from pellucid.transforms.zoom import RandomZoomOut, ScaleJitter

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
    "RandomPlasmaBrightness",
    "RandomPlasmaFog",
    "RandomPlasmaShadow",
    "RandomElastic",
    "RandomThinPlateSpline",
    "RandomWave",
    "GridDistortion",
    "LensDistortion",
    "RandomFisheye",
    "RollingShutter",
    "RandomCrop",
    "RandomResizedCrop",
    "RandomIoUCrop",
    "CenterCrop",
    "Resize",
    "LongestMaxSize",
    "Pad",
    "PadIfNeeded",
    "Letterbox",
    "RandomZoomOut",
    "ScaleJitter",
    "ColorJitter",
    "RandomBrightness",
    "RandomContrast",
    "RandomSaturation",
    "RandomHue",
    "RandomPhotometricDistort",
    "RandomBrightnessContrast",
    "HueSaturationValue",
    "RGBShift",
    "PlanckianJitter",
    "ChannelDropout",
    "RandomGrayscale",
    "RandomSepia",
    "RandomInvert",
    "RandomGamma",
    "RandomPosterize",
    "RandomSolarize",
    "RandomEqualize",
    "RandomCLAHE",
    "RandomAutoContrast",
    "RandomChannelShuffle",
    "RandomGaussianBlur",
    "RandomBoxBlur",
    "RandomMotionBlur",
    "RandomDefocusBlur",
    "RandomZoomBlur",
    "RandomMedianBlur",
    "RandomSharpness",
    "RandomUnsharpMask",
    "RandomEmboss",
    "RandomGaussianNoise",
    "PoissonGaussianNoise",
    "ShotNoise",
    "SaltAndPepper",
    "RandomRain",
    "RandomSnow",
    "RandomErasing",
    "CoarseDropout",
    "GridDropout",
    "RandomJPEG",
    "MixUp",
    "CutMix",
    "Mosaic",
    "CopyPaste",
    "GridShuffle",
    "Normalize",
    "Denormalize",
    "OneOf",
    "SomeOf",
    "Shuffle",
    "Apply",
    "Mixture",
    "Lambda",
]

ALL: tuple[type[Transform], ...] = tuple(globals()[name] for name in __all__ if name != "Lambda")
"""Every transform there is and that a file can name; serialisation, tests and documentation read this."""
