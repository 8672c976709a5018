"""Compiled functions that are called again and again with arguments of the same types.

Owns: `alike`.
Must not: be imported by what is compiled, whose code would be compiled anew with every change of this file.
Read next: ``kept.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

__all__ = ["alike"]


def alike(function: Callable[..., Any]) -> Callable[..., Any]:
    """One of Numba's for calls whose arguments have the same types each time: it looks at them the first time alone, which takes
    longer than a small picture.
    """
    entry: Callable[..., Any] | None = None

    def call(*given: Any) -> Any:
        nonlocal entry
        if entry is not None:
            return entry(*given)
        found, made = function(*given), cast(Any, function)
        compiled = list(made.overloads.values())
        if len(compiled) > 1:
            compiled = [made.overloads.get(tuple(map(made.typeof_pyval, given)))]
        entry = function if compiled[0] is None else compiled[0].entry_point
        return found

    return call
