"""Fast calls of compiled functions whose arguments always have the same types.

Owns: `alike`.
Must not: be imported by a file with compiled functions: these would be compiled anew with every change of this file.
Read next: ``kept.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

__all__ = ["alike"]


def alike(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a Numba function whose arguments have the same types in every call: only the first call dispatches on the types.

    Dispatching takes longer than computing a small picture.
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
