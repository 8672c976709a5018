"""Import kornia's augmentations, from objects or plain data.

Owns: the translation of each of its augmentations and options.
Must not: import kornia.
Read next: ``reading.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from pellucid import transforms
from pellucid.core.arguments import is_number
from pellucid.interop.nearest import Build, Option, asis, fields_of, half_turn, spread
from pellucid.interop.nearest_tables import KORNIA as NEAR
from pellucid.interop.nearest_tables import KORNIA_NEAREST as NEAREST
from pellucid.interop.reading import (
    Given,
    Imported,
    Made,
    Match,
    Reader,
    Table,
    Unknown,
    arguments_of,
    mask_fill_of,
    pair,
    whole,
    wraps,
)
from pellucid.pipeline import Pipeline
from pellucid.random import Categorical

ours: Any = transforms  # untyped: options are known only at run time

__all__ = ["described", "from_kornia", "read_kornia"]


def from_kornia(
    source: Any, *, match: Match = "nearest", size: tuple[int, int] | None = None, unknown: Unknown = "refuse"
) -> Pipeline:
    """Import augmentations of kornia.

    Args:
        source: an ``AugmentationSequential``, ``ImageSequential`` or ``nn.Sequential``, an augmentation, or the same as plain data,
            ``{"name": "RandomRotation", "degrees": 10.0, "p": 0.5}``, for which kornia need not be installed.
        size: (height, width) of the pictures, by which displacements become pixels.

    Returns:
        A pipeline. :func:`read_kornia` also returns the notes.

    Example:
        >>> from pellucid.interop import from_kornia
        >>> from_kornia({"name": "RandomAffine", "degrees": [0, 30], "p": 1.0})[0].degrees  # which turns clockwise there
        (-30.0, 0.0)
    """
    return whole(read_kornia(source, match=match, size=size, unknown=unknown))


def read_kornia(
    source: Any, *, match: Match = "nearest", size: tuple[int, int] | None = None, unknown: Unknown = "refuse"
) -> Imported:
    """Return what :func:`from_kornia` imports, with notes, and with a list of missing operations instead of an error.

    Args:
        source, size: as for :func:`from_kornia`.

    Example:
        >>> from pellucid.interop import read_kornia
        >>> read_kornia({"name": "RandomAffine", "degrees": [0, 30], "p": 1.0}).missing
        ()
    """
    return Reader(_TABLE, NEAREST, 0, match, NEAR, size, wraps(unknown, "kornia")).imported(described(source))


def described(source: Any) -> Any:
    """Describe an augmentation of kornia as plain data."""
    if isinstance(source, Mapping):
        return source
    name = type(source).__name__
    if name == "PatchSequential":
        return _cells_of(source)
    if name in ("AugmentationSequential", "ImageSequential", "VideoSequential", "Sequential"):
        found = {"name": "Sequential", "transforms": [described(one) for one in source.children()]}
        found |= {key: getattr(source, key) for key in ("random_apply", "same_on_batch") if getattr(source, key, False)}
        extra = {str(getattr(key, "name", key)): value for key, value in getattr(source, "extra_args", {}).items()}
        return found | {"masks": _masks(extra)} if hasattr(source, "extra_args") else found
    return arguments_of(source, _kept)


def _cells_of(source: Any) -> dict[str, Any]:
    """Describe a `PatchSequential`; it stores the number of applied transforms as a half-open range."""
    inner, some, weights = [described(one) for one in source.children()], source.random_apply, source.random_apply_weights
    if some:
        least, most = some[0], some[1] - 1
        some = True if source.patchwise_apply or least == most == len(inner) else (least, most)
    weights = None if weights is None or len(set(_plain(weights))) == 1 else _plain(weights)
    kept = {key: getattr(source, key) for key in ("grid_size", "padding", "patchwise_apply", "same_on_batch")}
    return {"name": "PatchSequential", "transforms": inner, **kept, "random_apply": some, "random_apply_weights": weights}


def _masks(extra: Mapping[str, Any]) -> str:
    """The interpolation of a sequence's masks; by default, masks are resampled like pictures."""
    mode = extra.get("MASK", {}).get("resample", "as pictures")
    return str(getattr(mode, "name", mode)).lower()


def _kept(source: Any, name: str) -> Any:
    """Find an argument in the places where kornia keeps it: samplers, flags, generators, or the object itself."""
    flags, generator = getattr(source, "flags", {}), getattr(source, "_param_generator", None)
    ranges = {one[1].removesuffix("_factor"): one[0] for one in getattr(generator, "samplers", ())}
    ranges |= {f"{name}_limit": value for name, value in ranges.items() if name.endswith("_shift")}
    if name == "order":
        return getattr(source, "_fixed_order", None)
    for holder in (ranges, flags, vars(generator) if generator is not None else {}, vars(source)):
        if name in holder:
            return _plain(holder[name])
    return _plain(getattr(source, name))


def _plain(value: Any) -> Any:
    value = getattr(value, "name", value) if type(value).__module__.startswith("kornia") else value
    return value.tolist() if isinstance(value, Tensor) else value


def _sequence(given: Given, reader: Reader, where: str) -> Made:
    given.only("random_apply", False, default=False, reason="a number of them, in any order", nearest="SomeOf")
    given.only("masks", "nearest", default="nearest", reason="masks take the nearest pixel here", nearest="Resample.NEAREST")
    given.idle("it says how results are returned", "keepdim", "data_keys", "transformation_matrix_mode")
    if given("same_on_batch"):
        reader.set(same_on_batch=True)
    return [one for branch in reader.each(given("transforms"), f"{where}.transforms") for one in branch]


def _patches(given: Given, reader: Reader, where: str) -> Made:
    """Read PatchSequential: all transforms for each cell, or some that are drawn for each cell."""
    per_cell, some, grid = given("patchwise_apply", True), given("random_apply", False), given("grid_size", (4, 4))
    given.idle("it says how results are returned", "keepdim")
    given.only("padding", "same", default="same", reason="nothing of the picture is cut off here", nearest="same")
    given.only("random_apply_weights", None, default=None, reason="all are equally likely here", nearest="None")
    reader.note("PatchSequential: where the grid does not divide a picture, its right and lower cells repeat its edge here")
    inner = [one for branch in reader.each(given("transforms"), f"{where}.transforms") for one in branch]
    if per_cell and not some:
        given.near("patchwise_apply=True", "each cell has a transform of its own", "one of them for each cell")
        inner = [ours.OneOf(inner)]
    elif some is True and not per_cell:
        inner = [ours.Shuffle(inner)]
    elif some:
        least, most = (1, 4) if per_cell else (some, some) if is_number(some) else (*some, len(inner))[:2]
        given.near(f"random_apply={some!r}", "they come in any order, and may come twice", "SomeOf, in the order of the list")
        counts = [ours.SomeOf(inner, n=n) for n in range(min(least, len(inner)), min(most, len(inner)) + 1)]
        inner = counts if len(counts) == 1 else [ours.OneOf(counts)]
    return ours.PerPatch(inner, grid, same_on_batch=bool(given("same_on_batch", False)))


def _corner_light(given: Given, reader: Reader, where: str) -> Made:
    low, high = pair(given("sign", (-1.0, 1.0)), "sign", around=0.0)
    sign = 1.0 if low >= 0.0 else -1.0 if high < 0.0 else Categorical((-1.0, 1.0), (-low, high) if low + high else None)
    return ours.RandomCornerIllumination(given("gain", (0.01, 0.2)), sign=sign, **_common(given, 0.5))


def _common(given: Given, default: float) -> dict[str, Any]:
    given.idle("it says how results are returned", "keepdim", "return_transform")
    given.only("p_batch", 1, 1.0, default=1.0, reason="samples are gated, not batches", nearest="p")
    return {"p": given("p", default), "same_on_batch": given("same_on_batch", False)}


def _warp(given: Given) -> dict[str, Any]:
    """Read the interpolation and border of a warp."""
    mode = str(given("resample", "bilinear")).lower()
    padding = str(given("padding_mode", "zeros")).lower()
    if mode not in ("bilinear", "nearest"):
        given.near(f"resample={mode!r}", "its bicubic has a = -0.75, ours a = -0.5", "bicubic")
        mode = "bicubic"
    if padding not in ("zeros", "border"):
        given.near(f"padding_mode={padding!r}", "its reflections mirror at other places", "border")
        padding = "border"
    if padding == "zeros":
        given.idle("both mean the same map", "align_corners")
    elif given("align_corners", False):
        given.near("align_corners=True", "half a pixel is kept at borders here", "align_corners=False")
    return {"interpolation": mode, "padding_mode": padding, "fill": 0.0}


def _affine(given: Given, reader: Reader, where: str) -> Made:
    """Read RandomAffine, whose angles turn clockwise."""
    given.only("fill_value", None, default=None, reason="zeros outside", nearest="RandomAffine(fill=...)")
    low, high = pair(given("degrees"), "degrees", around=0.0)
    scale, shear, shift = given("scale"), given("shear"), given("translate")
    shift = (0.0, shift) if is_number(shift) else shift  # a single number shifts only vertically
    if shear is not None:
        given.near("shear", "its shear has another order and sign", "the same range of shears")
    options = {**_warp(given), **_common(given, 0.5)}
    return ours.RandomAffine((0.0 - high, 0.0 - low), translate=shift, scale=scale, shear=shear, **options)


def _rotation(given: Given, reader: Reader, where: str) -> Made:
    return ours.RandomRotation(pair(given("degrees"), "degrees", around=0.0), **_warp(given), **_common(given, 0.5))


def _translation(given: Given, reader: Reader, where: str) -> Made:
    """Read RandomTranslate, where an axis without a range does not move."""
    ranges = {option: 0.0 if given(option) is None else given(option) for option in ("translate_x", "translate_y")}
    shifts = tuple(pair(value, option, around=0.0) for option, value in ranges.items())
    return ours.RandomTranslate(shifts, **_warp(given), **_common(given, 0.5))


def _jitter(given: Given, reader: Reader, where: str) -> Made:
    """Read ColorJitter, whose factors mean the same as torchvision's, unlike those of kornia's single transforms."""
    given.only("order", None, default=None, reason="the order is drawn here", nearest="order=None")
    reader.note("ColorJitter: one order for the batch there, one per sample here")
    parts = {name: given(name, 0.0) for name in ("brightness", "contrast", "saturation")}
    parts["hue"] = half_turn(given, given("hue", 0.0))
    return ours.ColorJitter(**parts, clip="each", **_common(given, 1.0))


def _blur(given: Given, reader: Reader, where: str) -> Made:
    """Read RandomGaussianBlur, whose kernel is (vertical, horizontal)."""
    given.idle("both compute the same weights", "separable")
    given.only("border_type", "reflect", "REFLECT", default="reflect", reason="borders mirror here", nearest="reflect")
    return ours.RandomGaussianBlur(given("kernel_size"), sigma=given("sigma"), **_common(given, 0.5))


def _sliced(given: Given) -> None:
    """Accept crops by slices; the other mode resamples."""
    given.only("cropping_mode", "slice", default="slice", reason="it resamples, off whole pixels", nearest="cropping_mode='slice'")
    given.idle("they concern crops that resample", "resample", "align_corners")


def _crop(given: Given, reader: Reader, where: str) -> Made:
    _sliced(given)
    mode = given("padding_mode", "constant")
    padding, fill = given("padding"), given("fill", 0.0)
    return ours.RandomCrop(
        given("size"),
        padding=padding,
        pad_if_needed=given("pad_if_needed", False),
        fill=fill,
        mask_fill=mask_fill_of(fill, reader),
        padding_mode="border" if mode == "replicate" else mode,
        **_common(given, 1.0),
    )


def _certain(given: Given, reader: Reader, where: str) -> Made:
    """Read CenterCrop, Normalize and Denormalize, which are always applied."""
    given.idle("it says how results are returned", "keepdim")
    given.idle("nothing is drawn", "same_on_batch", "p_batch")
    given.only("p", 1, default=1.0, reason="all pictures of a batch have one size and unit", nearest="p=1")
    if given.name == "CenterCrop":
        _sliced(given)
        return ours.CenterCrop(given("size"))
    return getattr(ours, given.name)(given("mean"), given("std"))


def _solarize(given: Given, reader: Reader, where: str) -> Made:
    added = given("additions", 0.1)
    if added not in (0, 0.0, (0.0, 0.0)):
        given.near(f"additions={added}", "it adds a number before inverting", "additions=0")
    value = given("thresholds", 0.1)
    return ours.RandomSolarize((0.5 - value, 0.5 + value) if is_number(value) else value, **_common(given, 0.5))


def _made(name: str, p: float, always: Mapping[str, Any] | None = None, /, **options: Option) -> Build:
    """Return a reader that makes one transform; each of its fields comes from (kornia's option, its default, a conversion)."""

    def read(given: Given, reader: Reader, where: str) -> Made:
        kept: Made = getattr(ours, name)(**(always or {}), **fields_of(given, options), **_common(given, p))
        return kept

    return read


def _chance(name: str, p: float = 0.5) -> Build:
    """Return a reader for an augmentation whose only option is its probability."""

    def read(given: Given, reader: Reader, where: str) -> Made:
        given.only("max_val", 1, default=1.0, reason="1 is white here", nearest="max_val=1")
        given.only("rgb_weights", None, default=None, reason="one kind of luma", nearest="rgb_weights=None")
        given.idle("nothing leaves [0, 1]", "clip_output")
        return _made(name, p)(given, reader, where)

    return read


def _factors(option: str, default: Any, less: float = 0.0) -> Option:
    """Describe an option that is a range of non-negative factors around 1, from which ``less`` is subtracted."""

    def change(value: Any) -> tuple[float, float]:
        low, high = pair(value, option, around=1.0)
        return max(0.0, low) - less, high - less

    return option, default, change


_CLIP: Option = ("clip_output", True, lambda clips: "end" if clips else "none")


_TABLE: Table = {
    **dict.fromkeys(("Sequential", "AugmentationSequential", "ImageSequential"), _sequence),
    "PatchSequential": _patches,
    "RandomLinearCornerIllumination": _corner_light,
    **{name: _chance(name) for name in ("RandomHorizontalFlip", "RandomVerticalFlip", "RandomInvert", "RandomEqualize")},
    "RandomAffine": _affine,
    "RandomRotation": _rotation,
    "RandomTranslate": _translation,
    "RandomCrop": _crop,
    "ColorJitter": _jitter,
    # kornia's brightness adds the factor minus 1; its contrast scales about black, as RandomBrightness does.
    "RandomBrightness": _made(
        "RandomBrightnessContrast", 1.0, {"contrast": 0.0}, brightness=_factors("brightness", (1.0, 1.0), 1.0), clip=_CLIP
    ),
    "RandomContrast": _made("RandomBrightness", 1.0, brightness=_factors("contrast", (1.0, 1.0)), clip=_CLIP),
    "RandomHue": _made("RandomHue", 1.0, hue=spread("hue", (0.0, 0.0), 0.0)),
    "RandomGamma": _made("RandomGamma", 1.0, gamma=("gamma", (1.0, 1.0), asis), gain=("gain", (1.0, 1.0), asis)),
    "RandomAutoContrast": _chance("RandomAutoContrast", 1.0),
    "RandomChannelShuffle": _chance("RandomChannelShuffle"),
    "RandomGrayscale": _chance("RandomGrayscale", 0.1),
    "RandomRGBShift": _made(
        "RGBShift", 0.5, **{name: spread(f"{name[0]}_shift_limit", 0.5, 0.0) for name in ("red", "green", "blue")}
    ),
    "RandomGaussianBlur": _blur,
    "RandomGaussianNoise": _made("RandomGaussianNoise", 0.5, {"clip": "none"}, mean=("mean", 0.0, asis), sigma=("std", 1.0, asis)),
    "RandomSolarize": _solarize,
    **dict.fromkeys(("CenterCrop", "Normalize", "Denormalize"), _certain),
}
