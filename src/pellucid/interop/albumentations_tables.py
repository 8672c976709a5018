"""albumentations' pipelines as plain data.

Owns: reading names, versions and options of targets.
Must not: import albumentations.
Read next: ``albumentations.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pellucid.interop.reading import TARGETS, Cannot, Given, Reader

__all__ = ["BORDERS", "chance_of", "described", "read_targets"]


def described(source: Any) -> tuple[int, Any]:
    """Return the major version of albumentations, and a pipeline as plain data."""
    if not isinstance(source, Mapping):
        source = source.to_dict() if hasattr(source, "to_dict") else {"__class_fullname__": type(source).__name__}
    table = _named(source.get("transform", source))
    version = str(source.get("__version__") or _looks(table)).partition(".")[0]
    return max(int(version) if version.isdigit() else 2, 1), table


_OLD = frozenset([
    "always_apply", "var_limit", "alpha_affine", "fill_value", "mask_fill_value", "max_holes", "min_holes", "max_height",
    "num_holes", "quality_lower", "quality_upper", "mask_value", "cval_mask", "scale_min", "scale_max", "multiplier_limit",
    "max_h_size", "max_w_size", "fog_coef_lower", "num_shadows_lower", "snow_point_lower", "slant_lower", "angle_lower",
    "value", "unit_size_min", "holes_number_x", "pad_mode",
])  # fmt: skip
_GONE = frozenset(["Flip", "Cutout", "RandomBrightness", "RandomContrast", "JpegCompression", "ToTensor", "IAAAffine"])


def _looks(table: Any) -> str:
    """Guess the version of a description without one: 1 if it has names that version 2 removed."""
    if not isinstance(table, Mapping):
        return "2"
    inner = table.get("transforms")
    old = not _OLD.isdisjoint(table) or table.get("name") in _GONE or str(table.get("name")).startswith("IAA")
    sized = table.get("name") in ("RandomResizedCrop", "RandomSizedCrop") and "height" in table
    return "1" if old or sized or any(_looks(one) == "1" for one in (inner if isinstance(inner, list | tuple) else ())) else "2"


def _named(table: Any) -> Any:
    if not isinstance(table, Mapping):
        return table
    found: dict[str, Any] = {"name": str(table.get("__class_fullname__", table.get("name"))).rpartition(".")[2]}
    found |= {key: value for key, value in table.items() if key not in ("__class_fullname__", "name")}
    if found.get("always_apply") is True:
        found["p"] = 1.0
    if isinstance(table.get("transforms"), list | tuple):
        found["transforms"] = [_named(one) for one in table["transforms"]]
    return found


BORDERS = {0: "constant", 1: "border", 2: "reflection", 4: "reflect_101"}
"""Pellucid's names for OpenCV's border flags."""

_CERTAIN = (
    *("Resize", "RandomCrop", "CenterCrop", "RandomResizedCrop", "LongestMaxSize", "SmallestMaxSize", "PadIfNeeded"),
    *("FromFloat", "Normalize", "ToFloat", "ToTensorV2", "SomeOf"),
)
"""Transforms that are always applied by default."""


def chance_of(name: Any) -> float:
    """The probability that a transform has by default."""
    return 1.0 if name in _CERTAIN else 0.5


_KINDS = {"image": "image", "mask": "mask", "masks": "mask", "bboxes": "boxes", "keypoints": "keypoints"}


def read_targets(given: Given, reader: Reader) -> None:
    """Read a pipeline's options for targets: additional targets, boxes and keypoints."""
    named = {}
    for key, kind in (given("additional_targets") or {}).items():
        if kind not in _KINDS:
            raise Cannot(f"additional_targets={{{key!r}: {kind!r}}}", "there is no such kind of target here", ", ".join(_KINDS))
        named[key] = _KINDS[kind]
    boxes, points = (_options(given(name), name, reader) for name in ("bbox_params", "keypoint_params"))
    if boxes is not None:
        named |= {"masks": "mask", **_read_boxes(boxes, reader)}  # masks stay when their boxes are dropped
    if points is not None:
        named |= _read_points(points, reader, dropped=boxes is not None)
    reader.set(targets={**reader.settings.get("targets", {}), **named})
    for options in (boxes, points):
        if options is not None and options.unused:
            option = min(options.unused)
            raise Cannot(f"{options.name}.{option}={options.options[option]!r}", "this option is not known", "")


def _options(value: Any, name: str, reader: Reader) -> Given | None:
    if value is not None and not isinstance(value, Mapping):
        raise Cannot(f"{name}={value!r}", "it is no table of options")
    return None if value is None else Given(name, value, reader)


def _labels(options: Given, kind: str) -> dict[str, str]:
    """Return the names of labels beside boxes or points, with their kind here."""
    fields = options("label_fields") or ()
    plain = ("labels", "label") if kind == "labels" else ()
    return {name: kind for name in ((fields,) if isinstance(fields, str) else fields) if name not in plain}


def _read_boxes(options: Given, reader: Reader) -> dict[str, str]:
    reader.set(box_format=options("format", "pascal_voc"), drop_invalid=True, min_area=options("min_area") or 0.0)
    least = options("min_visibility") or 0.0
    sides = tuple(options(name) or 0.0 for name in ("min_height", "min_width"))
    reader.set(min_visibility=least, **({"min_size": sides} if any(sides) else {}))
    options.idle("rows without size never count as boxes here", "filter_invalid_bboxes")
    kept = f"{TARGETS}bbox_params.max_accept_ratio: boxes that it leaves out there are kept here"
    options.noted("max_accept_ratio", None, default=None, text=kept)
    text = "bbox_params.clip: boxes are cut at the picture's edge after all transforms here, and before them there"
    options.noted("clip", False, None, default=False, text=text)
    each = "bbox_params.check_each_transform: min_visibility is of all transforms together here, of each one there"
    options.noted("check_each_transform", *(() if least else (True,)), False, default=True, text=each)
    return _labels(options, "labels")


def _read_points(options: Given, reader: Reader, *, dropped: bool) -> dict[str, str]:
    form = options("format", "xy")
    if form not in ("xy", "xyz"):
        reader.note(f"{TARGETS}keypoint_params: keypoints are (x, y) here, not {form}")
    options.idle("it concerns angles of keypoints, which are not imported", "angle_in_degrees")
    options.noted(
        "check_each_transform",
        True,
        default=True,
        text="keypoint_params.check_each_transform: keypoints that leave the picture stay invalid here",
    )
    if options("remove_invisible", True):
        reader.set(drop_invalid=True)
    elif dropped:
        reader.note(f"{TARGETS}keypoint_params.remove_invisible=False: keypoints that leave are left out here, as boxes are")
    return _labels(options, "keypoint_labels")
