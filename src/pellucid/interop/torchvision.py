"""Import torchvision's pipelines, v1 and v2.

Owns: the translation of each of its transforms and options.
Must not: import torchvision.
Read next: ``../transforms/choices.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from pellucid import transforms as ours
from pellucid.core.arguments import is_number, plain
from pellucid.interop.nearest import asis, elastic_of, half_turn, made
from pellucid.interop.nearest_tables import TORCHVISION as NEAR
from pellucid.interop.nearest_tables import TORCHVISION_NEAREST as NEAREST
from pellucid.interop.reading import (
    Cannot,
    Given,
    Imported,
    Made,
    Match,
    Reader,
    Table,
    Unknown,
    arguments_of,
    fractions,
    gated,
    integers,
    mask_fill_of,
    whole,
    wraps,
)
from pellucid.nn import LinearTransformation
from pellucid.pipeline import Pipeline
from pellucid.policy import AugMix, AutoAugment, RandAugment, TrivialAugmentWide

__all__ = ["described", "from_torchvision", "read_torchvision"]


def from_torchvision(
    source: Any, *, match: Match = "nearest", size: tuple[int, int] | None = None, unknown: Unknown = "refuse"
) -> Pipeline:
    """Import a pipeline of ``torchvision.transforms`` or ``torchvision.transforms.v2``.

    Args:
        source: a ``Compose``, a transform, or the same as plain data: ``{"name": "Compose", "transforms": [{"name":
            "RandomRotation", "degrees": 10}]}``, for which torchvision need not be installed.
        size: (height, width) of the pictures; it becomes the size of crops that have another size for each picture there.

    Returns:
        A pipeline. The notes of :func:`read_torchvision` list differences that concern only draws (such as whole pixels there,
        continuous numbers here).

    Example:
        >>> from pellucid.interop import from_torchvision
        >>> from_torchvision({"name": "RandomAffine", "degrees": [0, 30]})[0].degrees  # which turns clockwise there
        (-30.0, 0.0)
    """
    return whole(read_torchvision(source, match=match, size=size, unknown=unknown))


def read_torchvision(
    source: Any, *, match: Match = "nearest", size: tuple[int, int] | None = None, unknown: Unknown = "refuse"
) -> Imported:
    """Return what :func:`from_torchvision` imports, with notes, and with a list of missing operations instead of an error.

    Args:
        source, size: as for :func:`from_torchvision`.

    Example:
        >>> from pellucid.interop import read_torchvision
        >>> read_torchvision({"name": "RandomHorizontalFlip"}).notes
        ()
    """
    return Reader(_TABLE, NEAREST, 0, match, NEAR, size, wraps(unknown, "torchvision")).imported(described(source))


def described(source: Any) -> Any:
    """Describe a transform of torchvision as plain data."""
    if isinstance(source, Mapping):
        return source
    if isinstance(source, list | tuple):
        return {"name": "Compose", "transforms": [described(one) for one in source]}
    if not type(source).__module__.startswith("torchvision."):
        return {"name": type(source).__name__}
    found = arguments_of(source)
    if "transforms" in found:  # its children() is empty
        found["transforms"] = [described(one) for one in found["transforms"]]
    return found


def _compose(given: Given, reader: Reader, where: str) -> Made:
    steps = given("transforms")
    if where == "pipeline":
        reader.comes(steps)
    return [one for branch in reader.each(steps, f"{where}.transforms") for one in branch]


def _choice(given: Given, reader: Reader, where: str) -> Made:
    weights = given("p|probabilities")
    return ours.OneOf(tuple(reader.each(given("transforms"), f"{where}.transforms")), weights=weights)


def _mode(given: Given, default: str) -> str:
    value = given("interpolation|resample", default)
    flags = {0: "nearest", 2: "bilinear", 3: "bicubic", 1: "lanczos", 4: "box", 5: "hamming"}
    name = str(getattr(value, "value", value)) if value is not False else "nearest"
    name = name if isinstance(value, str) else flags.get(value, name)
    if name not in ("nearest", "bilinear", "bicubic"):
        nearest = {"lanczos": "bicubic", "nearest-exact": "nearest"}.get(name, "bilinear")
        given.near(f"interpolation={name!r}", "interpolation here is nearest, bilinear or bicubic", nearest)
        return nearest
    return name


_POINTS = "Keypoints are pixel centres here, as in torchvision's flips and crops; its warps and resizes treat them as corners"


def _resizing(given: Given, reader: Reader) -> Any:
    """Read a resize's interpolation. ``nearest`` here is torchvision's ``nearest-exact``."""
    reader.note(_POINTS)
    reader.note("Resized masks: the nearest pixel here, as nearest-exact; nearest there is up to a pixel off")
    value = given("interpolation|resample", "bilinear")
    if str(getattr(value, "value", value)) == "nearest-exact":
        return "nearest"
    mode = _mode(given, "bilinear")
    if mode == "nearest":
        given.near("interpolation='nearest'", "it reads up to a pixel off", "nearest-exact, which is called nearest here")
    return mode


def _rim(reader: Reader, mode: str) -> None:
    reader.note(_POINTS)
    if mode != "nearest":
        reader.note("Borders of interpolated warps: torchvision blends the fill twice, Pellucid once")


def _fills(given: Given, reader: Reader) -> dict[str, Any]:
    """Read the fills of pictures and masks: one number counts for both; several numbers fit no mask."""
    fill: Any = given("fill|fillcolor", 0)
    mask: Any = fill
    if isinstance(fill, Mapping):
        by_name: dict[str, Any] = {getattr(kind, "__name__", str(kind)): plain(value) for kind, value in fill.items()}
        kinds = ("Image", "Tensor", "others"), ("Mask", "others")
        fill, mask = (next((by_name[kind] for kind in some if kind in by_name), 0) for some in kinds)
    return {"fill": 0.0 if fill is None else fill, "mask_fill": mask_fill_of(mask, reader)}


def _center(given: Given) -> Any:
    """Convert the centre from pixel edges to pixel centres."""
    center = given("center")
    return None if center is None else (center[0] - 0.5, center[1] - 0.5)


def _around(value: Any) -> tuple[float, float]:
    return (-value, value) if is_number(value) else (float(value[0]), float(value[1]))


def _affine(given: Given, reader: Reader, where: str) -> Made:
    low, high = _around(given("degrees"))
    translate, shear = given("translate"), given("shear")
    if translate is not None and tuple(translate) != (0, 0):
        reader.note("RandomAffine: shifts are whole pixels there, continuous here")
    mode = _mode(given, "nearest")
    _rim(reader, mode)
    return ours.RandomAffine(
        (0.0 - high, 0.0 - low),
        translate=translate,
        scale=given("scale"),
        shear=shear if shear is None or is_number(shear) or len(shear) == 2 else tuple(shear),
        interpolation=mode,  # type: ignore[arg-type] # checked
        center=_center(given),
        **_fills(given, reader),
    )


def _rotation(given: Given, reader: Reader, where: str) -> Made:
    expand = bool(given("expand", False))
    if expand:
        given.near("expand=True", "each angle has a canvas of its own there", "RandomRotation(expand=True)")
    mode: Any = _mode(given, "nearest")
    _rim(reader, mode)
    center = _center(given)  # which has no effect there either if the canvas grows
    return ours.RandomRotation(
        _around(given("degrees")), interpolation=mode, center=None if expand else center, expand=expand, **_fills(given, reader)
    )


def _perspective(given: Given, reader: Reader, where: str) -> Made:
    reader.note("RandomPerspective: corners move by whole pixels there, continuously here")
    mode: Any = _mode(given, "bilinear")
    _rim(reader, mode)
    scale = given("distortion_scale", 0.5)
    return ours.RandomPerspective(scale, p=given("p", 0.5), interpolation=mode, **_fills(given, reader))


def _resized_crop(given: Given, reader: Reader, where: str) -> Made:
    reader.note(
        "RandomResizedCrop: whole pixels there, drawn anew where they do not fit; continuous here, with proportions that fit"
    )
    mode = _resizing(given, reader)
    size, scale, ratio = _size(given("size")), given("scale", (0.08, 1.0)), given("ratio", (3 / 4, 4 / 3))
    if max(scale) > 1.0:
        reason = "it takes a central crop when a drawn one is larger than the picture"
        given.near(f"scale={scale}", reason, "areas up to the picture's")
        scale = (min(scale[0], 1.0), 1.0)
    reader.ends(where, (size, size) if is_number(size) else size)
    return ours.RandomResizedCrop(
        size, tuple(sorted(scale)), ratio=tuple(sorted(ratio)), interpolation=mode, antialias=_antialias(given, mode)
    )


def _antialias(given: Given, mode: str) -> bool:
    antialias = given("antialias", True) not in (False, None)
    if mode == "bicubic" and not antialias:
        given.near("antialias=False", "its bicubic has a = -0.75 then, ours a = -0.5", "antialias=False")
    return antialias


def _size(size: Any) -> Any:
    size = size[0] if isinstance(size, tuple) and len(size) == 1 else size
    return int(size) if is_number(size) else size


def _resize(given: Given, reader: Reader, where: str) -> Made:
    size, longest = _size(given("size")), given("max_size")
    mode = _resizing(given, reader)
    antialias = _antialias(given, mode)
    if size is None:
        reader.note("Resize(size=None): the shorter side is cut to whole pixels there, rounded here")
        return ours.LongestMaxSize(longest, interpolation=mode, antialias=antialias)
    if longest is not None:
        reason = "it cuts sides to whole pixels twice: the shorter side may be a pixel longer there"
        given.near(f"max_size={longest}", reason, "RandomShortestSize")
        reader.ends(where, None)
        return ours.RandomShortestSize((size,), longest, interpolation=mode, antialias=antialias)
    reader.ends(where, size)
    return ours.Resize(size, interpolation=mode, antialias=antialias)


def _crop(given: Given, reader: Reader, where: str) -> Made:
    return ours.RandomCrop(
        _size(given("size")),
        padding=given("padding"),
        pad_if_needed=given("pad_if_needed", False),
        padding_mode=given("padding_mode", "constant"),
        **_fills(given, reader),
    )


def _pad(given: Given, reader: Reader, where: str) -> Made:
    return ours.Pad(_size(given("padding")), padding_mode=given("padding_mode", "constant"), **_fills(given, reader))


def _jitter(given: Given, reader: Reader, where: str) -> Made:
    options = {name: given(name) for name in ("brightness", "contrast", "saturation")} | {"hue": half_turn(given, given("hue"))}
    return ours.ColorJitter(**{name: _ordered(value) for name, value in options.items() if value is not None}, clip="each")


def _ordered(value: Any) -> Any:
    """Sort a range."""
    return tuple(sorted(value)) if isinstance(value, tuple) else value


def _blur(given: Given, reader: Reader, where: str) -> Made:
    """Read GaussianBlur, whose kernel size is (horizontal, vertical)."""
    taps, sigma = given("kernel_size"), given("sigma", (0.1, 2.0))
    return ours.RandomGaussianBlur(taps if is_number(taps) else tuple(reversed(taps)), sigma=sigma)


def _noise(given: Given, reader: Reader, where: str) -> Made:
    clip: Any = "end" if given("clip", True) else "none"
    if clip == "none":
        reader.note("GaussianNoise(clip=False): bytes that leave their range wrap around there, and are clipped here")
    return ours.RandomGaussianNoise(given("mean", 0.0), given("sigma", 0.1), clip=clip)


_NEW = "results are always new tensors here"


def _erasing(given: Given, reader: Reader, where: str) -> Made:
    given.idle(_NEW, "inplace")
    value = given("value", 0)
    if value in ("random", None):
        given.near("value='random'", "its noise is normal, ours uniform", "RandomErasing(value='random')")
        value = "random"
    reader.note("RandomErasing: rectangles are of whole pixels there, continuous here")
    value = value[0] if isinstance(value, tuple) and len(value) == 1 else value
    return ours.RandomErasing(
        p=given("p", 0.5), scale=given("scale", (0.02, 0.33)), ratio=given("ratio", (0.3, 3.3)), fill=fractions(value)
    )


def _colors(given: Given, reader: Reader, where: str) -> Made:
    if given.name == "Grayscale":
        given.only("num_output_channels", 3, default=1, reason="the number of channels stays", nearest="RandomGrayscale(p=1)")
        reader.note("Grayscale: a picture of one channel keeps it; write image.expand(-1, 3, -1, -1) where three are needed")
        return ours.RandomGrayscale(p=1.0)
    given.idle(_NEW, "inplace")
    return ours.Normalize(given("mean"), given("std"))


def _floating(given: Given, reader: Reader, where: str) -> Made:
    reader.set(dtype=torch.float32)
    return None


def _dtype(given: Given, reader: Reader, where: str) -> Made:
    """Read a change of dtype; bytes become floats in [0, 1], never another range."""
    dtype, scale = given("dtype", torch.float32), given("scale", given.name == "ConvertImageDtype")
    if isinstance(dtype, Mapping):
        given.near("dtype", "one dtype for all images", "that of images")
        kinds = {str(getattr(key, "__name__", key)).rpartition(".")[2]: value for key, value in dtype.items()}
        dtype = next((kinds[key] for key in ("Image", "Tensor", "others") if kinds.get(key)), torch.float32)
    dtype = getattr(torch, dtype.removeprefix("torch."), dtype) if isinstance(dtype, str) else dtype
    if not isinstance(dtype, torch.dtype):
        raise Cannot("dtype", "one dtype for all images", "Pipeline(dtype=torch.float32)")
    if dtype.is_floating_point and not scale:
        given.near("scale=False", "8-bit images become floats in [0, 1] here, not in [0, 255]", "scale=True")
    reader.set(dtype=dtype)
    return None


def _nothing(given: Given, reader: Reader, where: str) -> Made:
    given.idle("pictures are tensors here all the way", "mode")
    return None


def _clamped(given: Given, reader: Reader, where: str) -> Made:
    """Read the clamping of boxes, which every pipeline does."""
    reason, nearest = "boxes are cut at the picture's edge", "clamping_mode='auto'"
    given.only("clamping_mode", "auto", "soft", "hard", default="auto", reason=reason, nearest=nearest)
    return None


def _sanitize(given: Given, reader: Reader, where: str) -> Made:
    reason, nearest = "labels and masks beside boxes go with them here", "labels_getter='default'"
    given.only("labels_getter", "default", default="default", reason=reason, nearest=nearest)
    reader.set(drop_invalid=True, min_area=given("min_area", 1.0), min_size=given("min_size", 1.0))
    return None


def _rand_augment(given: Given, reader: Reader, where: str) -> Made:
    _published(given)
    reader.note("RandAugment: torchvision truncates shifts to whole pixels")
    return RandAugment(given("num_ops", 2), given("magnitude", 9), bins=given("num_magnitude_bins", 31))


def _trivial(given: Given, reader: Reader, where: str) -> Made:
    _published(given)
    return TrivialAugmentWide(bins=given("num_magnitude_bins", 31))


def _auto(given: Given, reader: Reader, where: str) -> Made:
    _published(given)
    policy = given("policy", "imagenet")
    return AutoAugment(str(getattr(policy, "value", policy)))


def _augmix(given: Given, reader: Reader, where: str) -> Made:
    if _mode(given, "bilinear") != "bilinear":
        given.near("interpolation", "rotations and shears are sampled bilinearly here, as published", "bilinear")
    _unfilled(given)
    given.only("all_ops", True, default=True, reason="its other nine are not the published ones", nearest="policy.AugMix('google')")
    reader.note("AugMix: torchvision truncates shifts to whole pixels")
    depth = given("chain_depth", -1)
    options = {"severity": given("severity", 3), "width": given("mixture_width", 3), "alpha": given("alpha", 1.0)}
    return AugMix("torchvision", depth=None if depth < 1 else depth, **options)


def _elastic(given: Given, reader: Reader, where: str) -> Made:
    """Make a spline field of the same standard deviation and smoothness."""
    alpha, sigma = (given(name, default) for name, default in (("alpha", 50.0), ("sigma", 5.0)))
    for name, value in (("alpha", alpha), ("sigma", sigma)):
        if isinstance(value, tuple) and len(set(value)) > 1:
            given.near(f"{name}={value!r}", "fields are alike along both axes here", str(value[0]))
    reader.note("ElasticTransform: fields are splines here, of the same deviation and width; there they grow with width / height")
    numbers = [value[0] if isinstance(value, tuple) else value for value in (alpha, sigma)]
    options = {"interpolation": _mode(given, "bilinear"), **_fills(given, reader)}
    return elastic_of(given, float(numbers[0]), float(numbers[1]), "torchvision", **options)


def _published(given: Given) -> None:
    if _mode(given, "nearest") != "nearest":
        given.near("interpolation", "policies are sampled nearest here, as published", "nearest")
    _unfilled(given)


def _unfilled(given: Given) -> None:
    if given("fill|fillcolor", 0) not in (None, 0, (0,)):
        given.near("fill", "policies fill with 0 here", "fill=None")


_TABLE: Table = {
    "Compose": _compose,
    "Sequential": _compose,
    "RandomApply": lambda given, reader, where: gated(_compose(given, reader, where), given("p", 0.5)),
    "RandomChoice": _choice,
    "RandomOrder": lambda given, reader, where: ours.Shuffle(tuple(reader.each(given("transforms"), f"{where}.transforms"))),
    "RandomAffine": _affine,
    "RandomRotation": _rotation,
    "RandomPerspective": _perspective,
    **dict.fromkeys(("RandomResizedCrop", "RandomSizedCrop"), _resized_crop),
    **dict.fromkeys(("Resize", "Scale"), _resize),
    "RandomCrop": _crop,
    "CenterCrop": lambda given, reader, where: ours.CenterCrop(_size(given("size"))),
    "Pad": _pad,
    **{name: made(name) for name in ("RandomHorizontalFlip", "RandomVerticalFlip", "RandomInvert", "RandomEqualize")},
    "ColorJitter": _jitter,
    "RandomPhotometricDistort": made(
        "RandomPhotometricDistort", note="clipped after every step there, once at the end here",
        brightness=("brightness", (0.875, 1.125), asis), contrast=("contrast", (0.5, 1.5), asis),
        saturation=("saturation", (0.5, 1.5), asis), hue=("hue", (-0.05, 0.05), asis)),
    "RandomGrayscale": made("RandomGrayscale", 0.1),
    "RandomPosterize": made(
        "RandomPosterize", note="floats have the levels k / 2 ** bits there, those of bytes here", bits=("bits", None, asis)),
    "RandomSolarize": made("RandomSolarize", threshold=("threshold", None, lambda at: at / 255 if at > 1 else at)),
    "RandomAdjustSharpness": made("RandomSharpness", sharpness=("sharpness_factor", None, lambda factor: (factor, factor))),
    "RandomAutocontrast": made("RandomAutoContrast"),
    "RandomChannelPermutation": lambda given, reader, where: ours.RandomChannelShuffle(p=1.0),
    "GaussianBlur": _blur,
    "GaussianNoise": _noise,
    "JPEG": lambda given, reader, where: ours.RandomJPEG(integers(given("quality"), "quality"), p=1.0),
    "RandomErasing": _erasing,
    "LinearTransformation": lambda given, reader, where: ours.Lambda(
        LinearTransformation(*(torch.as_tensor(given(name, ())) for name in ("transformation_matrix", "mean_vector")))
    ),
    **dict.fromkeys(("Grayscale", "Normalize"), _colors),
    "ToTensor": _floating,
    **dict.fromkeys(("ToDtype", "ConvertDtype", "ConvertImageDtype"), _dtype),
    **dict.fromkeys(("SanitizeBoundingBoxes", "SanitizeBoundingBox"), _sanitize),
    "RandAugment": _rand_augment,
    "TrivialAugmentWide": _trivial,
    "AutoAugment": _auto,
    "AugMix": _augmix,
    "ElasticTransform": _elastic,
    **dict.fromkeys(("ToImage", "ToImageTensor", "PILToTensor", "ToPureTensor", "Identity", "ToPILImage", "ToImagePIL"), _nothing),
    **dict.fromkeys(("ClampBoundingBoxes", "ClampBoundingBox", "ClampKeyPoints"), _clamped),
}  # fmt: skip
