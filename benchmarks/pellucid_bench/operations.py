"""Single operations as each library spells them: what ``pellucid bench every`` times.

Owns: the table, in which one row does the same work in every column.
Must not: import a peer; each column is a function of the peer's module.
Read next: ``every.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pellucid as P

__all__ = ["OPERATIONS", "Operation"]

Column: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True)
class Operation:
    """One row.

    Args:
        ours: our transform.
        albumentations: its transform, from the module ``albumentations``; None where it has none.
        torchvision: its transform, from ``torchvision.transforms.v2``.
        kornia: its module, from ``kornia.augmentation``.
        view: peers that hand back a view of the picture, without a copy: timed, and not counted.
        image_gradient: whether the operation has a gradient to the image that peers have, too.
    """

    ours: P.Transform
    albumentations: Column | None = None
    torchvision: Column | None = None
    kornia: Column | None = None
    view: tuple[str, ...] = ()
    image_gradient: bool = True


_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

OPERATIONS: dict[str, Operation] = {
    "horizontal flip": Operation(
        P.RandomHorizontalFlip(p=1),
        lambda A: A.HorizontalFlip(p=1),
        lambda T: T.RandomHorizontalFlip(p=1),
        lambda K: K.RandomHorizontalFlip(p=1),
    ),
    "vertical flip": Operation(
        P.RandomVerticalFlip(p=1),
        lambda A: A.VerticalFlip(p=1),
        lambda T: T.RandomVerticalFlip(p=1),
        lambda K: K.RandomVerticalFlip(p=1),
        view=("albumentations",),
    ),
    "quarter turns": Operation(
        P.RandomRotation90(times=(1,)), lambda A: A.RandomRotate90(p=1), None, lambda K: K.RandomRotation90((1, 1), p=1)
    ),
    "symmetries of a square": Operation(P.RandomD4(), lambda A: A.D4(p=1)),
    "crop 128": Operation(
        P.RandomCrop(128, pad_if_needed=True),
        lambda A: A.RandomCrop(128, 128, pad_if_needed=True, p=1),
        lambda T: T.RandomCrop(128, pad_if_needed=True),
        lambda K: K.RandomCrop((128, 128), pad_if_needed=True, p=1),
        view=("albumentations", "torchvision"),
    ),
    "centre crop 24": Operation(
        P.CenterCrop(24),
        lambda A: A.CenterCrop(24, 24, p=1),
        lambda T: T.CenterCrop(24),
        lambda K: K.CenterCrop(24, p=1),
        view=("albumentations", "torchvision"),
    ),
    "crop 24 at a place": Operation(
        P.Crop(24, top=4, left=2), lambda A: A.Crop(x_min=2, y_min=4, x_max=26, y_max=28, p=1), view=("albumentations",)
    ),
    "pad 10": Operation(P.Pad(10), lambda A: A.Pad(10, p=1), lambda T: T.Pad(10)),
    "resize 160, antialiased": Operation(P.Resize((160, 160)), None, lambda T: T.Resize((160, 160), antialias=True), None),
    "resize 160": Operation(
        P.Resize((160, 160), antialias=False),
        lambda A: A.Resize(160, 160, p=1),
        lambda T: T.Resize((160, 160), antialias=False),
        lambda K: K.Resize((160, 160), p=1),
    ),
    "longest side 160": Operation(P.LongestMaxSize(160, antialias=False), lambda A: A.LongestMaxSize(160, p=1)),
    "resized crop 160": Operation(
        P.RandomResizedCrop(160, antialias=False),
        lambda A: A.RandomResizedCrop((160, 160), p=1),
        lambda T: T.RandomResizedCrop(160, antialias=False),
        lambda K: K.RandomResizedCrop((160, 160), p=1),
    ),
    "rotation": Operation(
        P.RandomRotation(45),
        lambda A: A.Rotate(45, p=1),
        lambda T: T.RandomRotation(45, interpolation=T.InterpolationMode.BILINEAR),
        lambda K: K.RandomRotation(45.0, p=1),
    ),
    "safe rotation": Operation(P.RandomSafeRotation(45), lambda A: A.SafeRotate(45, p=1)),
    "affine": Operation(
        P.RandomAffine(20, translate=(0.1, 0.1), scale=(0.8, 1.2), shear=10),
        lambda A: A.Affine(rotate=(-20, 20), translate_percent=(-0.1, 0.1), scale=(0.8, 1.2), shear=(-10, 10), p=1),
        lambda T: T.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10, interpolation=T.InterpolationMode.BILINEAR),
        lambda K: K.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10, p=1),
    ),
    "perspective": Operation(
        P.RandomPerspective(0.5),
        lambda A: A.Perspective((0.05, 0.1), p=1),
        lambda T: T.RandomPerspective(0.5, p=1),
        lambda K: K.RandomPerspective(0.5, p=1),
    ),
    "elastic": Operation(
        P.RandomElastic(),
        lambda A: A.ElasticTransform(50, 5, p=1),
        lambda T: T.ElasticTransform(),
        lambda K: K.RandomElasticTransform(p=1),
    ),
    "grid distortion": Operation(P.GridDistortion(), lambda A: A.GridDistortion(p=1)),
    "lens distortion": Operation(P.LensDistortion(), lambda A: A.OpticalDistortion(p=1)),
    "thin-plate spline": Operation(
        P.RandomThinPlateSpline(), lambda A: A.ThinPlateSpline(p=1), None, lambda K: K.RandomThinPlateSpline(p=1)
    ),
    "brightness": Operation(
        P.RandomBrightness((0.7, 1.3)),
        lambda A: A.RandomBrightnessContrast((-0.3, 0.3), (0, 0), p=1),
        lambda T: T.ColorJitter(brightness=0.3),
        lambda K: K.RandomBrightness((0.7, 1.3), p=1),
    ),
    "contrast": Operation(
        P.RandomContrast((0.7, 1.3)),
        lambda A: A.RandomBrightnessContrast((0, 0), (-0.3, 0.3), p=1),
        lambda T: T.ColorJitter(contrast=0.3),
        lambda K: K.RandomContrast((0.7, 1.3), p=1),
    ),
    "saturation": Operation(
        P.RandomSaturation((0.7, 1.3)), None, lambda T: T.ColorJitter(saturation=0.3), lambda K: K.RandomSaturation((0.7, 1.3), p=1)
    ),
    "hue": Operation(
        P.RandomHue(0.05),
        lambda A: A.HueSaturationValue(10, 0, 0, p=1),
        lambda T: T.ColorJitter(hue=0.05),
        lambda K: K.RandomHue((-0.05, 0.05), p=1),
    ),
    "hue, saturation, value": Operation(P.HueSaturationValue(), lambda A: A.HueSaturationValue(p=1)),
    "colour jitter": Operation(
        P.ColorJitter(0.3, 0.3, saturation=0.3, hue=0.1),
        lambda A: A.ColorJitter((0.7, 1.3), (0.7, 1.3), (0.7, 1.3), (-0.1, 0.1), p=1),
        lambda T: T.ColorJitter(0.3, 0.3, 0.3, 0.1),
        lambda K: K.ColorJitter(0.3, 0.3, 0.3, 0.1, p=1),
    ),
    "RGB shift": Operation(P.RGBShift(), lambda A: A.RGBShift(p=1), None, lambda K: K.RandomRGBShift(p=1)),
    "Planck": Operation(P.PlanckianJitter(), lambda A: A.PlanckianJitter(p=1), None, lambda K: K.RandomPlanckianJitter(p=1)),
    "gray": Operation(
        P.RandomGrayscale(p=1),
        lambda A: A.ToGray(p=1),
        lambda T: T.Grayscale(3),
        lambda K: K.RandomGrayscale(p=1),
        view=("torchvision",),
    ),
    "sepia": Operation(P.RandomSepia(p=1), lambda A: A.ToSepia(p=1)),
    "invert": Operation(
        P.RandomInvert(p=1), lambda A: A.InvertImg(p=1), lambda T: T.RandomInvert(p=1), lambda K: K.RandomInvert(p=1)
    ),
    "posterize": Operation(
        P.RandomPosterize(4, p=1),
        lambda A: A.Posterize(4, p=1),
        lambda T: T.RandomPosterize(4, p=1),
        lambda K: K.RandomPosterize(4, p=1),
        image_gradient=False,
    ),
    "solarize": Operation(
        P.RandomSolarize(0.5, p=1),
        lambda A: A.Solarize((0.5, 0.5), p=1),
        lambda T: T.RandomSolarize(128, p=1),
        lambda K: K.RandomSolarize((0.5, 0.5), (0.0, 0.0), p=1),
    ),
    "gamma": Operation(
        P.RandomGamma((0.7, 1.5)), lambda A: A.RandomGamma((70, 150), p=1), None, lambda K: K.RandomGamma((0.7, 1.5), p=1)
    ),
    "tone curve": Operation(P.RandomToneCurve(), lambda A: A.RandomToneCurve(p=1)),
    "autocontrast": Operation(
        P.RandomAutoContrast(p=1),
        lambda A: A.AutoContrast(p=1),
        lambda T: T.RandomAutocontrast(p=1),
        lambda K: K.RandomAutoContrast(p=1),
    ),
    "equalize": Operation(
        P.RandomEqualize(p=1),
        lambda A: A.Equalize(p=1),
        lambda T: T.RandomEqualize(p=1),
        lambda K: K.RandomEqualize(p=1),
        image_gradient=False,
    ),
    "CLAHE": Operation(
        P.RandomCLAHE(p=1), lambda A: A.CLAHE((1, 4), p=1), None, lambda K: K.RandomClahe(p=1), image_gradient=False
    ),
    "channel shuffle": Operation(
        P.RandomChannelShuffle(p=1),
        lambda A: A.ChannelShuffle(p=1),
        lambda T: T.RandomChannelPermutation(),
        lambda K: K.RandomChannelShuffle(p=1),
    ),
    "channel dropout": Operation(
        P.ChannelDropout(), lambda A: A.ChannelDropout((1, 1), p=1), None, lambda K: K.RandomChannelDropout(p=1)
    ),
    "fancy PCA": Operation(P.FancyPCA(), lambda A: A.FancyPCA(p=1)),
    "normalize": Operation(
        P.Normalize(_MEAN, _STD), lambda A: A.Normalize(_MEAN, _STD, p=1), None, lambda K: K.Normalize(_MEAN, _STD, p=1)
    ),
    "Gaussian blur": Operation(
        P.RandomGaussianBlur(5, (1.0, 1.0)),
        lambda A: A.GaussianBlur((5, 5), (1.0, 1.0), p=1),
        lambda T: T.GaussianBlur(5, (1.0, 1.0)),
        lambda K: K.RandomGaussianBlur((5, 5), (1.0, 1.0), p=1),
    ),
    "box blur": Operation(P.RandomBoxBlur((5.0, 5.0)), lambda A: A.Blur((5, 5), p=1), None, lambda K: K.RandomBoxBlur((5, 5), p=1)),
    "median blur": Operation(
        P.RandomMedianBlur(5), lambda A: A.MedianBlur((5, 5), p=1), None, lambda K: K.RandomMedianBlur((5, 5), p=1)
    ),
    "motion blur": Operation(
        P.RandomMotionBlur((7.0, 7.0)), lambda A: A.MotionBlur((7, 7), p=1), None, lambda K: K.RandomMotionBlur(7, 90.0, 0.0, p=1)
    ),
    "defocus": Operation(P.RandomDefocusBlur((3.0, 3.0)), lambda A: A.Defocus((3, 3), p=1)),
    "zoom blur": Operation(P.RandomZoomBlur(), lambda A: A.ZoomBlur((1.02, 1.2), (0.02, 0.02), p=1)),
    "glass blur": Operation(P.RandomGlassBlur(), lambda A: A.GlassBlur(p=1)),
    "anisotropic blur": Operation(P.RandomAnisotropicBlur(), lambda A: A.AdvancedBlur(p=1)),
    "sharpen": Operation(
        P.RandomSharpness(0.5, p=1),
        lambda A: A.Sharpen(p=1),
        lambda T: T.RandomAdjustSharpness(1.5, p=1),
        lambda K: K.RandomSharpness(0.5, p=1),
    ),
    "unsharp mask": Operation(P.RandomUnsharpMask(), lambda A: A.UnsharpMask((3, 7), threshold=0, p=1)),
    "emboss": Operation(P.RandomEmboss(), lambda A: A.Emboss(p=1)),
    "downscale": Operation(P.RandomDownscale(), lambda A: A.Downscale((0.25, 0.5), p=1), image_gradient=False),
    "Gaussian noise": Operation(
        P.RandomGaussianNoise(sigma=0.1),
        lambda A: A.GaussNoise((0.1, 0.1), p=1),
        lambda T: T.GaussianNoise(0.0, 0.1),
        lambda K: K.RandomGaussianNoise(0.0, 0.1, p=1),
    ),
    "shot noise": Operation(P.ShotNoise(), lambda A: A.ShotNoise(p=1), image_gradient=False),
    "ISO noise": Operation(P.ISONoise(), lambda A: A.ISONoise(p=1)),
    "multiplicative noise": Operation(
        P.MultiplicativeNoise(), lambda A: A.MultiplicativeNoise(per_channel=True, elementwise=True, p=1)
    ),
    "salt and pepper": Operation(
        P.SaltAndPepper(), lambda A: A.SaltAndPepper(p=1), None, lambda K: K.RandomSaltAndPepperNoise(p=1)
    ),
    "rain": Operation(P.RandomRain(), lambda A: A.RandomRain(p=1), None, lambda K: K.RandomRain(p=1), image_gradient=False),
    "snow": Operation(P.RandomSnow(), lambda A: A.RandomSnow(p=1), None, lambda K: K.RandomSnow(p=1)),
    "plasma brightness": Operation(
        P.RandomPlasmaBrightness(), lambda A: A.PlasmaBrightnessContrast(p=1), None, lambda K: K.RandomPlasmaBrightness(p=1)
    ),
    "plasma contrast": Operation(P.RandomPlasmaContrast(), None, None, lambda K: K.RandomPlasmaContrast(p=1)),
    "plasma shadow": Operation(P.RandomPlasmaShadow(), lambda A: A.PlasmaShadow(p=1), None, lambda K: K.RandomPlasmaShadow(p=1)),
    "illumination": Operation(
        P.RandomLinearIllumination(), lambda A: A.Illumination("linear", p=1), None, lambda K: K.RandomLinearIllumination(p=1)
    ),
    "corner": Operation(
        P.RandomCornerIllumination(), lambda A: A.Illumination("corner", p=1), None, lambda K: K.RandomLinearCornerIllumination(p=1)
    ),
    "spot": Operation(
        P.RandomSpotIllumination(), lambda A: A.Illumination("gaussian", p=1), None, lambda K: K.RandomGaussianIllumination(p=1)
    ),
    "shadow": Operation(P.RandomShadow(), lambda A: A.RandomShadow(p=1)),
    "sun flare": Operation(P.RandomSunFlare(), lambda A: A.RandomSunFlare(p=1)),
    "coarse dropout": Operation(P.CoarseDropout(), lambda A: A.CoarseDropout((1, 4), (0.1, 0.25), (0.1, 0.25), p=1)),
    "grid dropout": Operation(P.GridDropout(), lambda A: A.GridDropout(p=1)),
    "erasing": Operation(
        P.RandomErasing(p=1), lambda A: A.Erasing(p=1), lambda T: T.RandomErasing(p=1), lambda K: K.RandomErasing(p=1)
    ),
    "grid shuffle": Operation(
        P.GridShuffle((4, 4)), lambda A: A.RandomGridShuffle((4, 4), p=1), None, lambda K: K.RandomJigsaw((4, 4), p=1)
    ),
    "JPEG": Operation(
        P.RandomJPEG((80, 80)),
        lambda A: A.ImageCompression(quality_range=(80, 80), p=1),
        lambda T: T.JPEG((80, 80)),
        lambda K: K.RandomJPEG((80.0, 80.0), p=1),
        image_gradient=False,
    ),
}
"""The rows, by name. Options are equal where peers can be given equal ones; ranges are the defaults elsewhere."""
