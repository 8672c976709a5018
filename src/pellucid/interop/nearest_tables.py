"""Substitutes for torchvision's and kornia's transforms that have no equal here.

Owns: their tables, and the reasons why some transforms have no substitute.
Must not: import either library.
Read next: ``nearest.py``.
"""

from __future__ import annotations

from typing import Any

from pellucid import transforms
from pellucid.core.arguments import is_number
from pellucid.interop.nearest import Near, around, asis, clamped, elastic_of, made, near, rounded, scaled, up_to, why
from pellucid.interop.reading import Given, Made, Reader, Table, gated

__all__ = ["KORNIA", "KORNIA_NEAREST", "TORCHVISION", "TORCHVISION_NEAREST"]

ours: Any = transforms  # untyped: options are known only at run time


def _fill(fill: Any) -> Any:
    """Return the fill of pictures."""
    if isinstance(fill, dict):
        named = {str(getattr(key, "__name__", key)): value for key, value in fill.items()}
        fill = next((named[kind] for kind in ("Image", "Tensor", "others") if kind in named), 0)
    return tuple(fill) if isinstance(fill, list) else fill if isinstance(fill, tuple) or is_number(fill) else 0.0


def _iou_crop(given: Given, reader: Reader, where: str) -> Made:
    scale = (given("min_scale", 0.3), min(given("max_scale", 1.0), 1.0))
    ratio = (given("min_aspect_ratio", 0.5), given("max_aspect_ratio", 2.0))
    size = reader.size or reader.later or reader.pixels(given, "size")
    given.idle("how often it tries", "trials")
    options = given("sampler_options") or (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
    return ours.RandomIoUCrop(size, scale, ratio=ratio, options=options)


def _scale_jitter(given: Given, reader: Reader, where: str) -> Made:
    size, scale = given("target_size"), given("scale_range", (0.1, 2.0))
    reader.ends(where, size)
    return ours.ScaleJitter(size, scale)


def _shortest(given: Given, reader: Reader, where: str) -> Made:
    sizes, longest = given("min_size"), given("max_size")
    if given.name == "RandomResize":
        sizes, longest = tuple(range(int(sizes), max(int(longest or sizes), int(sizes) + 1))), None
    sizes = (sizes,) if is_number(sizes) else tuple(sizes)
    return ours.RandomShortestSize(tuple(map(int, sizes)), longest, same_on_batch=not reader.follows(where))


def _fixed_crop(given: Given, reader: Reader, where: str) -> Made:
    size = given("size")
    size = (size, size) if is_number(size) else size
    reader.ends(where, size)
    return ours.RandomCrop(size, pad_if_needed=True, fill=_fill(given("fill", 0)))


def _normal_fields(given: Given, reader: Reader, where: str) -> Made:
    """Read RandomElasticTransform, whose displacements are fractions of half the picture's size."""
    sigma, alpha = (given(name, default) for name, default in (("sigma", (32.0, 32.0)), ("alpha", (1.0, 1.0))))
    height, width = reader.pixels(given, "alpha")
    pixels, wide = (min(height, width) / 2 * float(alpha[0]) if isinstance(alpha, tuple) else float(alpha)), float(sigma[0])
    return elastic_of(given, pixels, wide, "albumentations", p=given("p", 0.5))


def _resized(given: Given, reader: Reader, where: str) -> Made:
    size, side = given("size"), given("side", "short")
    reader.ends(where, size)
    if side not in ("short", "long"):
        given.near(f"side={side!r}", "the shorter or the longer side is given here", "side='short'")
    longer = side == "long" and is_number(size)
    return gated(ours.LongestMaxSize(size) if longer else ours.Resize(size), given("p", 1.0))


def _turns(times: Any) -> tuple[int, ...]:
    """Quarter turns of a range of whole numbers."""
    low, high = (times, times) if is_number(times) else times
    return tuple(sorted({turn % 4 for turn in range(round(low), round(high) + 1)}))


_DRAWN = "its size is random; a batch gets one, unless a resize follows"
_SIZE = "its size is random; a batch has one size"
_MIXED = "it also mixes labels; here, they have another key"

TORCHVISION: Table = {
    "RandomZoomOut": Near("its canvas grows; a batch has one size", "RandomZoomOut, which resizes the picture back", made(
        "RandomZoomOut", side=("side_range", (1.0, 4.0), asis), fill=("fill", 0, _fill))),
    "ScaleJitter": Near(_SIZE, "ScaleJitter, which also crops or pads to one size", _scale_jitter),
    "RandomIoUCrop": Near(_SIZE, "RandomIoUCrop, which also resizes to one size", _iou_crop),
    "RandomShortestSize": Near(_DRAWN, "RandomShortestSize", _shortest),
    "RandomResize": Near(_DRAWN, "RandomShortestSize", _shortest),
    "FixedSizeCrop": Near("it belongs to torchvision's reference scripts", "RandomCrop", _fixed_crop),
    "ConvertBoundingBoxFormat": Near("boxes keep their format here", "Pipeline(box_format=...)", lambda given, reader, where: None),
    "RGB": Near("pictures keep their channels here", "nothing", lambda given, reader, where: None),
    "MixUp": near(_MIXED, "MixUp", 1.0),
    "CutMix": near(_MIXED, "CutMix", 1.0),
}  # fmt: skip
TORCHVISION_NEAREST = why(TORCHVISION) | {
    "Lambda": ("a function of your own is not read", "a frozen dataclass, docs/own-transforms.md"),
    "FiveCrop": ("several pictures from one", "functional.five_crop"),
    "TenCrop": ("several pictures from one", "functional.ten_crop"),
}

_ANOTHER = "its corners have another distribution"

KORNIA: Table = {
    "ColorJiggle": near("it adds brightness, scales contrast about black, and saturation in HSV", "ColorJitter",
        1.0, None, **{name: (name, 0.0, asis) for name in ("brightness", "contrast", "saturation", "hue")}),
    "RandomSaturation": Near("it scales the saturation of HSV", "RandomSaturation, about the luma", made(
        "RandomSaturation", 1.0, saturation=("saturation", (1.0, 1.0), asis))),
    "RandomResizedCrop": near(f"{_ANOTHER}; under p < 1 the others keep their size", "RandomResizedCrop",
        1.0, size=("size", 256, asis), scale=("scale", (0.08, 1.0), asis), ratio=("ratio", (0.75, 4 / 3), asis)),
    "RandomPerspective": near(_ANOTHER, "RandomPerspective", distortion_scale=("distortion_scale", 0.5, clamped(0.0, 0.99))),
    "RandomErasing": near("its rectangles are whole pixels", "RandomErasing", 0.5, {"mask_fill": 0.0},  # on masks, too
        scale=("scale", (0.02, 0.33), asis), ratio=("ratio", (0.3, 3.3), asis), fill=("value", 0.0, asis)),
    "RandomSharpness": near("its factor has another range", "RandomSharpness", sharpness=("sharpness", 0.5, up_to(0.0))),
    "RandomElasticTransform": Near("its displacements are fractions of the picture's size", "RandomElastic", _normal_fields),
    "RandomThinPlateSpline": near("its targets do not follow its images", "RandomThinPlateSpline",
        magnitude=("scale", 0.2, scaled(0.5, 0.0, 0.15))),
    "RandomMotionBlur": near("its direction has no gradient, and its line has other ends", "RandomMotionBlur",
        length=("kernel_size", 5, lambda value: tuple(v - 1 for v in value) if isinstance(value, tuple) else value - 1),
        degrees=("angle", 35.0, around(0.0))),
    "Resize": Near("it aligns corners by default", "Resize", _resized),
    "RandomBoxBlur": near("its borders differ", "RandomBoxBlur",
        width=("kernel_size", (3, 3), lambda value: float(value if is_number(value) else value[0]))),
    "RandomJPEG": near("its codec differs: 37 to 47 dB from real files", "RandomJPEG",
        1.0, quality=("jpeg_quality", 50.0, rounded(1.0, 100.0))),
    "RandomMedianBlur": near("it pads with zeros", "RandomMedianBlur", kernel_size=("kernel_size", (3, 3), asis)),
    "RandomPosterize": near("it rounds levels differently", "RandomPosterize", bits=("bits", 3, rounded(0.0, 8.0))),
    "RandomClahe": near("it blends tiles differently", "RandomCLAHE",
        clip_limit=("clip_limit", (40.0, 40.0), up_to(1.0)), tiles=("grid_size", (8, 8), asis)),
    "RandomSaltAndPepperNoise": near("its grains cover all channels", "SaltAndPepper",
        amount=("amount", (0.01, 0.06), asis), salt=("salt_vs_pepper", 0.5, asis)),
    "RandomShear": near("its shear has another sign", "RandomShear", shear=("shear", 10.0, asis)),
    "RandomPlanckianJitter": near("its colours come from a table", "PlanckianJitter"),
    "RandomChannelDropout": near("its number of channels is fixed", "ChannelDropout", count=("num_drop_channels", 1, float)),
    "RandomFisheye": near("its lens has other parameters", "RandomFisheye"),
    "RandomRain": near("its drops are lines", "RandomRain"),
    "RandomSnow": near("it brightens dark pixels", "RandomSnow"),
    "RandomPlasmaShadow": near("its clouds have other parameters", "RandomPlasmaShadow"),
    "RandomPlasmaBrightness": near("its clouds have other parameters", "RandomPlasmaBrightness"),
    **{name: Near("its option for the side differs", ours, made(ours, 1.0, size=("max_size", 256, int)))
       for name, ours in (("LongestMaxSize", "LongestMaxSize"), ("SmallestMaxSize", "Resize"))},
    "PadTo": near("it pads at the right and below, and cuts nothing", "CenterCrop", 1.0, size=("size", 256, asis)),
    "RandomRotation90": near("it rotates by interpolation", "RandomRotation90", times=("times", (0, 3), _turns)),
    "RandomGaussianIllumination": near("its light has other parameters", "RandomSpotIllumination"),
    "RandomLinearIllumination": near("its light has other parameters", "RandomLinearIllumination"),
    "RandomPlasmaContrast": near("its clouds have other parameters", "RandomPlasmaContrast"),
    "RandomJigsaw": near("its pieces are whole pixels", "GridShuffle", grid=("grid", (4, 4), asis)),
    "RandomMixUpV2": near(_MIXED, "MixUp", 1.0),
    "RandomCutMixV2": near(_MIXED, "CutMix", 1.0),
    "RandomMosaic": near("its pieces are whole pixels", "Mosaic", 0.7),
}  # fmt: skip
KORNIA_NEAREST = why(KORNIA)
