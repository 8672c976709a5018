"""Leaving out boxes and points that are no longer in the picture, with the labels that stand beside them.

Owns: which entries have a row for every box.
Must not: decide what is valid.
Read next: ``../pipeline/applying.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.errors import invalid
from pellucid.targets.kinds import BOXES, KINDS, VALID, kind_in
from pellucid.targets.options import Options

__all__ = ["sieved"]

_BESIDE = ("labels", "label", "class_labels", "category_ids", "iscrowd", "masks")
"""What has a row for every box, where it is no single number; ``labels_left`` goes with ``boxes_left``. So have labels that
``targets=`` names; masks that it names are pictures of their own. ``keypoint_labels`` have one for every keypoint.
"""


def sieved(result: dict[str, Any], untouched: dict[str, Any], options: Options, count: int | None) -> dict[str, Any]:
    """Rows whose flags say no are left out of a result, and the same rows of the labels.

    Args:
        result: what was transformed, and its flags.
        untouched: the rest.
        options: of the pipeline.
        count: how many pictures a list has; None for one picture.
    """
    everything = {**result, **untouched}
    for key in [name for name in result if f"{name}_{VALID}" in result]:
        flags = result[f"{key}_{VALID}"]
        if _of_objects(flags):
            continue  # points of objects stay, those that are gone as well: an object goes with its box
        other = _partner(key, result, options)
        flags = flags if other is None else _both(flags, result[f"{other}_{VALID}"])
        beside = _beside(key, everything, options) if other is None or key < other else []
        for name in (key, f"{key}_{VALID}", *beside):
            at = f"batch[{name!r}]"
            if count is None:
                everything[name] = _kept(at, everything[name], flags, beside)
            elif not isinstance(everything[name], Sequence | Tensor | np.ndarray) or len(everything[name]) != count:
                raise invalid(
                    at, expected=f"{count} entries, one per picture, to leave rows out of", got=type(everything[name]).__name__
                )
            else:
                everything[name] = [_kept(at, one, flag, beside) for one, flag in zip(everything[name], flags, strict=True)]
    return everything


def _partner(key: str, result: dict[str, Any], options: Options) -> str | None:
    """The polygons of the same objects as boxes, or their boxes: of as many rows, under a key that ends the same."""
    mine = kind_in(key, result[key], options)
    if mine is None or (mine is not BOXES and not mine.corners):
        return None
    for name in result:
        kind = kind_in(name, result[name], options) if f"{name}_{VALID}" in result else None
        objects = kind is not None and kind is not mine and (kind is BOXES or kind.corners)
        if objects and _rest(name) == _rest(key) and _counts(result[f"{name}_{VALID}"]) == _counts(result[f"{key}_{VALID}"]):
            return name
    return None


def _rest(key: str) -> str:
    return "".join(key.partition("_")[1:])


def _counts(flags: Tensor | list[Tensor]) -> list[int]:
    return [len(one) for one in flags] if isinstance(flags, list) else [flags.shape[-1]]


def _both(flags: Any, others: Any) -> Any:
    return flags & others if isinstance(flags, Tensor) else [one & other for one, other in zip(flags, others, strict=True)]


def _beside(key: str, entries: dict[str, Any], options: Options) -> list[str]:
    kind = kind_in(key, entries[key], options)
    points = kind is KINDS["keypoints"]
    if kind is None or (kind is not BOXES and not kind.corners and not points):
        return []
    rest, said = _rest(key), options.targets
    labels, others = ("keypoint_labels", ("keypoint_labels",)) if points else ("labels", _BESIDE)
    names = [at for name in others if (at := f"{name}{rest}") in entries and said.get(at, labels) == labels]
    names += [name for name, kind in said.items() if kind == labels and name in entries and not rest]
    kinds = {name: kind_in(name, entries[name], options) for name in names}
    found = [name for name, kind in kinds.items() if kind is not None and (not kind.axes or name.startswith("masks"))]
    at = f"keypoints{rest}"
    return found + ([at, f"{at}_{VALID}"] if not points and _of_objects(entries.get(f"{at}_{VALID}")) else [])


def _of_objects(flags: Tensor | list[Tensor] | None) -> bool:
    """Whether these are flags of keypoints (N, K) that each object has."""
    one = flags[0] if isinstance(flags, list) and flags else flags
    return isinstance(one, Tensor) and one.dim() == 2


def _kept(name: str, value: Any, flags: Tensor, beside: Sequence[str]) -> Any:
    """The rows whose flags say yes."""
    keep = torch.nonzero(flags).flatten()
    rows: int | None = None
    take: Callable[[], Any] = lambda: value  # noqa: E731 - one number is the label of the picture
    if isinstance(value, Tensor) and value.dim():
        rows, take = len(value), lambda: value[keep.to(value.device)]
    elif isinstance(value, np.ndarray) and value.ndim:
        rows, take = len(value), lambda: value[keep.cpu().numpy()]
    elif isinstance(value, list | tuple):
        rows, take = len(value), lambda: type(value)(value[i] for i in keep.tolist())
    if rows is not None and rows != len(flags):
        fix = f"Pass passthrough=({name[7:-2]!r},) where it belongs to the picture." if beside else ""
        raise invalid(name, expected=f"{len(flags)} rows, one per box or keypoint", got=rows, fix=fix)
    return take()
