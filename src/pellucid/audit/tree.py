"""Nested arguments and results as flat lists of named tensors.

Owns: flattening dicts, lists, tuples and dataclasses, and rebuilding arguments.
Must not: change anything but tensors.
Read next: ``subject.py``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["floats", "leaves", "rebuild"]


def leaves(value: Any, name: str = "") -> dict[str, Tensor]:
    """Return the tensors of a nested value by dotted name."""
    if isinstance(value, Tensor):
        return {name: value}
    tensors: dict[str, Tensor] = {}
    for key, child in _items(value):
        tensors.update(leaves(child, f"{name}.{key}" if name else key))
    return tensors


def floats(value: Any) -> list[Tensor]:
    """Return the real floating-point tensors of a nested value; complex ones as pairs of reals."""
    flat = [torch.view_as_real(t) if t.is_complex() else t for t in leaves(value).values()]
    return [t for t in flat if t.is_floating_point()]


def rebuild(value: Any, replace: Callable[[str, Tensor], Tensor], name: str = "") -> Any:
    """Return the same nesting with every tensor replaced by ``replace(name, tensor)``."""
    if isinstance(value, Tensor):
        return replace(name, value)
    if not _items(value):
        return value
    built = [(key, rebuild(child, replace, f"{name}.{key}" if name else key)) for key, child in _items(value)]
    if isinstance(value, Mapping):
        return type(value)(zip(value, (child for _, child in built), strict=True))  # type: ignore[call-arg]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **dict(built))
    if hasattr(value, "_fields"):
        return type(value)(*(child for _, child in built))
    return type(value)(child for _, child in built)


def _items(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(str(k), v) for k, v in value.items()]
    names = getattr(value, "_fields", None)
    if names is not None:
        return list(zip(names, value, strict=True))
    if isinstance(value, list | tuple):
        return [(str(i), v) for i, v in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value) if f.init]
    return []
