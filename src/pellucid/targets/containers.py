"""The forms of samples and batches: a picture, a dict, a dict inside of a dict, a pair (picture, target).

Owns: turning each form into one flat dict, and results back into the form of the input.
Must not: know kinds of targets or read numbers.
Read next: ``parsing.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from pellucid.errors import invalid

__all__ = ["Form", "opened"]

_NESTED = ("target", "targets")
"""Keys that may hold a dict of targets, as in torchvision's data sets."""


@dataclass(frozen=True)
class Form:
    """The form of a batch.

    Args:
        bare: a picture or a list of pictures, not a dict.
        pair: ``tuple`` or ``list`` for a pair (picture, target), else None.
        within: the keys of the target; None for a target that is a label, which the flat dict has under ``labels``.
        under: the key of the target in a dict, if it has one.
        count: the length of a target that is a list of dicts, one per picture.
    """

    bare: bool = False
    pair: type | None = None
    within: tuple[str, ...] | None = ()
    under: str | None = None
    count: int | None = None

    def closed(self, result: dict[str, Any]) -> Any:
        """Bring a flat result into this form; validity flags go where their boxes or points are."""
        if self.bare:
            return result["image"]
        if self.pair and self.within is None:
            return self.pair((result["image"], result["labels"]))
        if self.pair is None and self.under is None:
            return result
        within = self.within or ()
        inside = {key: value for key, value in result.items() if key in within or key.removesuffix("_valid") in within}
        outside = {key: value for key, value in result.items() if key not in inside}
        if self.pair:  # a pair has no other place for keys that the call added
            inside |= {key: value for key, value in outside.items() if key != "image"}
        target: Any = inside
        if self.count is not None:
            target = [{key: value[i] for key, value in inside.items()} for i in range(self.count)]
        return self.pair((result["image"], target)) if self.pair else {**outside, self.under: target}


_BARE = Form(bare=True)


def opened(batch: Any) -> tuple[Any, Form]:
    """Return a batch as one flat dict, or unchanged if it holds pictures alone, and its form."""
    if isinstance(batch, Tensor):
        return batch, _BARE
    if isinstance(batch, Mapping):
        for key in _NESTED:
            if key in batch and _is_target(batch[key]):
                inner, count = _joined(batch[key])
                return _merged({k: v for k, v in batch.items() if k != key}, inner), Form(
                    within=tuple(inner), under=key, count=count
                )
        return batch, Form()
    if isinstance(batch, list | tuple) and len(batch) == 2:
        picture, target = batch
        kind = list if isinstance(batch, list) else tuple
        if _is_target(target):
            inner, count = _joined(target)
            return _merged({"image": picture}, inner), Form(pair=kind, within=tuple(inner), count=count)
        if _is_label(target):
            return {"image": picture, "labels": target}, Form(pair=kind, within=None)
    return batch, _BARE


def _is_target(value: object) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(one, Mapping) for one in value)


def _is_label(value: object) -> bool:
    """Return whether this is a class number, or one for each picture: pictures have more axes."""
    if isinstance(value, Tensor):
        return value.dim() <= 1 and not (value.is_floating_point() or value.is_complex())
    if isinstance(value, np.ndarray):
        return value.ndim <= 1 and value.dtype.kind in "iu"
    return isinstance(value, int | np.integer)


def _joined(target: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], int | None]:
    """Join the dicts of several pictures into one dict of lists, and return their number; None for a single dict."""
    if isinstance(target, Mapping):
        return dict(target), None
    keys = tuple(target[0])
    for i, one in enumerate(target):
        if set(one) != set(keys):
            raise invalid(f"target[{i}]", expected=f"the keys of the first, {keys}", got=tuple(one))
    return {key: [one[key] for one in target] for key in keys}, len(target)


def _merged(outer: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    for key in inner:
        if key in outer:
            raise invalid(f"target[{key!r}]", expected="each key in one place", got="it in the batch and in the target")
    return {**outer, **inner}
