"""Substitutes for albumentations' transforms that have no equal here.

Owns: `NEAR`, their table, and the reasons why some transforms have no substitute.
Must not: import albumentations.
Read next: ``nearest.py``.
"""

from __future__ import annotations

import math
from typing import Any

from pellucid import transforms
from pellucid.core.arguments import is_number
from pellucid.interop.albumentations_tables import BORDERS
from pellucid.interop.nearest import Near, around, asis, clamped, holes, made, near, odd, rounded, scaled, up_to, why
from pellucid.interop.reading import Given, Made, Reader, Table, fractions, gated, pair
from pellucid.random import Categorical

__all__ = ["NEAR", "NEAREST"]

ours: Any = transforms  # untyped: options are known only at run time


def _cutout(given: Given, reader: Reader, where: str) -> Made:
    sides = [(name, value, value) for name in ("max_h_size", "max_w_size") for value in (given(name, 8),)]
    return holes(given, reader, given("num_holes", 8), tuple(sides), fill=given("fill_value", 0), p=given("p", 0.5))


def _compression(given: Given, reader: Reader, where: str) -> Made:
    low, high = given("quality_range", (given("quality_lower", 99), given("quality_upper", 100)))
    kind = given("compression_type", "jpeg")
    if kind not in (0, "jpeg", "JPEG"):
        given.near(f"compression_type={kind!r}", "files are JPEG here", "JPEG of the same quality")
    return ours.RandomJPEG(rounded(1.0, 100.0)((low, high)), p=given("p", 0.5))


def _motion(given: Given, reader: Reader, where: str) -> Made:
    """Lines as long as the kernel, in any direction."""
    lengths = tuple(float(n) for n in odd(given("blur_limit", (3, 7))) if n < 64)
    return ours.RandomMotionBlur(lengths[0] if len(lengths) == 1 else Categorical(lengths), p=given("p", 0.5))


def _perspective(given: Given, reader: Reader, where: str) -> Made:
    """Corners move inward there, and the area between them fills the frame; so the warp is followed by an equal enlargement."""
    scale = given("scale", (0.05, 0.1))
    middle = min(float(scale) / 2 if is_number(scale) else sum(scale) / 2, 0.2)
    reach = min(5.3 * middle, 0.8)  # fitted: these two numbers change pictures most similarly
    warp = ours.RandomPerspective(reach, p=1.0, **_shown(given))
    return gated([warp, ours.RandomScale((1.0 + reach, 1.0 + reach))], given("p", 0.5))


def _shown(given: Given, reader: Reader | None = None) -> dict[str, Any]:
    """Read the border of a warp. With a ``reader`` of version 1, it is mirrored by default."""
    default = 4 if reader and reader.version < 2 else 0
    fill = given("fill|fill_value|value|cval|pad_val", 0)
    flag = given("mode|border_mode" if given.name.startswith("IAA") else "border_mode|pad_mode", default)
    return {
        "padding_mode": BORDERS.get(flag, "constant"),
        "fill": fill if is_number(fill) or isinstance(fill, tuple) else 0.0,
    }


def _grid(given: Given, reader: Reader, where: str) -> Made:
    low, high = pair(given("distort_limit", 0.3), "distort_limit", around=0.0)
    reach = min(max(abs(low), abs(high)), 1 / 3)
    cells = max(2, min(int(given("num_steps", 5)), 64))
    return ours.GridDistortion(cells, (reach, reach), p=given("p", 0.5), **_shown(given, reader))


def _lens(given: Given, reader: Reader, where: str) -> Made:
    """Its focal length is the width; here it is half of the diagonal."""
    low, high = pair(given("distort_limit", 0.05), "distort_limit", around=0.0)
    return ours.LensDistortion(k1=clamped(-0.3, 1.0)((low / 2, high / 2)), p=given("p", 0.5), **_shown(given, reader))


def _sharpen(given: Given, reader: Reader, where: str) -> Made:
    """Both add a multiple of the difference from the neighbours; there it is 8 x minus their sum, here a thirteenth of that."""
    low, high = up_to(0.0)(given("alpha", (0.2, 0.5)))
    dark, light = up_to(0.0)(given("lightness", (0.5, 1.0)))
    share, p = (low + high) / 2, given("p", 0.5)
    sharp = ours.RandomSharpness((1.0 + 13.0 * low, 1.0 + 13.0 * high), p=1.0)
    return gated([ours.RandomBrightness((1.0 - share * (1.0 - dark), 1.0 - share * (1.0 - light))), sharp], p)


def _borders(given: Given, reader: Reader, where: str) -> Made:
    parts = {side: clamped(0.0, 0.49)((0.0, given(f"crop_{side}", 0.1))) for side in ("left", "top", "right", "bottom")}
    return ours.RandomCropFromBorders(**parts, p=given("p", 1.0), same_on_batch=not reader.follows(where))


def _sized(given: Given, reader: Reader, where: str) -> Made:
    low, high = given("min_max_height")
    size = given("size") if given.has("size") else (given("height"), given("width"))
    tall = reader.pixels(given, "min_max_height")[0]
    reader.ends(where, size)
    areas = tuple(min((side / max(tall, high)) ** 2, 1.0) for side in (low, high))
    ratio = float(given("w2h_ratio", 1.0))
    return ours.RandomResizedCrop(size, areas, ratio=(ratio * 0.999, ratio * 1.001), p=given("p", 1.0), antialias=False)


def _random_scale(given: Given, reader: Reader, where: str) -> Made:
    sizes = around(1.0, 0.05)(given("scale_limit", 0.1))
    return ours.RandomRescale(sizes, antialias=False, p=given("p", 0.5), same_on_batch=not reader.follows(where))


def _downscale(given: Given, reader: Reader, where: str) -> Made:
    scale = given("scale_range", (given("scale_min", 0.25), given("scale_max", 0.25)))
    return ours.RandomDownscale(clamped(0.01, 1.0)(scale), p=given("p", 0.5))


def _sun(given: Given, reader: Reader, where: str) -> Made:
    left, top, right, bottom = given("flare_roi", (0, 0, 1, 0.5))
    radius = clamped(0.01, 1.0)(given("src_radius", 400) / max(reader.pixels(given, "src_radius")) / 3.0)
    return ours.RandomSunFlare(x=(left, right), y=(top, bottom), radius=(radius / 2, radius), p=given("p", 0.5))


def _factor(given: Given, reader: Reader, where: str) -> Made:
    """Read one factor for the picture, or noise with a factor for each element."""
    factor = given("multiplier", (0.9, 1.1))
    low, high = (factor, factor) if is_number(factor) else pair(factor, "multiplier")
    if given("elementwise", False):
        return ours.MultiplicativeNoise(clamped(0.0, 1.0)((high - low) / math.sqrt(12.0)), p=given("p", 0.5))
    return ours.RandomBrightness((float(low), float(high)), p=given("p", 0.5))


def _box_crop(given: Given, reader: Reader, where: str) -> Made:
    size = (given("height"), given("width")) if given.has("height") else reader.follows(where) or reader.pixels(given, "size")
    reader.ends(where, size)
    if given.name == "CropNonEmptyMaskIfExists":
        return ours.RandomMaskCrop(size, p=given("p", 1.0))
    erosion = float(given("erosion_rate|erosion_factor", 0.0))
    return ours.RandomBoxSafeCrop(size, min(erosion, 0.49), antialias=False, p=given("p", 1.0))


def _rain(given: Given, reader: Reader, where: str) -> Made:
    """Streaks and a darker picture; in version 1 also a blur."""
    dark = clamped(0.0, 1.0)(given("brightness_coefficient", 0.7))
    blur = [ours.RandomBoxBlur(float(given("blur_value", 7)), p=1.0)] if reader.version < 2 else []
    return gated([ours.RandomRain(), *blur, ours.RandomBrightness((dark, dark))], given("p", 0.5))


def _fog(given: Given, reader: Reader, where: str) -> Made:
    """The strengths are fitted to change pictures most similarly."""
    ends = given("fog_coef_range", (given("fog_coef_lower", 0.3), given("fog_coef_upper", 1.0)))
    strength = tuple(0.2 * end**1.5 if reader.version < 2 else max(end**2, 0.125) for end in ends)
    return ours.RandomPlasmaFog(strength=strength, p=given("p", 0.5))


def _iso(given: Given, reader: Reader, where: str) -> Made:
    """From version 2 on, hues turn by fractions of a degree. Few pixels become lighter there; here all do, by less."""
    color, light = clamped(0.0, 0.5)(given("color_shift", (0.01, 0.05))), given("intensity", (0.1, 0.5))
    if reader.version >= 2:
        color, light = scaled(1.0 / 360.0)(color), tuple(0.73 * end ** (4.0 / 3.0) for end in light)
    return ours.ISONoise(color, clamped(0.001, 1.0)(light), p=given("p", 0.5))


def _piecewise(given: Given, reader: Reader, where: str) -> Made:
    low, high = up_to(0.0)(given("scale", (0.03, 0.05)))
    points = given("nb_rows", 4)
    count = max(2, min(int(points if is_number(points) else max(points)), 16))
    reach = clamped(0.0, 0.15)((low * (count - 1), high * (count - 1)))  # of the distance between points
    return ours.RandomThinPlateSpline(count, reach, p=given("p", 0.5), **_shown(given))


def _crop_and_pad(given: Given, reader: Reader, where: str) -> Made:
    part = given("percent")
    if part is None:
        px = given("px")
        side = min(reader.pixels(given, "px"))
        part = tuple(one / side for one in px) if isinstance(px, tuple) else (px or 0) / side
    low, high = (part, part) if is_number(part) else (min(part), max(part))
    return ours.RandomScale(tuple(sorted((1.0 / (1.0 + 2.0 * high), 1.0 / (1.0 + 2.0 * low)))), p=given("p", 1.0), **_shown(given))


def _one_or_other(given: Given, reader: Reader, where: str) -> Made:
    pair_of = given("transforms") or (given("first"), given("second"))
    found, p = reader.each([{**one, "p": 1.0} for one in pair_of], f"{where}.transforms"), given("p", 0.5)
    return ours.OneOf(tuple(found), weights=(p, 1.0 - p))


def _unsharp(given: Given, reader: Reader, where: str) -> Made:
    taps = odd(given("blur_limit", (3, 7)))
    sigma = given("sigma_limit", 0.0)
    widths = up_to(0.3)(sigma) if sigma not in (0, (0, 0)) else tuple(0.3 * ((n - 1) * 0.5 - 1) + 0.8 for n in (taps[0], taps[-1]))
    return ours.RandomUnsharpMask(clamped(0.01, 10.0)(widths), up_to(0.0)(given("alpha", (0.2, 0.5))), p=given("p", 0.5))


def _grid_dropout(given: Given, reader: Reader, where: str) -> Made:
    """Read cells by their number, or by their size in pixels; by default ten across."""
    cells: Any = 10.0
    if given.has("unit_size_range") or given.has("unit_size_min"):
        low, high = given("unit_size_range") or (given("unit_size_min"), given("unit_size_max"))
        side = min(reader.pixels(given, "unit_size_range"))
        cells = (side / high, side / low)
    elif given.has("holes_number_xy") or given.has("holes_number_x"):
        cells = float((given("holes_number_xy") or (given("holes_number_x"),))[0])
    value = given("fill|fill_value", 0)
    fill = fractions(value) if value is not None and not isinstance(value, str) else 0.0
    return ours.GridDropout(clamped(1.0, 32.0)(cells), float(given("ratio", 0.5)), fill=fill, p=given("p", 0.5), hides=True)


def _pad(given: Given, reader: Reader, where: str) -> Made:
    reader.ends(where, None)
    return gated(ours.Pad(given("padding", 0), **_shown(given)), given("p", 1.0))


_DRAWN = "its size is random; a batch gets one, unless a resize follows"
_PATCHES = "its cells are given in pixels"
_IMGAUG = "imgaug's transforms were removed from albumentations"


def _from_float(given: Given, reader: Reader, where: str) -> Made:
    given.idle("nothing changes", "dtype", "max_value", "p")
    reader.set(dtype=None)
    return None


def _light(given: Given, reader: Reader, where: str) -> Made:
    """Make light along a line, from a corner, or around a spot."""
    mode = given.only("mode", "linear", "corner", "gaussian", default="linear", reason="there is no such light")
    effect = given.only("effect_type", "both", "brighten", "darken", default="both", reason="there is no such effect")
    low, high = pair(given("intensity_range", (0.01, 0.2)), "intensity_range")
    if mode == "corner":
        sign = {"brighten": 1.0, "darken": -1.0}.get(effect, Categorical((-1.0, 1.0)))
        return ours.RandomCornerIllumination((low, high), sign=sign, p=given("p", 0.5))
    intensity = {"brighten": (low, high), "darken": (-high, -low)}.get(effect, (-high, high))
    if mode == "gaussian":
        place, sigma = given("center_range", (0.1, 0.9)), given("sigma_range", (0.2, 1.0))
        return ours.RandomSpotIllumination(intensity, x=place, y=place, sigma=sigma, p=given("p", 0.5))
    low, high = pair(given("angle_range", (0, 360)), "angle_range")
    return ours.RandomLinearIllumination(intensity, (-high, -low), p=given("p", 0.5))


NEAR: Table = {
    "Equalize": near("its levels differ from Pillow's by up to 3 of 255", "RandomEqualize"),
    **dict.fromkeys(("ImageCompression", "JpegCompression"), Near(
        "its decoder is not Pillow's: results are 37 to 47 dB apart", "RandomJPEG", _compression)),
    "GridDistortion": Near("its undistorted grid is a pixel off, and its cells reach outside", "GridDistortion", _grid),
    "OpticalDistortion": Near("its centre is half a pixel off, and its second coefficient is left out", "LensDistortion", _lens),
    "MotionBlur": Near("its lines consist of whole pixels, and are off centre", "RandomMotionBlur", _motion),
    "CLAHE": near("it equalises only lightness; here, each channel", "RandomCLAHE",
        clip_limit=("clip_limit", 4.0, up_to(1.0)), tiles=("tile_grid_size", (8, 8), asis)),
    "Sharpen": Near("it also darkens by its lightness, and sharpens the border", "RandomSharpness", _sharpen),
    "Perspective": Near("its corners move by normally distributed distances", "RandomPerspective", _perspective),
    "Cutout": Near("holes are fractions of the size here", "CoarseDropout", _cutout),
    "GridDropout": Near(_PATCHES, "GridDropout", _grid_dropout),
    "RandomCropFromBorders": Near(_DRAWN, "RandomCropFromBorders", _borders),
    "RandomSizedCrop": Near("its crops have random heights in pixels", "RandomResizedCrop", _sized),
    "RandomScale": Near(_DRAWN, "RandomRescale", _random_scale),
    "SafeRotate": Near("it rounds its canvas to whole pixels", "RandomSafeRotation", lambda given, reader, where:
        ours.RandomSafeRotation(around(0.0)(given("limit|angle_range", 90)), p=given("p", 0.5), **_shown(given, reader))),
    "Defocus": near("its disc is smoothed by a random width", "RandomDefocusBlur",
        radius=("radius", (3, 10), lambda value: clamped(0.0, 30.0)(up_to(3.0)(value)))),
    "ZoomBlur": near("its steps are random", "RandomZoomBlur",
        factor=("max_factor", (1.02, 1.31), lambda value: clamped(1.001, 4.0)(up_to(1.02)(value)))),
    "ISONoise": Near("its noise has a Poisson distribution", "ISONoise", _iso),
    "Downscale": Near("the interpolation of its blocks is an option", "RandomDownscale", _downscale),
    "MultiplicativeNoise": Near("factors of single elements have another distribution", "RandomBrightness, or noise", _factor),
    "AdvancedBlur": near("its kernel is also noisy", "RandomAnisotropicBlur",
        along=("sigma_x_limit|sigmaX_limit", (0.2, 1.0), lambda value: clamped(0.2, 8.0)(up_to(0.2)(value))),
        across=("sigma_y_limit|sigmaY_limit", (0.2, 1.0), lambda value: clamped(0.2, 8.0)(up_to(0.2)(value))),
        degrees=("rotate_limit", (-90, 90), around(0.0)),
        beta=("beta_limit", (0.5, 8.0), lambda value: clamped(0.5, 8.0)(up_to(0.5)(value)))),
    "GlassBlur": near("it exchanges pixels one after another", "RandomGlassBlur",
        sigma=("sigma", 0.7, clamped(0.1, 10.0)), reach=("max_delta", 4, lambda value: min(int(value), 16))),
    "FancyPCA": near("it uses each picture's own colour axes; here, ImageNet's", "FancyPCA", alpha=("alpha", 0.1, asis)),
    "RandomToneCurve": near("its heights are normally distributed around 1/4 and 3/4", "RandomToneCurve",
        low=("scale", 0.1, lambda scale: around(0.25, 0.0, 1.0)(1.73 * float(scale))),
        high=("scale", 0.1, lambda scale: around(0.75, 0.0, 1.0)(1.73 * float(scale)))),
    "RandomSunFlare": Near("the circles along its ray are left out", "RandomSunFlare", _sun),
    "CropNonEmptyMaskIfExists": Near("it tries several crops, and counts other mask pixels", "RandomMaskCrop", _box_crop),
    **dict.fromkeys(("RandomSizedBBoxSafeCrop", "BBoxSafeRandomCrop", "AtLeastOneBBoxRandomCrop"), Near(
        "its rectangles have another distribution; here, results have one size", "RandomBoxSafeCrop", _box_crop)),
    "AdditiveNoise": near("its noise may have other distributions", "RandomGaussianNoise",
        0.5, {"mean": 0.0, "sigma": (0.02, 0.1)}),
    "PixelDropout": Near("it drops pixels in all channels at once", "SaltAndPepper without salt", made(
        "SaltAndPepper", 0.5, {"salt": 0.0}, amount=("dropout_prob", 0.01, clamped(0.0, 1.0)))),
    "SaltAndPepper": near("it paints whole pixels; here, single channels", "SaltAndPepper",
        amount=("amount", (0.01, 0.06), asis), salt=("salt_vs_pepper", (0.4, 0.6), asis)),
    "ShotNoise": near("its scale refers to the light", "ShotNoise"),
    "RandomFog": Near("its fog consists of discs", "RandomPlasmaFog", _fog),
    "RandomRain": Near("its drops are blurred lines of one brightness", "RandomRain and RandomBrightness", _rain),
    "RandomSnow": near("it brightens dark pixels", "RandomSnow", 0.5, {"severity": 1, "strength": (0.1, 0.5)}),
    "RandomShadow": near("its shadows are polygons; here, bands", "RandomShadow",
        darkness=("shadow_intensity_range", (0.5, 0.5), clamped(0.0, 1.0))),
    "PlasmaShadow": near("its clouds have other parameters", "RandomPlasmaShadow"),
    "Illumination": Near("its light has other end points", "the light of this mode", _light),
    "PlasmaBrightnessContrast": near("its light has another pattern", "RandomPlasmaBrightness"),
    "PlanckianJitter": near("its colours come from a table", "PlanckianJitter"),
    "RandomGridShuffle": near("its cells are whole pixels", "GridShuffle", grid=("grid", (3, 3), asis)),
    "UnsharpMask": Near("it does not change small differences", "RandomUnsharpMask", _unsharp),
    "AutoContrast": near("it stretches the cumulative distribution, not the range", "RandomAutoContrast"),
    "Erasing": near("its rectangles are whole pixels", "RandomErasing",
        scale=("scale", (0.02, 0.33), asis), ratio=("ratio", (0.3, 3.3), asis)),
    "ThinPlateSpline": near("its points move by normally distributed distances", "RandomThinPlateSpline",
        magnitude=("scale_range", (0.2, 0.4), scaled(0.5, 0.0, 0.15))),
    **dict.fromkeys(("PiecewiseAffine", "IAAPiecewiseAffine"), Near(
        "its mesh bends sharply at grid points; here, it is smooth", "RandomThinPlateSpline", _piecewise)),
    "GridElasticDeform": near("its mesh breaks between cells", "RandomElastic"),
    "CropAndPad": Near("it cuts or pads each side; here, the picture is scaled about its centre", "RandomScale", _crop_and_pad),
    "Pad": Near("a pair of numbers means other sides there", "Pad", _pad),
    "FromFloat": Near("pictures keep their dtype here", "nothing", _from_float),
    "ToRGB": Near("pictures keep their channels here", "nothing", lambda given, reader, where: given.idle("nothing changes", "p")),
    "OneOrOther": Near("a choice of two", "OneOf", _one_or_other),
    **dict.fromkeys(("XYMasking", "TimeMasking", "FrequencyMasking", "MaskDropout", "ConstrainedCoarseDropout"), near(
        "its stripes and holes lie at other places", "CoarseDropout", 0.5,
        {"count": (1.0, 2.0), "height": (0.05, 0.25), "width": (0.05, 0.25), "hides": True})),
    "IAAAdditiveGaussianNoise": near(_IMGAUG, "RandomGaussianNoise",
        mean=("loc", 0, lambda value: float(value) / 255.0), sigma=("scale", (2.55, 12.75), up_to(0.0, 1 / 255.0))),
    "IAASharpen": Near(_IMGAUG, "RandomSharpness", _sharpen),
    "IAAPerspective": Near(_IMGAUG, "RandomPerspective", _perspective),
    "IAAFliplr": near(_IMGAUG, "RandomHorizontalFlip"),
    "IAAFlipud": near(_IMGAUG, "RandomVerticalFlip"),
    "IAAEmboss": near(_IMGAUG, "RandomEmboss",
        share=("alpha", (0.2, 0.5), up_to(0.0)), strength=("strength", (0.2, 0.7), up_to(0.0))),
    "IAAAffine": near(_IMGAUG, "RandomAffine",
        degrees=("rotate", 0.0, around(0.0)),
        scale=("scale", (1.0, 1.0), lambda value: (value, value) if is_number(value) else value)),
}  # fmt: skip

NEAREST = why(NEAR) | {
    "Lambda": ("a function of your own is not read", "a frozen dataclass, docs/own-transforms.md"),
    **dict.fromkeys(("FDA", "HistogramMatching", "PixelDistributionAdaptation", "TemplateTransform", "OverlayElements"), (
        "it reads other pictures", "CopyPaste, MixUp or CutMix, of the batch")),
    "FilmGrain": ("its grains are larger than pixels", "RandomGaussianNoise"),
    **dict.fromkeys(("TextImage", "Superpixels", "RandomGravel", "Spatter"), ("it draws new objects into the picture", "")),
}  # fmt: skip
