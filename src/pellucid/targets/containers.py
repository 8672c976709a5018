"""The forms that samples and batches come in: a picture, a dict, a dict inside of a dict, a pair (picture, target).

Owns: one flat dict of each, and results in the form of what came.
Must not: know kinds of targets or look at numbers.
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
"""Keys under which a dict of targets may stand, as torchvision's data sets have it."""


@dataclass(frozen=True)
class Form:
    """What a batch looked like.

    Args:
        bare: a picture or a list of pictures, not a dict.
        pair: ``tuple`` or ``list`` where it was (picture, target).
        within: the keys that stood in the target; None where it was a label, which is under ``labels`` here.
        under: the key of the target, in a dict.
        count: of the dicts in the target, where it was a list of them, one per picture.
    """

    bare: bool = False
    pair: type | None = None
    within: tuple[str, ...] | None = ()
    under: str | None = None
    count: int | None = None

    def closed(self, result: dict[str, Any]) -> Any:
        """A flat result in this form; validity flags stand beside what they are of."""
        if self.bare:
            return result["image"]
        if self.pair and self.within is None:
            return self.pair((result["image"], result["labels"]))
        if self.pair is None and self.under is None:
            return result
        within = self.within or ()
        inside = {key: value for key, value in result.items() if key in within or key.removesuffix("_valid") in within}
        outside = {key: value for key, value in result.items() if key not in inside}
        if self.pair:  # which has no other place for what was added
            inside |= {key: value for key, value in outside.items() if key != "image"}
        target: Any = inside
        if self.count is not None:
            target = [{key: value[i] for key, value in inside.items()} for i in range(self.count)]
        return self.pair((result["image"], target)) if self.pair else {**outside, self.under: target}


_BARE = Form(bare=True)


def opened(batch: Any) -> tuple[Any, Form]:
    """A batch as one flat dict, or as it is where it holds pictures alone; and its form."""
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
    """A class, or one for each picture: no picture has so few axes."""
    if isinstance(value, Tensor):
        return value.dim() <= 1 and not (value.is_floating_point() or value.is_complex())
    if isinstance(value, np.ndarray):
        return value.ndim <= 1 and value.dtype.kind in "iu"
    return isinstance(value, int | np.integer)


def _joined(target: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], int | None]:
    """One dict of a target, or of the targets of a list of pictures, and how many these are."""
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
            raise invalid(f"target[{key!r}]", expected="a key that stands in one place", got="it beside the target, too")
    return {**outer, **inner}
