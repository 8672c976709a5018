"""Find everything that a callable holds: tensors, modules and generators in closures, attributes, partials and used globals.

Owns: the walk over Python objects, with a readable path to each tensor.
Must not: change or call anything it meets.
Read next: ``subject.py`` (who looks for leaves), ``replay.py`` (who looks for generators).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

__all__ = ["held", "held_leaves"]

_DEPTH = 5
_LIMIT = 4000
_NOTHING = (np.ndarray, str, bytes, int, float, type(None), ModuleType, torch.dtype, torch.device)


def held(fn: Any) -> Iterator[tuple[str, Any]]:
    """Yield every object reachable from a callable once, nearest first, with its path."""
    seen: set[int] = set()
    queue: list[tuple[str, Any, int]] = [("", fn, 0)]
    while queue and len(seen) < _LIMIT:
        path, value, depth = queue.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield path, value
        if depth < _DEPTH:
            queue.extend(
                (f"{path}.{name}" if path and name else path or name, child, depth + 1) for name, child in _children(value)
            )


def held_leaves(fn: Any) -> dict[str, torch.Tensor]:
    """Return the floating-point leaves that require a gradient and are reachable from a callable, by path."""
    tensors: dict[str, torch.Tensor] = {}
    known: set[int] = set()
    objects = list(held(fn))
    objects.sort(key=lambda pair: not isinstance(pair[1], nn.Module))  # a module's own names before an optimizer's
    for path, value in objects:
        named = (
            value.named_parameters() if isinstance(value, nn.Module) else [("", value)] if isinstance(value, torch.Tensor) else []
        )
        for name, leaf in named:
            if id(leaf) in known or not (leaf.is_leaf and leaf.requires_grad and leaf.is_floating_point()):
                continue
            known.add(id(leaf))
            tensors[".".join(part for part in (path, name) if part) or "tensor"] = leaf
    return tensors


def _children(value: Any) -> list[tuple[str, Any]]:
    """Return the objects that a value holds, with their names; names that users do not write are empty."""
    if isinstance(value, (torch.Tensor, *_NOTHING)):
        return []
    if isinstance(value, functools.partial):
        return [("", value.func), *((str(i), a) for i, a in enumerate(value.args)), *value.keywords.items()]
    if isinstance(value, dict):
        return [(str(k), v) for k, v in value.items()]
    if isinstance(value, list | tuple | set):
        return [(str(i), v) for i, v in enumerate(value)]
    if isinstance(value, nn.Module):
        return [
            (".".join(part for part in (path, name) if part), child)
            for path, module in value.named_modules()
            for name, child in module.__dict__.items()
            if not name.startswith("_") or name not in nn.Module().__dict__
        ]
    names: list[tuple[str, Any]] = []
    code = getattr(value, "__code__", None)
    if code is not None:
        cells = getattr(value, "__closure__", None) or ()
        names += [(name, c.cell_contents) for name, c in zip(code.co_freevars, cells, strict=False) if _filled(c)]
        scope = getattr(value, "__globals__", {})
        names += [(name, scope[name]) for name in sorted(_names(code)) if name in scope and not isinstance(scope[name], type)]
        names += [(name, v) for name, v in (getattr(value, "__kwdefaults__", None) or {}).items()]
        names += [("", v) for v in getattr(value, "__defaults__", None) or ()]
    owner = getattr(value, "__self__", None)
    if owner is not None:
        names.append(("", owner))
    return names + list(getattr(value, "__dict__", {}).items())


def _names(code: CodeType) -> set[str]:
    """Return the global names a function may read, those of the functions defined inside it included."""
    return set(code.co_names).union(*(_names(c) for c in code.co_consts if isinstance(c, CodeType)))


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading an empty cell raises
    except ValueError:
        return False
    return True
