"""The options of a pipeline, as one value.

Owns: their names, defaults and checks, their plain form in files, and targets that a call passes by name.
Must not: know batches.
Read next: ``parsing.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, get_args

import torch

from pellucid.boxes import BoxFormat
from pellucid.core.arguments import check_choice, check_flag, finite_number, is_number, table, texts
from pellucid.engine.plan import CANVAS_RULES
from pellucid.errors import invalid, wrong_type
from pellucid.targets.kinds import BOXES, IMAGE, KINDS, TargetKind, classes_in, kind_of
from pellucid.types import FLOATING

__all__ = ["FORMATS", "LEADING", "SIDES", "Options", "check_no_scale", "dtype_named", "kind_in", "named_targets", "told"]

_MODES = {kind.name: kind.interpolation for kind in KINDS.values() if kind.interpolation}


FORMATS: Mapping[str, tuple[BoxFormat, bool]] = {
    **{name: (name, False) for name in get_args(BoxFormat)},
    "pascal_voc": ("xyxy", False),
    "coco": ("xywh", False),
    "albumentations": ("xyxy", True),
    "yolo": ("cxcywh", True),
}
"""By name of a box format: the format of the numbers, and whether they are fractions of the picture's width and height."""

_FLAGS = ("same_on_batch", "fuse", "return_valid", "pad_targets", "drop_invalid")

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "canvas": CANVAS_RULES,
    "impl": ("auto", "reference", "cpu", "triton"),
    "out": ("tensor", "same", "numpy"),
    "cameras": ("matrix", "pose", "residual"),
}
"""The options with a few values each."""

_LIKE: Mapping[str | None, Mapping[str, Any]] = {
    None: {"out": "tensor", "drop_invalid": False, "targets": {}},
    "albumentations": {"out": "same", "drop_invalid": True, "targets": {"masks": "mask"}},
}
"""The defaults of options for each value of ``like=``, the library whose calls the pipeline takes."""

SIDES = ("colour", "geometry")
"""Groups of draws that the pictures of a sample may share, besides those of transforms by name."""

LEADING = ("flow", "disparity")
"""Kinds whose vectors may lead from one picture to another."""


@dataclass(frozen=True)
class Options:
    """The options of `Pipeline` other than its transforms and seed; its documentation explains each."""

    same_on_batch: bool = False
    fuse: bool = True
    canvas: str = "each"
    impl: str = "auto"
    out: str = "tensor"
    dtype: torch.dtype | None = None
    targets: Mapping[str, str] = field(default_factory=dict)
    passthrough: Sequence[str] = ()
    box_format: str | Mapping[str, str] = "xyxy"
    channels_last: bool | None = None
    min_area: float = 0.0
    min_visibility: float = 0.0
    min_size: float | Sequence[float] = 0.0
    mask_fill: float = 0.0
    interpolation: Mapping[str, str] = field(default_factory=dict)
    pairs: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    return_valid: bool = False
    pad_targets: bool = True
    drop_invalid: bool = False
    share: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    only: Mapping[str | int, Sequence[str]] = field(default_factory=dict)
    of: Mapping[str, Any] = field(default_factory=dict)
    per_frame: Sequence[str] = ()
    cameras: str = "matrix"

    def __post_init__(self) -> None:
        """Check every option, and keep those that come in several forms in one."""
        named = table("targets", self.targets)
        for name in _FLAGS:
            check_flag(name, getattr(self, name))
        for name, known in _CHOICES.items():
            check_choice(name, getattr(self, name), known)
        for key, kind in named.items():
            check_choice(f"targets[{key!r}]", kind, tuple(KINDS))
        if self.channels_last is not None and not isinstance(self.channels_last, bool):
            raise wrong_type("channels_last", expected="True, False or None", got=repr(self.channels_last))
        _check_mask_fill(self.mask_fill)
        _check_dtype(self.dtype)
        groups, pairs, owners = table("share", self.share), table("pairs", self.pairs), table("of", self.of)
        read = {
            "min_area": _bounded("min_area", self.min_area, math.inf, "square pixels, a number >= 0"),
            "min_visibility": _bounded("min_visibility", self.min_visibility, 1.0, "a visible fraction from 0 to 1"),
            "min_size": _sides(self.min_size),
            "targets": named,
            "passthrough": texts("passthrough", self.passthrough),
            "per_frame": texts("per_frame", self.per_frame),
            "box_format": _box_format(self.box_format, named),
            "interpolation": _interpolation(self.interpolation),
            "pairs": {key: _pairs(key, given, named) for key, given in pairs.items()},
            "share": {"colour" if name == "color" else name: _groups(name, given, named) for name, given in groups.items()},
            "only": _only(self.only, named),
            "of": {key: _owners(key, given, named) for key, given in owners.items()},
        }
        if read["only"] and not read["share"]:
            fix = "Say what they draw alike, such as share={'colour': ['left', 'right']}, or share={'colour': []} for nothing."
            raise invalid("only", expected="share= as well, because the pictures get different transforms", got="none", fix=fix)
        for name, value in read.items():
            object.__setattr__(self, name, value)

    @property
    def least(self) -> dict[str, Any]:
        """The thresholds at which a box stays valid, as options of `visible`."""
        return {"min_area": self.min_area, "min_visibility": self.min_visibility, "min_size": self.min_size}

    def box_format_of(self, key: str) -> str:
        """Return the format of the boxes under this key; torchvision's classes override it."""
        return self.box_format if isinstance(self.box_format, str) else self.box_format.get(key, "xyxy")

    def interpolation_of(self, kind: TargetKind) -> str:
        """Return the interpolation of this kind of picture; images themselves use their transforms' interpolation."""
        return self.interpolation.get(kind.name) or kind.interpolation or "bilinear"

    def settings(self) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def to_dict(self) -> dict[str, Any]:
        """Return the options as text, numbers, lists and tables; empty ones are left out."""
        dtype = None if self.dtype is None else str(self.dtype).removeprefix("torch.")
        plain = {**self.settings(), "dtype": dtype, "passthrough": list(self.passthrough), "per_frame": list(self.per_frame)}
        plain["interpolation"] = {kind: mode for kind, mode in self.interpolation.items() if mode != _MODES.get(kind)}
        plain["share"] = {name: [list(group) for group in groups] for name, groups in self.share.items()}
        plain["only"] = {str(name): list(pictures) for name, pictures in self.only.items()}
        plain["of"] = {key: list(names) for key, names in self.of.items()}
        plain["pairs"] = {key: [list(pair) for pair in pairs] for key, pairs in self.pairs.items()}
        return {name: value for name, value in plain.items() if value not in (None, [], {})}


def told(like: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the defaults of the library `like` for options that are not given."""
    if like is not None:
        check_choice("like", like, tuple(filter(None, _LIKE)))
    usual = _LIKE[like]
    said = {name: value for name, value in given.items() if value is not None or name not in usual}
    return {**usual, **said, "targets": {**usual["targets"], **table("targets", given["targets"])}}


def dtype_named(name: object) -> torch.dtype:
    """Return the torch dtype of this name."""
    dtype = getattr(torch, str(name), None)
    if not isinstance(dtype, torch.dtype):
        raise invalid("dtype", expected="the name of a torch dtype, such as 'float32'", got=repr(name))
    return dtype


def kind_in(key: str, value: object, options: Options) -> TargetKind | None:
    """Return the kind of an entry of a batch, or of one of its samples; None for a passthrough entry.

    torchvision's tensor classes decide, whatever the key is; all tensors of a list must have one class.
    """
    if key in options.passthrough:
        return None
    said, named = kind_of(key, options.targets), classes_in(value)
    if not named:
        return said
    kinds = {KINDS[one[0]] if one else said for one in named}
    found = next(iter(kinds))
    name, classes = f"batch[{key!r}]", " and ".join(sorted(one[1] if one else "Tensor" for one in named))
    if len(kinds) > 1:
        fix = 'Kinds of targets go under keys of their own: {"image": ..., "mask": ...}.'
        raise invalid(name, expected="a list of one class", got=classes, fix=fix)
    if key in options.targets and said is not found:
        fix = f"Leave {key!r} out of targets=, or take its class away: value.as_subclass(torch.Tensor)."
        got = f"tv_tensors.{classes}, whose class says {found.name if found else None}"
        raise invalid(name, expected=f"{options.targets[key]}, as targets= says", got=got, fix=fix)
    return found


def named_targets(batch: Any, given: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Return a batch of the targets that a call passed by name; raise for other names, such as ``params`` of other libraries."""
    kinds = {name: kind_of(name, options.targets) for name in given}
    first = next((name for name, kind in kinds.items() if kind is None and name not in options.passthrough), None)
    if first is not None and (batch is not None or not any(kinds.values())):
        fix = "To replay: out, record = pipeline(batch, return_record=True); pipeline.apply(other, record)."
        expected = "no such argument; a call takes key=, return_record= and gradient_scale="
        raise wrong_type(first, expected=expected, got=f"{first}=...", fix=fix)
    if batch is not None:
        keys, names = ", ".join(f"{name!r}: ..." for name in given), ", ".join(f"{name}=..." for name in given)
        fix = f"Call pipeline({{'image': ..., {keys}}}), or pipeline(image=..., {names})."
        expected = "the targets as one batch, a tensor or a dict, or all of them by name"
        raise wrong_type(next(iter(given)), expected=expected, got=f"a batch and {names}", fix=fix)
    return dict(given)


def check_no_scale(gradient_scale: Any) -> None:
    """Raise for ``gradient_scale`` with a list: it is in pixels of one size, and pictures of a list differ in size."""
    if not isinstance(gradient_scale, int | float) or gradient_scale != 0:
        fix = "Call with one at a time."
        raise invalid("gradient_scale", expected="a batch of one size with it", got="a list of pictures", fix=fix)


def _bounded(name: str, value: object, high: float, expected: str) -> float:
    number = finite_number(name, value, expected)
    if not 0 <= number <= high:
        raise invalid(name, expected=expected, got=repr(value))
    return number


def _sides(value: object) -> float | tuple[float, ...]:
    """Read ``min_size``: the least side, or (height, width)."""
    expected = "pixels, a number >= 0 or (height, width)"
    if not isinstance(value, list | tuple):
        return _bounded("min_size", value, math.inf, expected)
    if len(value) != 2:
        raise invalid("min_size", expected=expected, got=repr(value))
    return tuple(_bounded("min_size", one, math.inf, expected) for one in value)


def _box_format(value: str | Mapping[str, str], named: Mapping[str, str]) -> str | dict[str, str]:
    """Read ``box_format``: one for all boxes, or one for each key of boxes."""
    if not isinstance(value, Mapping):
        check_choice("box_format", value, tuple(FORMATS))
        return value
    for key, form in value.items():
        name = f"box_format[{key!r}]"
        check_choice(name, form, tuple(FORMATS))
        if kind_of(key, named) is not BOXES:
            raise invalid(name, expected="the key of boxes", got=repr(key), fix=f"Pass targets={{{key!r}: 'boxes'}}, too.")
    return dict(value)


def _interpolation(value: object) -> dict[str, str]:
    """Read ``interpolation``: by kind of picture, with the defaults of the kinds that are not named."""
    modes = table("interpolation", value)
    for kind, mode in modes.items():
        check_choice("interpolation", kind, tuple(name for name, one in KINDS.items() if one.interpolation))
        known = ("nearest", "bilinear", "bicubic", *(("majority",) if kind == "labelmap" else ()))
        check_choice(f"interpolation[{kind!r}]", mode, known)
    return {**_MODES, **modes}


def _pairs(key: str, pairs: object, named: Mapping[str, str]) -> tuple[tuple[int, int], ...]:
    """Read pairs of indices that a mirror swaps (left and right); each index may be in one pair."""
    name, expected = f"pairs[{key!r}]", "pairs of places that differ, such as [(1, 2), (3, 4)]"
    kind = kind_of(key, named)
    if kind is None or kind.name not in ("keypoints", "heatmap", "mask", "labelmap", "points3"):
        raise invalid(
            name, expected="the key of keypoints or points3, of heatmaps or masks with channels, or of a labelmap", got=repr(key)
        )
    if not isinstance(pairs, list | tuple) or not all(isinstance(one, list | tuple) and len(one) == 2 for one in pairs):
        raise wrong_type(name, expected=expected, got=repr(pairs))
    places = [place for one in pairs for place in one]
    if not all(isinstance(place, int) and not isinstance(place, bool) for place in places):
        raise wrong_type(name, expected=expected, got=repr(pairs))
    if len(set(places)) < len(places) or min(places, default=0) < 0:
        raise invalid(name, expected=f"{expected}, none below 0 or twice", got=repr(pairs))
    return tuple((one[0], one[1]) for one in pairs)


def _groups(name: str, groups: object, named: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """Read groups of pictures; each picture may be in one group."""
    name, expected = f"share[{name!r}]", "names of pictures, such as ['left', 'right'], or a list of such groups"
    if not isinstance(groups, list | tuple) or not all(isinstance(one, str | list | tuple) for one in groups):
        raise wrong_type(name, expected=expected, got=repr(groups))
    single = all(isinstance(one, str) for one in groups)
    read = tuple(texts(name, one) for one in ((groups,) if single else groups) if one)
    pictures = [_picture(name, one, named) for group in read for one in group]
    if len(set(pictures)) < len(pictures):
        raise invalid(name, expected=f"{expected}, none twice", got=repr(groups))
    return read


def _only(given: object, named: Mapping[str, str]) -> dict[str | int, tuple[str, ...]]:
    """Read ``only``: by a transform's name or place, its pictures. Places are text in files."""
    read = table("only", {str(key): value for key, value in given.items()} if isinstance(given, Mapping) else given)
    keyed = {int(name) if name.isdigit() else "colour" if name == "color" else name: one for name, one in read.items()}
    return {
        key: tuple(_picture(f"only[{key!r}]", one, named) for one in texts(f"only[{key!r}]", pictures))
        for key, pictures in keyed.items()
    }


def _owners(key: str, names: object, named: Mapping[str, str]) -> tuple[str, ...]:
    """Read ``of``: the picture of a target, or for flow and disparity the two pictures that it leads between."""
    read = (names,) if isinstance(names, str) else texts(f"of[{key!r}]", names)
    kind = kind_of(key, named)
    if len(read) != 1 and (len(read) != 2 or kind is None or kind.name not in LEADING):
        raise invalid(f"of[{key!r}]", expected="one picture, or for flow and disparity the two they lead between", got=repr(names))
    return tuple(_picture(f"of[{key!r}]", one, named) for one in read)


def _picture(name: str, key: object, named: Mapping[str, str]) -> str:
    if not isinstance(key, str) or kind_of(key, named) is not IMAGE:
        raise invalid(name, expected="the key of a picture", got=repr(key), fix=f"Pass targets={{{key!r}: 'image'}}, too.")
    return key


def _check_mask_fill(value: object) -> None:
    if not is_number(value) or (isinstance(value, int) and abs(value) > 2**63):
        raise wrong_type("mask_fill", expected="a number that a mask can hold", got=repr(value))


def _check_dtype(dtype: object) -> None:
    if dtype is None or (isinstance(dtype, torch.dtype) and dtype in (*FLOATING, torch.uint8)):
        return
    wrong = invalid if isinstance(dtype, torch.dtype) else wrong_type
    fix = "Convert the result where you need other numbers: pipeline(batch).to(...)."
    expected = "torch.float32, float64, float16, bfloat16 or uint8"
    raise wrong("dtype", expected=expected, got=str(dtype) if isinstance(dtype, torch.dtype) else repr(dtype), fix=fix)
