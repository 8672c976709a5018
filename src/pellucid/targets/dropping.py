"""Drop boxes and points that are no longer in the picture, together with their labels (``drop_invalid=True``).

Owns: which entries have a row for every box.
Must not: decide which rows are valid.
Read next: ``../pipeline/applying.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.errors import invalid
from pellucid.targets.kinds import BOXES, KINDS, VALID
from pellucid.targets.options import Options, kind_in

__all__ = ["drop_rows"]

_BESIDE = ("labels", "label", "class_labels", "category_ids", "iscrowd", "masks")
"""Entries with a row for every box, unless they are a single number. ``labels_left`` goes with ``boxes_left``, or with ``boxes`` if
there are no such boxes. Labels that ``targets=`` names have such rows, too; masks that it names count as separate pictures.
``keypoint_labels`` have a row for every keypoint.
"""


def drop_rows(result: dict[str, Any], untouched: dict[str, Any], options: Options, count: int | None) -> dict[str, Any]:
    """Return a result without the rows whose flags are False, and without the same rows of their labels.

    Args:
        result: the transformed entries and their flags.
        untouched: the entries that were not transformed.
        options: of the pipeline.
        count: the number of pictures in a list; None for one picture.
    """
    everything = {**result, **untouched}
    flags = {name: result[f"{name}_{VALID}"] for name in result if f"{name}_{VALID}" in result}
    # Keypoints of objects (N, K, 2) stay, even invisible ones; they go only with their object's box.
    flags = {name: flag for name, flag in flags.items() if not _of_objects(flag)}
    stacks = [name for name in result if name.startswith("masks") and name not in options.targets and _is_stack(result[name])]
    flags |= {name: _shown(result[name]) for name in stacks}
    for group in _groups(flags, result, options):
        beside, masks = _beside(group[0], everything, options), f"{group[0]}_{VALID}" not in result
        labels = [everything[name] if count else [everything[name]] for name in beside if name not in group]
        if masks and _counts(flags[group[0]]) not in map(_rows_of, labels):
            continue  # no labels match the channels, so these need not be objects
        keep = functools.reduce(_both, [flags[name] for name in group])
        named = [one for name in group for one in (name, f"{name}_{VALID}") if one in everything]
        for name in dict.fromkeys((*named, *beside)):
            at = f"batch[{name!r}]"
            if count is None:
                everything[name] = _kept(at, everything[name], keep, beside)
            elif not isinstance(everything[name], Sequence | Tensor | np.ndarray) or len(everything[name]) != count:
                expected = f"{count} entries, one per picture, to leave rows out of"
                raise invalid(at, expected=expected, got=type(everything[name]).__name__)
            else:
                everything[name] = [_kept(at, one, flag, beside) for one, flag in zip(everything[name], keep, strict=True)]
    return everything


def _groups(flags: Mapping[str, Any], result: dict[str, Any], options: Options) -> list[list[str]]:
    """Group the keys whose rows are the same objects: boxes, outlines and masks with equally many rows and the same ending of the
    key. Every other key is a group of its own.
    """
    groups: dict[Any, list[str]] = {}
    for name, flag in flags.items():
        kind = kind_in(name, result[name], options)
        objects = kind is not None and (kind is BOXES or kind.corners or kind.scene or not kind.move)
        groups.setdefault((_rest(name), *_counts(flag)) if objects else name, []).append(name)
    return [sorted(group, key=lambda name: f"{name}_{VALID}" not in result) for group in groups.values()]


def _rest(key: str) -> str:
    return "".join(key.partition("_")[1:])


def _is_stack(value: Any) -> bool:
    """Return whether these are masks (N, H, W), or a list of such masks for each picture."""
    return value.dim() > 2 if isinstance(value, Tensor) else isinstance(value, list) and all(map(_is_stack, value))


def _shown(masks: Any) -> Any:
    """Return which masks are not empty."""
    return masks.flatten(-2).any(-1) if isinstance(masks, Tensor) else list(map(_shown, masks))


def _counts(flags: Any) -> list[int]:
    return [len(one) for one in flags] if isinstance(flags, list) or flags.dim() > 1 else [len(flags)]


def _rows_of(labels: Sequence[Any]) -> list[int]:
    """Return the number of label rows of each picture; -1 for a single number."""
    return [len(one) if hasattr(one, "__len__") and getattr(one, "ndim", True) else -1 for one in labels]


def _both(flags: Any, others: Any) -> Any:
    if isinstance(flags, Tensor) and isinstance(others, Tensor):
        return flags & others
    return [one & other for one, other in zip(flags, others, strict=True)]


def _beside(key: str, entries: dict[str, Any], options: Options) -> list[str]:
    kind = kind_in(key, entries[key], options)
    points = kind is KINDS["keypoints"]
    if kind is None or (kind.move and kind is not BOXES and not kind.corners and not points):
        return []
    rest, named = _rest(key), options.targets
    labels, others = ("keypoint_labels", ("keypoint_labels",)) if points else ("labels", _BESIDE)
    names = [at for name in others if (at := f"{name}{rest}") in entries and named.get(at, labels) == labels]
    if not rest:
        names += [name for name, kind in named.items() if kind == labels and name in entries]
        owned = {_rest(name.removesuffix(f"_{VALID}")) for name in entries if name.endswith(f"_{VALID}")}
        names += [name for name in entries if name.startswith(f"{labels}_") and _rest(name.removeprefix("keypoint_")) not in owned]
    kinds = {name: kind_in(name, entries[name], options) for name in names}
    found = [name for name, kind in kinds.items() if kind is not None and (not kind.axes or name.startswith("masks"))]
    at = f"keypoints{rest}"
    return found + ([at, f"{at}_{VALID}"] if not points and _of_objects(entries.get(f"{at}_{VALID}")) else [])


def _of_objects(flags: Tensor | list[Tensor] | None) -> bool:
    """Return whether these are flags (N, K) of keypoints that belong to objects."""
    one = flags[0] if isinstance(flags, list) and flags else flags
    return isinstance(one, Tensor) and one.dim() == 2


def _kept(name: str, value: Any, flags: Tensor, beside: Sequence[str]) -> Any:
    """Return the rows whose flags are True."""
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
