"""Import albumentations' pipelines, of versions 1 and 2, from an object, from ``A.to_dict`` or from a file with its result.

Owns: the translation of each of its transforms and options.
Must not: import albumentations.
Read next: ``kornia.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from pellucid import transforms
from pellucid.core.arguments import is_number, plain
from pellucid.interop.albumentations_colors import COLORS
from pellucid.interop.albumentations_nearest import NEAR, NEAREST
from pellucid.interop.albumentations_tables import BORDERS, chance_of, described, read_targets
from pellucid.interop.nearest import clamped, elastic_of, holes, made, odd
from pellucid.interop.reading import TARGETS, Given, Imported, Made, Match, Reader, Table, Unknown, gated, pair, whole, wraps
from pellucid.pipeline import Pipeline
from pellucid.random import Categorical

ours: Any = transforms  # untyped: options are known only at run time

__all__ = ["KNOWN", "described", "from_albumentations", "read_albumentations"]


def from_albumentations(
    source: Any, *, match: Match = "nearest", size: tuple[int, int] | None = None, unknown: Unknown = "refuse"
) -> Pipeline:
    """Import a pipeline of albumentations.

    Args:
        source: a ``Compose``, a transform, or the result of ``A.to_dict``, for which albumentations need not be installed.
            Missing options get the defaults of version 2, unless ``__version__`` says 1 or names of version 1 occur.
        size: (height, width) of the pictures, by which options in pixels become fractions; if neither this nor a resize gives a
            size, (256, 256) is assumed.

    Returns:
        A pipeline. ``A.to_dict`` holds no seed. `read_albumentations` also returns the notes.

    Example:
        >>> from pellucid.interop import from_albumentations
        >>> from_albumentations({"__class_fullname__": "Rotate", "limit": 20, "p": 1.0})[0].degrees
        (-20.0, 20.0)
    """
    return whole(read_albumentations(source, match=match, size=size, unknown=unknown))


def read_albumentations(
    source: Any, *, match: Match = "nearest", size: tuple[int, int] | None = None, unknown: Unknown = "refuse"
) -> Imported:
    """Return what :func:`from_albumentations` imports, with notes, and with a list of missing operations instead of an error.

    Args:
        source, size: as for :func:`from_albumentations`.

    Example:
        >>> from pellucid.interop import read_albumentations
        >>> read_albumentations({"__class_fullname__": "Rotate", "limit": 20, "p": 1.0}).missing
        ()
    """
    version, plain = described(source)
    return Reader(_TABLE, NEAREST, version, match, NEAR, size, wraps(unknown, "albumentations")).imported(plain)


def _compose(given: Given, reader: Reader, where: str) -> Made:
    given.idle("it checks arguments", "is_check_shapes", "is_check_args", "strict")
    given.idle("it names the entry in which draws are returned", "save_applied_params", "save_key")
    given.noted("seed", None, default=None, text="Compose(seed=...): draws differ here; pass Pipeline(seed=...)")
    given.only("mask_interpolation", None, 0, default=None, reason="masks take the nearest pixel here", nearest="INTER_NEAREST")
    read_targets(given, reader)
    if where == "pipeline":
        reader.set(out="same")
        reader.comes(given("transforms"))
    row = [one for branch in reader.each(given("transforms"), f"{where}.transforms") for one in branch]
    return gated(row, given("p", 1.0 if given.name == "Compose" else 0.5))


def _one_of(given: Given, reader: Reader, where: str) -> Made:
    """The branches' probabilities become their weights, and the chosen branch is always applied."""
    branches = given("transforms") or ()
    if not branches and where != "pipeline":
        given.idle("there is nothing to choose from", "p")
        return None
    weights = tuple(float(one.get("p", chance_of(one.get("name")))) for one in branches)
    sure = [{**one, "p": 1.0} for one in branches]
    found = reader.each(sure, f"{where}.transforms")
    padded = any(isinstance(step, ours.PadIfNeeded) for row in found for step in row)
    if padded and any(isinstance(step, ours.RandomResizedCrop | ours.Resize) for row in found for step in row):
        given.near("PadIfNeeded", "a choice between a pad and a resize would take two passes", "Resize to its size")
        found = [
            tuple(ours.Resize(s.size, antialias=False) if isinstance(s, ours.PadIfNeeded) else s for s in row) for row in found
        ]
    return gated(ours.OneOf(tuple(found), weights=weights), given("p", 0.5))


def _some_of(given: Given, reader: Reader, where: str) -> Made:
    if reader.version < 2:
        given.near("", "it weighs branches by their probabilities in version 1", "SomeOf, of equal chances")
    n, replace = given("n", 1), given("replace", False)
    branches = tuple(reader.each(given("transforms"), f"{where}.transforms"))
    if replace and n > 1:
        given.near("replace=True", "a transform may be drawn twice there", "replace=False")
    least, most = (n, n) if is_number(n) else n
    count = (min(least, len(branches)), min(most, len(branches)))
    n = count[0] if count[0] == count[1] else count
    return gated(ours.SomeOf(branches, n=n), given("p", _old(reader, 0.5, 1.0)))


_RESIZES = {1: ("bilinear", False), 6: ("nearest", False)}
_NEAR_RESIZES = {0: ("nearest", False), 2: ("bicubic", False), 3: ("bilinear", True), 4: ("bicubic", False), 5: ("bilinear", False)}


def _warp(given: Given, reader: Reader, *, border: int) -> dict[str, Any]:
    """Read the interpolation, border and fills of a warp."""
    given.only("mask_interpolation", 0, default=0, reason="masks take the nearest pixel here", nearest="INTER_NEAREST")
    given.only("rotate_method", "largest_box", default="largest_box", reason="boxes are hulls of corners", nearest="largest_box")
    flag = given("interpolation", 1)
    mode = {0: "nearest", 1: "bilinear"}.get(flag)
    if mode is None:
        mode = "bicubic" if flag in (2, 4) else "bilinear"
        given.near(f"interpolation={flag}", "only INTER_NEAREST and INTER_LINEAR have an equal here", mode)
    reader.note("Warps of OpenCV round coordinates to 1/32 pixel")
    return {
        "interpolation": mode,
        "padding_mode": _border(given, reader, border),
        "fill": _fill(given),
        "mask_fill": _mask_fill(given) or None,
    }


def _border(given: Given, reader: Reader, default: int) -> str:
    flag = given("border_mode|mode", default)
    if flag not in BORDERS:
        given.near(f"border_mode={flag}", "borders do not wrap here", "BORDER_REFLECT_101")
        flag = 4
    if flag in (2, 4) and reader.version >= 2:
        seen = TARGETS if "drop_invalid" in reader.settings else ""  # the pipeline has boxes or points
        reader.note(f"{seen}albumentations also adds the mirror images of boxes and keypoints at reflected borders")
    return BORDERS[flag]


def _fill(given: Given) -> Any:
    """Read a fill, which is in the image's own units, as here."""
    fill = given("fill|fill_value|value|cval", 0)
    if isinstance(fill, str):
        given.near(f"fill={fill!r}", "holes are filled with numbers here", "0")
        return 0.0
    return 0.0 if fill is None else fill


def _mask_fill(given: Given) -> float | None:
    """Read the fill of masks outside of the picture or under holes; None if there is none."""
    option = "fill_mask|mask_value|cval_mask|mask_fill_value"
    value = given(option)
    numbers = value if isinstance(value, tuple) else (value,)
    if len(set(numbers)) > 1:
        given.near(f"{given.first(option)}={value!r}", "masks have one fill for all their channels", str(numbers[0]))
    return None if numbers[0] is None else float(numbers[0])


def _old(reader: Reader, one: Any, two: Any) -> Any:
    return one if reader.version < 2 else two


def _rotate(given: Given, reader: Reader, where: str) -> Made:
    given.only("crop_border", False, default=False, reason="a batch keeps one size", nearest="RandomRotation and CenterCrop")
    limit = pair(given("limit|angle_range", 90), "limit", around=0.0)
    return ours.RandomRotation(limit, p=given("p", 0.5), **_warp(given, reader, border=_old(reader, 4, 0)))


def _shift_scale_rotate(given: Given, reader: Reader, where: str) -> Made:
    both = given("shift_limit", 0.0625)
    given_by_axis = (given(f"shift_limit_{axis}") for axis in "xy")
    x, y = (pair(both if one is None else one, "shift_limit", around=0.0) for one in given_by_axis)
    scale = pair(given("scale_limit", 0.1), "scale_limit", around=0.0)
    if scale[0] <= -1.0:
        given.near(f"scale_limit={scale}", "a scale of 0 has no inverse", "0.01 and more")
    factors = (max(1.0 + scale[0], 0.01), 1.0 + scale[1])
    if reader.version >= 2:
        reader.note("ShiftScaleRotate: albumentations truncates shifts to whole pixels")
    return ours.RandomAffine(
        pair(given("rotate_limit", 45), "rotate_limit", around=0.0),
        translate=(
            pair(both if x is None else x, "shift_limit", around=0.0),
            pair(both if y is None else y, "shift_limit", around=0.0),
        ),
        scale=factors if reader.version < 2 or factors[0] == factors[1] else factors * 2,  # version 2 draws one scale for each axis
        p=given("p", 0.5),
        **_warp(given, reader, border=_old(reader, 4, 0)),
    )


def _fixed(value: Any, option: str) -> tuple[float, float]:
    """Return a range, or (number, number) for a number."""
    return (float(value), float(value)) if is_number(value) else pair(value, option)


def _by_axis(value: Any, option: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ranges of x and y from a number, a pair or a dict."""
    x, y = (value.get("x", 0.0), value.get("y", 0.0)) if isinstance(value, Mapping) else (value, value)
    return _fixed(plain(x), option), _fixed(plain(y), option)


def _affine(given: Given, reader: Reader, where: str) -> Made:
    given.only("fit_output", False, default=False, reason="a batch keeps one size", nearest="RandomAffine")
    given.only("balanced_scale", False, default=False, reason="it draws from two ranges", nearest="RandomAffine")
    degrees = _fixed(given("rotate", 0.0) or 0.0, "rotate")
    x, y = _by_axis(given("scale", (1.0, 1.0)), "scale")
    one = bool(given("keep_ratio", False)) or (x == y and x[0] == x[1])
    raw = given("shear", 0.0) or 0.0
    sheared = (_fixed(raw, "shear"), (0.0, 0.0)) if is_number(raw) else _by_axis(raw, "shear")
    if any(map(any, sheared)) and any(degrees):
        given.near("shear", "it shears after the rotation, RandomAffine before", "shear before the rotation")
    if all(map(any, sheared)):
        given.near("shear", "its shear along both axes lacks the product of both shears", "shear along both axes")
    pixels, share = given("translate_px"), given("translate_percent")
    if pixels is not None and any(map(any, _by_axis(pixels, "translate_px"))):
        given.near(f"translate_px={pixels}", "shifts are fractions of the size here", "fractions")
        size = reader.pixels(given, "translate_px")[::-1]
        both = zip("xy", _by_axis(pixels, "translate_px"), size, strict=True)
        share = {axis: tuple(end / side for end in ends) for axis, ends, side in both}
    if share:
        reader.note("Affine: albumentations truncates shifts to whole pixels")
    return ours.RandomAffine(
        degrees,
        translate=_by_axis(share, "translate_percent") if share else None,
        scale=x if one else (*x, *y),
        shear=(*sheared[0], *sheared[1]) if any(map(any, sheared)) else None,
        p=given("p", 0.5),
        **_warp(given, reader, border=0),
    )


def _size(given: Given) -> Any:
    """Read ``size``, or ``height`` and ``width``."""
    return given("size") if given.has("size") else (given("height"), given("width"))


def _resizing(given: Given, reader: Reader) -> dict[str, Any]:
    given.only("area_for_downscale", None, default=None, reason="only without area averaging", nearest="INTER_LINEAR_EXACT")
    masks = given.only(
        "mask_interpolation", 0, 6, default=0, reason="masks take the nearest pixel here", nearest="INTER_NEAREST_EXACT"
    )
    reader.note("Resized keypoints: the middle of a pixel stays the middle of a pixel here; x becomes x * scale there")
    if masks == 0:
        reader.note("Resized masks: the nearest pixel here, as INTER_NEAREST_EXACT; INTER_NEAREST there is up to a pixel off")
    flag = given("interpolation", 1)
    mode, antialias = {**_NEAR_RESIZES, **_RESIZES}.get(flag, ("bilinear", False))
    if flag not in _RESIZES:
        others = "only INTER_LINEAR and INTER_NEAREST_EXACT have an equal here"
        reason = "OpenCV's nearest reads half a pixel off" if flag == 0 else others
        given.near(f"interpolation={flag}", reason, f"{mode}, antialias={antialias}")
    return {"interpolation": mode, "antialias": antialias}


def _resized_crop(given: Given, reader: Reader, where: str) -> Made:
    reader.note(
        "RandomResizedCrop: whole pixels there, drawn anew where they do not fit; continuous here, with proportions that fit"
    )
    size, scale, ratio = _size(given), given("scale", (0.08, 1.0)), given("ratio", (3 / 4, 4 / 3))
    if isinstance(scale, tuple) and max(scale) > 1:
        given.near(f"scale={scale}", "it draws again if a crop is larger than the picture", "areas up to the picture's")
        scale = clamped(0.0, 1.0)(scale)
    reader.ends(where, size if given("p", 1.0) == 1 else None)
    return ours.RandomResizedCrop(size, scale, ratio=ratio, p=given("p", 1.0), **_resizing(given, reader))


def _resize(given: Given, reader: Reader, where: str) -> Made:
    size, p = _size(given), given("p", 1.0)
    reader.ends(where, size if p == 1 else None)
    return reader.at_times([ours.Resize(size, **_resizing(given, reader))], p, given)


def _longest(given: Given, reader: Reader, where: str) -> Made:
    reader.ends(where, None)
    given.only("max_size_hw", None, default=None, reason="one length for all", nearest="LongestMaxSize")
    size = given("max_size", 1024)
    if not is_number(size):
        given.near(f"max_size={size}", "one length for all", str(size[-1]))
        size = size[-1]
    if given.name == "SmallestMaxSize":
        reader.note("SmallestMaxSize: the longer side is rounded to whole pixels there, and cut to them here, as by torchvision")
    kind = ours.LongestMaxSize if given.name == "LongestMaxSize" else ours.Resize
    return gated(kind(size, **_resizing(given, reader)), given("p", 1.0))


def _crop(given: Given, reader: Reader, where: str) -> Made:
    given.idle("of padding, which is refused", "fill_mask", "pad_position", "border_mode", "fill")
    padded = given("pad_if_needed", False)
    if padded:
        given.near("pad_if_needed=True", "its padding is placed differently", "PadIfNeeded before it")
    if given.name == "CenterCrop":
        reader.note("CenterCrop: an odd margin is rounded down there, and to the even side here")
    if given.name == "Crop":
        left, top, least = given("x_min", 0), given("y_min", 0), (given("y_max", 1024), given("x_max", 1024))
        crop = ours.Crop((least[0] - top, least[1] - left), top=top, left=left)
    else:
        least = (given("height"), given("width"))
        crop = (ours.RandomCrop if given.name == "RandomCrop" else ours.CenterCrop)(least)
    p = given("p", 1.0)
    reader.ends(where, crop.size if p == 1 else None)
    return reader.at_times([*([ours.PadIfNeeded(least, padding_mode="constant")] if padded else []), crop], p, given)


def _least(given: Given, reader: Reader, axis: int, name: str) -> int:
    """Read the least length of a side, or compute the next multiple of a divisor."""
    side, divisor = given(f"min_{name}", 1024), given(f"pad_{name}_divisor")
    if divisor is None:
        return side or 1
    given.near(f"pad_{name}_divisor={divisor}", "all pictures get one size here", "the next multiple")
    return -(-reader.pixels(given, f"pad_{name}_divisor")[axis] // divisor) * divisor


def _pad(given: Given, reader: Reader, where: str) -> Made:
    reader.ends(where, None)
    given.idle("an option of its base class, which it ignores", "padding")
    given.only("position", "center", default="center", reason="padding is even on both sides here", nearest="Pad")
    border = _border(given, reader, _old(reader, 4, 0))
    size = tuple(_least(given, reader, axis, name) for axis, name in enumerate(("height", "width")))
    fills = {"fill": _fill(given), "mask_fill": _mask_fill(given) or None}
    return gated(ours.PadIfNeeded(size, padding_mode=border, **fills), given("p", 1.0))


def _ends(given: Given, reader: Reader, old: str, new: str, usual: Any) -> tuple[Any, Any]:
    """Read the least and the most of a number: by the names of version 1, which win if both exist, or as a range."""
    if not given.has(f"max_{old}") and (reader.version >= 2 or given.has(new)):
        value = given(new, usual)
        return value if isinstance(value, tuple) else (value, value)
    given.idle("the old names win", new)
    most, least = given(f"max_{old}", 8), given(f"min_{old}")
    return (most if least is None else least), most


def _dropout(given: Given, reader: Reader, where: str) -> Made:
    """Read the number of holes, and their sides in pixels or as fractions."""
    counts = _ends(given, reader, "holes", "num_holes_range", (1, 2))
    sides = tuple(
        (new if given.has(new) else f"max_{side}", *_ends(given, reader, side, new, (0.1, 0.2)))
        for side, new in (("height", "hole_height_range"), ("width", "hole_width_range"))
    )
    for option, low, high in sides:
        if any(isinstance(end, int) for end in (low, high)) and low != high:
            given.near(f"{option}={(low, high)}", "sides are drawn as whole pixels there", "a continuous range")
    reader.note("CoarseDropout: holes, and the visible parts of boxes, are whole pixels there")
    fills = {"fill": _fill(given), "mask_fill": _mask_fill(given)}
    return holes(given, reader, counts, sides, p=given("p", 0.5), **fills)


def _normalize(given: Given, reader: Reader, where: str) -> Made:
    given.only("normalization", "standard", default="standard", reason="by constants only", nearest="Normalize")
    mean, std = given("mean", (0.485, 0.456, 0.406)), given("std", (0.229, 0.224, 0.225))
    high = given("max_pixel_value", 255.0)
    if high not in (255, 1):
        given.near(f"max_pixel_value={high}", "8-bit images count as x / 255", "max_pixel_value=255")
    if high == 1:
        reader.note("Normalize(max_pixel_value=1): for floating-point images in [0, 1]")
    return gated(ours.Normalize(mean, std), given("p", 1.0))


def _to_float(given: Given, reader: Reader, where: str) -> Made:
    given.only("p", 1, default=1.0, reason="all pictures of a batch have one dtype", nearest="p=1")
    given.only("max_value", None, 255, default=None, reason="8-bit images become x / 255", nearest="ToFloat(255)")
    reader.set(dtype=torch.float32)
    return None


def _nothing(given: Given, reader: Reader, where: str) -> Made:
    given.idle("it changes no value", "p")
    if given.name.startswith("ToTensor"):
        reader.set(out="tensor")
        text = "ToTensorV2: masks (H, W, C) become tensors (C, H, W) here, as with transpose_mask=True"
        given.noted("transpose_mask", True, default=False, text=text)
    return None


def _elastic(given: Given, reader: Reader, where: str) -> Made:
    """Make a spline field of the same standard deviation and smoothness."""
    moved = given("alpha_affine", 50 if reader.version < 2 else 0)
    if moved:
        given.near(f"alpha_affine={moved}", "it also moves three points", "an equally strong RandomAffine before it")
    given.only("same_dxdy", False, default=False, reason="both axes move independently here", nearest="same_dxdy=False")
    given.only("approximate", False, default=False, reason="its kernel has 17 taps for every sigma", nearest="approximate=False")
    alpha, sigma = float(given("alpha", 1.0)), float(given("sigma", 50.0))
    if reader.version >= 2 and given("noise_distribution", "gaussian") != "uniform":
        reason = "normal noise is divided by its largest value, which depends on the picture's size"
        given.near("noise_distribution='gaussian'", reason, "uniform noise of the same deviation in a picture of 256 pixels")
        alpha *= 0.385
    reader.note("ElasticTransform: fields are splines here, of the same deviation and width")
    text = "ElasticTransform: keypoints follow the field exactly here, within a pixel or two there"
    given.noted("keypoint_remapping_method", default="mask", text=text)
    options = {"p": given("p", 0.5), **_warp(given, reader, border=_old(reader, 4, 0))}
    elastic = elastic_of(given, alpha, sigma, "albumentations", **options)
    return [_three_points(float(moved), given, reader, options), elastic] if moved else elastic


def _three_points(pixels: float, given: Given, reader: Reader, options: dict[str, Any]) -> Any:
    """Approximate ``alpha_affine`` (three points near the centre, each moved by up to so many pixels) by a RandomAffine."""
    height, width = reader.pixels(given, "alpha_affine")
    part = min(3.0 * pixels / min(height, width), 1.0)
    turn = math.degrees(math.atan(part / 2.0))
    scale = (1.0 / (1.0 + 0.7 * part), 1.0 + 0.7 * part)
    return ours.RandomAffine(
        (-turn, turn),
        translate=(min(0.7 * pixels / width, 1.0), min(0.7 * pixels / height, 1.0)),
        scale=scale,
        shear=turn,
        **options,
    )


def _gaussian(given: Given, reader: Reader, where: str) -> Made:
    reason = "its taps do not follow from its width"
    taps, widths = given("blur_limit", _old(reader, (3, 7), 0)), given("sigma_limit", _old(reader, 0, (0.5, 3.0)))
    if taps not in (0, (0, 0)):
        given.near(f"blur_limit={taps!r}", reason, "a choice of kernels with OpenCV's widths")
        return gated(ours.OneOf([_taps(count, widths) for count in odd(taps)]), given("p", 0.5))
    return ours.RandomGaussianBlur(sigma=_fixed(widths, "sigma_limit"), p=given("p", 0.5))


def _taps(count: int, widths: Any) -> Any:
    """Make a blur of so many taps, with the given widths or else OpenCV's."""
    usual = 0.3 * ((count - 1) * 0.5 - 1) + 0.8
    sigma = (usual, usual) if widths in (0, (0, 0), None) else _fixed(widths, "sigma_limit")
    return ours.RandomGaussianBlur(count, sigma=(max(sigma[0], 1e-3), max(sigma[1], 1e-3)), p=1.0)


def _noise(given: Given, reader: Reader, where: str) -> Made:
    given.only("per_channel", True, default=True, reason="noise differs from channel to channel", nearest="RandomGaussianNoise")
    given.only("noise_scale_factor", 1, default=1, reason="noise of single pixels", nearest="RandomGaussianNoise")
    if reader.version < 2 or given.has("var_limit"):
        given.near("var_limit", "it draws the variance, RandomGaussianNoise the standard deviation", "the roots of its ends")
        variance, mean = given("var_limit", (10.0, 50.0)), given("mean", 0) / 255.0
        low, high = (0.0, variance) if is_number(variance) else variance
        return ours.RandomGaussianNoise(mean, (math.sqrt(low) / 255.0, math.sqrt(high) / 255.0), p=given("p", 0.5))
    return ours.RandomGaussianNoise(given("mean_range", (0.0, 0.0)), given("std_range", (0.2, 0.44)), p=given("p", 0.5))


_TABLE: Table = {
    **COLORS,
    **dict.fromkeys(("Compose", "ReplayCompose", "Sequential"), _compose),
    "OneOf": _one_of,
    "SomeOf": _some_of,
    **{name: made(f"Random{name}") for name in ("HorizontalFlip", "VerticalFlip", "ChannelShuffle")},
    "Flip": lambda given, reader, where: ours.Apply(  # version 1: one axis, the other or both, with equal chances
        [ours.OneOf([ours.RandomVerticalFlip(p=1.0), ours.RandomHorizontalFlip(p=1.0), ours.RandomRotation90((2,))])],
        p=given("p", 0.5),
    ),
    "RandomRotate90": lambda given, reader, where: ours.RandomRotation90(p=given("p", _old(reader, 1, 2) / 2)),
    "Transpose": lambda given, reader, where: ours.RandomD4((5,), p=given("p", 0.5)),
    **dict.fromkeys(("D4", "SquareSymmetry"), made("RandomD4", 1.0)),
    "Rotate": _rotate,
    "ShiftScaleRotate": _shift_scale_rotate,
    "Affine": _affine,
    "RandomResizedCrop": _resized_crop,
    "Resize": _resize,
    **dict.fromkeys(("LongestMaxSize", "SmallestMaxSize"), _longest),
    **dict.fromkeys(("RandomCrop", "CenterCrop", "Crop"), _crop),
    "PadIfNeeded": _pad,
    "ToSepia": made("RandomSepia"),
    "InvertImg": made("RandomInvert"),
    "Blur": made("RandomBoxBlur", width=("blur_limit", (3, 7), lambda value: Categorical(tuple(map(float, odd(value)))))),
    "MedianBlur": lambda given, reader, where: gated(
        ours.OneOf([ours.RandomMedianBlur(taps) for taps in odd(given("blur_limit", (3, 7)))]), given("p", 0.5)
    ),
    "GaussianBlur": _gaussian,
    "ElasticTransform": _elastic,
    "GaussNoise": _noise,
    "CoarseDropout": _dropout,
    "Normalize": _normalize,
    "ToFloat": _to_float,
    **dict.fromkeys(("ToTensorV2", "ToTensor", "NoOp"), _nothing),
}

KNOWN = frozenset((*_TABLE, *NEAR, *NEAREST, "BboxParams", "KeypointParams"))
"""Names that the importer reads, or refuses with a reason."""
