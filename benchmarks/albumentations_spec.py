"""Pellucid's spec file for albumentations' own benchmark (https://github.com/albumentations-team/benchmark).

Its micro benchmark calls one transform on one decoded picture (H, W, C) of bytes at a time, on one thread. A library plugs in by
such a file: ``LIBRARY``, ``__call__`` and ``TRANSFORMS``, a list of names and transforms. There, put ``"pellucid": read_img_cv2``
into the loaders of ``benchmark/utils.py`` and run

    python -m benchmark.pyperf_micro_runner --specs-file albumentations_spec.py --data-dir IMAGES --json-output rates.json

Here, ``pellucid bench albumentations`` runs the same rows beside the peers that are installed.

Owns: which of our transforms, with which options, is the row of a name.
Must not: import anything of that benchmark, or of the other benchmarks here.
Read next: ``pellucid_bench/their_rows.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import pellucid as P

__all__ = ["LIBRARY", "TRANSFORMS"]

torch.set_num_threads(1)

LIBRARY = "pellucid"


def __call__(transform: Any, image: Any) -> Any:  # noqa: N807 - the name that the benchmark looks for
    """A transform of one picture, an array (H, W, C), to an array that lies in order."""
    return np.ascontiguousarray(transform(image))


_ROWS: dict[str, P.Transform] = {
    "AdvancedBlur": P.RandomAnisotropicBlur(p=1),
    "Affine": P.RandomAffine(
        (25.0, 25.0), translate=((0.04, 0.04), (0.053, 0.053)), scale=(2.0, 2.0), shear=(10.0, 10.0, 15.0, 15.0)
    ),
    "AutoContrast": P.RandomAutoContrast(p=1),
    "Blur": P.RandomBoxBlur((5.0, 5.0), p=1),
    "Brightness": P.RandomBrightnessContrast(0.2, 0.0, p=1),
    "CLAHE": P.RandomCLAHE((1.0, 4.0), p=1),
    "CenterCrop128": P.CenterCrop(128),
    "ChannelDropout": P.ChannelDropout(p=1),
    "ChannelShuffle": P.RandomChannelShuffle(p=1),
    "CoarseDropout": P.CoarseDropout(4, height=(0.1, 0.1), width=(0.1, 0.1), p=1),
    "ColorJitter": P.ColorJitter(0.5, (0.0, 2.5), saturation=(0.0, 2.5), hue=0.5),
    "Contrast": P.RandomBrightnessContrast(0.0, 0.2, p=1),
    "CornerIllumination": P.RandomCornerIllumination((0.01, 0.2), p=1),
    "Defocus": P.RandomDefocusBlur((3.0, 10.0), p=1),
    "Downscale": P.RandomDownscale((0.25, 0.5), p=1),
    "Elastic": P.RandomElastic.from_alpha_sigma(50.0, 5.0, allow_folding=True),
    "Emboss": P.RandomEmboss(p=1),
    "Equalize": P.RandomEqualize(p=1),
    "Erasing": P.RandomErasing(scale=(0.02, 0.33), p=1),
    "FancyPCA": P.FancyPCA(0.1, p=1),
    "GaussianBlur": P.RandomGaussianBlur(5, sigma=(2.0, 2.0), p=1),
    "GaussianIllumination": P.RandomSpotIllumination((-0.2, 0.2), p=1),
    "GaussianNoise": P.RandomGaussianNoise(sigma=0.44),
    "GlassBlur": P.RandomGlassBlur(p=1),
    "Grayscale": P.RandomGrayscale(p=1),
    "GridDistortion": P.GridDistortion(p=1),
    "GridDropout": P.GridDropout(p=1),
    "HSV": P.HueSaturationValue(hue=(-0.015, 0.015), saturation=(-0.7, 0.7), value=(-0.4, 0.4), p=1),
    "HorizontalFlip": P.RandomHorizontalFlip(p=1),
    "Hue": P.RandomHue(20 / 180, p=1),
    "ISONoise": P.ISONoise(p=1),
    "Invert": P.RandomInvert(p=1),
    "JpegCompression": P.RandomJPEG((50, 50), p=1),
    "LinearIllumination": P.RandomLinearIllumination((-0.2, 0.2), (90.0, 90.0), p=1),
    "LongestMaxSize": P.LongestMaxSize(512, antialias=False),
    "MedianBlur": P.RandomMedianBlur(5, p=1),
    "MotionBlur": P.RandomMotionBlur((5.0, 5.0), degrees=180.0, p=1),
    "MultiplicativeNoise": P.MultiplicativeNoise(p=1),
    "Normalize": P.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "OpticalDistortion": P.LensDistortion(p=1),
    "Pad": P.Pad(10),
    "PadIfNeeded": P.PadIfNeeded((1024, 1024)),
    "Perspective": P.RandomPerspective(0.2, p=1),
    "PixelDropout": P.SaltAndPepper((0.01, 0.01), salt=0.0, p=1),
    "PlankianJitter": P.PlanckianJitter(p=1),
    "PlasmaBrightness": P.RandomPlasmaBrightness(p=1),
    "PlasmaContrast": P.RandomPlasmaContrast(p=1),
    "PlasmaShadow": P.RandomPlasmaShadow(p=1),
    "Posterize": P.RandomPosterize(4, p=1),
    "RGBShift": P.RGBShift(red=100 / 255, green=100 / 255, blue=100 / 255, p=1),
    "Rain": P.RandomRain(p=1),
    "RandomCrop128": P.RandomCrop(128, pad_if_needed=True),
    "RandomFog": P.RandomPlasmaFog(p=1),
    "RandomGamma": P.RandomGamma((1.2, 1.2), p=1),
    "RandomGridShuffle": P.GridShuffle((3, 3), p=1),
    "RandomResizedCrop": P.RandomResizedCrop(512, antialias=False),
    "RandomRotate90": P.RandomRotation90(p=1),
    "RandomScale": P.RandomRescale(antialias=False, p=1),
    "RandomShadow": P.RandomShadow(p=1),
    "RandomSunFlare": P.RandomSunFlare(p=1),
    "RandomToneCurve": P.RandomToneCurve(p=1),
    "Resize": P.Resize((512, 512), antialias=False),
    "Rotate": P.RandomRotation(45, interpolation="nearest"),
    "SafeRotate": P.RandomSafeRotation(45, p=1),
    "SaltAndPepper": P.SaltAndPepper((0.01, 0.06), p=1),
    "Saturation": P.HueSaturationValue(hue=(0.0, 0.0), saturation=(-0.5, 0.5), value=(0.0, 0.0), p=1),
    "Sharpen": P.RandomSharpness((0.2, 0.5), p=1),
    "Shear": P.RandomShear(10.0),
    "ShiftScaleRotate": P.RandomAffine(45, translate=(0.06, 0.06), scale=(0.9, 1.1)),
    "ShotNoise": P.ShotNoise(p=1),
    "SmallestMaxSize": P.Resize(512, antialias=False),
    "Snow": P.RandomSnow(p=1),
    "Solarize": P.RandomSolarize(0.5, p=1),
    "SquareSymmetry": P.RandomD4(),
    "ThinPlateSpline": P.RandomThinPlateSpline(p=1),
    "ToSepia": P.RandomSepia(p=1),
    "Transpose": P.RandomD4((5,)),
    "UnsharpMask": P.RandomUnsharpMask(p=1),
    "VerticalFlip": P.RandomVerticalFlip(p=1),
    "ZoomBlur": P.RandomZoomBlur(p=1),
}

TRANSFORMS = [{"name": name, "transform": P.Pipeline([transform], out="same", seed=0)} for name, transform in _ROWS.items()]
