"""albumentations' pipelines as plain data, and what comes nearest to those of its transforms that have no equal.

Owns: reading names, versions and options of targets, and the reasons for what is refused as a whole.
Must not: import albumentations.
Read next: ``albumentations.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pellucid.interop.reading import TARGETS, Cannot, Given, Reader

__all__ = ["NEAREST", "chance_of", "described", "read_targets"]


def described(source: Any) -> tuple[int, Any]:
    """The major version, and a pipeline as plain data."""
    if not isinstance(source, Mapping):
        source = source.to_dict() if hasattr(source, "to_dict") else {"__class_fullname__": type(source).__name__}
    version = int(str(source.get("__version__", "2")).partition(".")[0] or 2)
    return max(version, 1), _named(source.get("transform", source))


def _named(table: Any) -> Any:
    if not isinstance(table, Mapping):
        return table
    found: dict[str, Any] = {"name": str(table.get("__class_fullname__", table.get("name"))).rpartition(".")[2]}
    found |= {key: value for key, value in table.items() if key not in ("__class_fullname__", "name", "always_apply")}
    if table.get("always_apply") is True:
        found["p"] = 1.0
    if isinstance(table.get("transforms"), list | tuple):
        found["transforms"] = [_named(one) for one in table["transforms"]]
    return found


NEAREST = {
    "Equalize": ("its levels are up to 3 away from Pillow's", "RandomEqualize"),
    **dict.fromkeys(("ImageCompression", "JpegCompression"), ("what it decodes is not what Pillow reads", "RandomJPEG")),
    "GridDistortion": ("its grid is a pixel off at rest", ""),
    "OpticalDistortion": ("a lens has other parameters here", ""),
    "MotionBlur": ("its lines are drawn with whole pixels", "RandomMotionBlur"),
    "CLAHE": ("it equalises lightness alone", "RandomCLAHE"),
    "Sharpen": ("its kernel is another one", "RandomSharpness"),
    "Perspective": ("its corners move by a normal distribution", "RandomPerspective"),
    "SafeRotate": ("it shrinks so that all is seen", "RandomRotation"),
    "RandomScale": ("its size is drawn, and a batch keeps one", "RandomScale, on the same canvas"),
    "RandomSizedCrop": ("its crops are of drawn heights in pixels", "RandomResizedCrop"),
    "Cutout": ("holes are fractions of the size here", "CoarseDropout"),
    "GridDropout": ("its grid is in pixels", "GridDropout"),
    "ISONoise": ("its noise is of hue and lightness", "PoissonGaussianNoise"),
    "MultiplicativeNoise": ("noise is added here", "ShotNoise"),
    "Downscale": ("it shrinks and enlarges", "Resize, twice"),
    "IAAAdditiveGaussianNoise": ("imgaug's transforms left albumentations", "RandomGaussianNoise"),
    "IAASharpen": ("imgaug's transforms left albumentations", "RandomSharpness"),
    "IAAPerspective": ("imgaug's transforms left albumentations", "RandomPerspective"),
    "PiecewiseAffine": ("a mesh of its own", ""),
    "Lambda": ("a function of your own is not read", "a frozen dataclass, docs/own-transforms.md"),
}

_CERTAIN = (
    *("Resize", "RandomCrop", "CenterCrop", "RandomResizedCrop", "LongestMaxSize", "SmallestMaxSize", "PadIfNeeded"),
    *("Normalize", "ToFloat", "ToTensorV2", "SomeOf"),
)
"""What is applied for certain by default."""


def chance_of(name: Any) -> float:
    """The probability that a transform has by default."""
    return 1.0 if name in _CERTAIN else 0.5


_KINDS = {"image": "image", "mask": "mask", "masks": "mask", "bboxes": "boxes", "keypoints": "keypoints"}


def read_targets(given: Given, reader: Reader) -> None:
    """Set what a pipeline's options say of its targets."""
    named = {}
    for key, kind in (given("additional_targets") or {}).items():
        if kind not in _KINDS:
            raise Cannot(f"additional_targets={{{key!r}: {kind!r}}}", "there is no such kind of target here", ", ".join(_KINDS))
        named[key] = _KINDS[kind]
    boxes, points = (_options(given(name), name, reader) for name in ("bbox_params", "keypoint_params"))
    if boxes is not None:
        named |= _read_boxes(boxes, reader)
    if points is not None:
        named |= _read_points(points, reader, dropped=boxes is not None)
    reader.set(targets={**reader.settings.get("targets", {}), **named})
    for options in (boxes, points):
        if options is not None and options.unused:
            option = min(options.unused)
            raise Cannot(f"{options.name}.{option}={options.options[option]!r}", "this option is not known", "")


def _options(value: Any, name: str, reader: Reader) -> Given | None:
    return Given(name, value, reader) if isinstance(value, Mapping) else None


def _labels(options: Given) -> dict[str, str]:
    """Labels that stand beside boxes or points, by the names that they have there."""
    return {name: "labels" for name in options("label_fields") or () if name not in ("labels", "label")}


def _read_boxes(options: Given, reader: Reader) -> dict[str, str]:
    reader.set(box_format=options("format", "pascal_voc"), drop_invalid=True, min_area=options("min_area") or 0.0)
    least = options("min_visibility") or 0.0
    reader.set(min_visibility=least)
    options.idle("rows without size are no boxes here, whatever it says", "filter_invalid_bboxes")
    kept = "boxes that it leaves out there are kept here, where min_area and min_visibility tell"
    for name in ("min_width", "min_height"):
        options.noted(name, None, 0, default=None, text=f"{TARGETS}bbox_params.{name}: {kept}")
    options.noted("max_accept_ratio", None, default=None, text=f"{TARGETS}bbox_params.max_accept_ratio: {kept}")
    text = "bbox_params.clip: boxes are cut at the picture's edge after all transforms here, and before them there"
    options.noted("clip", False, None, default=False, text=text)
    each = "bbox_params.check_each_transform: min_visibility is of all transforms together here, of each one there"
    options.noted("check_each_transform", *(() if least else (True,)), False, default=True, text=each)
    return _labels(options)


def _read_points(options: Given, reader: Reader, *, dropped: bool) -> dict[str, str]:
    form, labels = options("format", "xy"), _labels(options)
    if form not in ("xy", "xyz"):
        reader.note(f"{TARGETS}keypoint_params: keypoints are (x, y) here, not {form}")
    options.idle("of keypoints with an angle, which is not imported", "angle_in_degrees")
    options.noted(
        "check_each_transform",
        True,
        default=True,
        text="keypoint_params.check_each_transform: keypoints that leave the picture stay invalid here",
    )
    removed = options("remove_invisible", True)
    if removed and labels:
        raise Cannot(
            f"keypoint_params.label_fields={tuple(labels)}",
            "labels follow boxes alone, where rows are left out",
            "remove_invisible=False, with keypoints_valid",
        )
    if removed:
        reader.set(drop_invalid=True)
    elif dropped:
        reader.note(f"{TARGETS}keypoint_params.remove_invisible=False: keypoints that leave are left out here, as boxes are")
    return labels
