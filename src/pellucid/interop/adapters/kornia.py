"""A pipeline as a module that is called like kornia's.

Owns: the meaning of kornia's data keys.
Must not: import kornia.
Read next: ``../kornia.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.boxes import convert_boxes
from pellucid.errors import invalid
from pellucid.pipeline import Pipeline

__all__ = ["PipelineTransform"]

_KINDS = {
    "input": "image",
    "image": "image",
    "mask": "mask",
    "bbox": "keypoints",
    "bbox_xyxy": "boxes",
    "bbox_xywh": "boxes",
    "keypoints": "keypoints",
    "class": None,
    "label": None,
}


class PipelineTransform(nn.Module):
    """A pipeline with the data keys of its arguments."""

    def __init__(self, pipeline: Pipeline, data_keys: Sequence[str] | None) -> None:
        super().__init__()
        self.pipeline = pipeline
        self.data_keys = None if data_keys is None else _checked(data_keys)

    def forward(self, *inputs: Any, data_keys: Sequence[str] | None = None) -> Any:
        """Move targets by one draw: a dict, or one argument for each data key."""
        if len(inputs) == 1 and isinstance(inputs[0], dict):
            names = {
                key: max((one for one in _KINDS if key.lower().startswith(one)), key=len, default="class") for key in inputs[0]
            }
            return dict(zip(inputs[0], self._moved(list(names.values()), list(inputs[0].values())), strict=True))
        keys = self.data_keys if data_keys is None else _checked(data_keys)
        if keys is None or len(keys) != len(inputs):
            expected = "a dict" if keys is None else f"{len(keys)} arguments, {', '.join(keys)}"
            raise invalid("inputs", expected=expected, got=f"{len(inputs)} arguments", fix="Name them by data_keys=.")
        found = self._moved(keys, list(inputs))
        return found[0] if len(found) == 1 else found

    def _moved(self, keys: Sequence[str], values: list[Any]) -> list[Any]:
        given = {f"{_KINDS[key]}_{i}": _read(key, values[i]) for i, key in enumerate(keys) if _KINDS[key]}
        lists = any(isinstance(value, list) for value in given.values())  # torchgeo has lists of boxes beside batches of pictures
        found = self.pipeline({name: list(value) for name, value in given.items()} if lists else given)
        for i, key in enumerate(keys):
            if _KINDS[key]:
                name = f"{_KINDS[key]}_{i}"
                values[i] = _written(key, _as_given(found[name], given[name]))
        return values


def _checked(keys: Sequence[str]) -> list[str]:
    found = [str(key).rpartition(".")[2].lower() for key in keys]  # names of kornia's enumeration, too
    for key in found:
        if key not in _KINDS:
            raise invalid("data_keys", expected=f"names among {', '.join(_KINDS)}", got=repr(key))
    return found


def _read(key: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_read(key, one) for one in value]
    if key == "bbox_xywh":
        return convert_boxes(value, "xywh", "xyxy")
    return value.flatten(-3, -2) if key == "bbox" else value


def _as_given(found: Any, given: Any) -> Any:
    """Return lists for lists, without padded rows, and a batch for a batch."""
    if isinstance(given, list) and isinstance(found, Tensor):
        return [one[: len(was)] for one, was in zip(found, given, strict=True)]
    return torch.stack(found) if isinstance(given, Tensor) and isinstance(found, list) else found


def _written(key: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_written(key, one) for one in value]
    if key == "bbox_xywh":
        return convert_boxes(value, "xyxy", "xywh")
    return value.unflatten(-2, (-1, 4)) if key == "bbox" else value
