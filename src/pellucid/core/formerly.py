"""Calls written for older versions (positional options, old names), and calls with options that never existed.

Owns: `formerly`, which accepts old calls with a warning, and words the error for options that never existed.
Must not: cost an up-to-date call more than a comparison.
Read next: ``docstrings.py``.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import reprlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

__all__ = ["formerly"]

Called = TypeVar("Called", bound=Callable[..., Any])

_UNTIL = "0.5"
"""The version from which on such calls are errors."""


def formerly(*places: str, **names: str) -> Callable[[Called], Called]:
    """Accept keyword-only options that are passed by position, and options by old names, with a DeprecationWarning that shows the
    line to write instead. An option that does not exist raises a TypeError with the closest name.

    Args:
        places: current names of the options that used to be positional, in their old order, after those that still are.
        names: from each old name to the current one.
    """

    def decorate(call: Called) -> Called:
        known = inspect.signature(call).parameters
        free = [one.name for one in known.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
        room, most, old = len(free), len(free) + len(places), frozenset(names)
        named = frozenset(one.name for one in known.values() if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY))
        open_ended = {one.kind for one in known.values()} & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
        name = call.__qualname__.removesuffix(".__init__").rpartition(".")[2]

        @functools.wraps(call)
        def taken(*args: Any, **options: Any) -> Any:
            if room < len(args) <= most or not old.isdisjoint(options):
                options = _named(name, dict(zip(places, args[room:], strict=False)), options, names)
                args = args[:room]
                if not torch.compiler.is_compiling():
                    line = ", ".join(_written(free, args, options))
                    warnings.warn(f"Write {name}({line}); version {_UNTIL} takes nothing else.", DeprecationWarning, stacklevel=2)
            if not open_ended and (len(args) > room or not named.issuperset(options)):
                raise TypeError(_misread(name, free, sorted(named - {"self"}), args, options))
            return call(*args, **options)

        return taken  # type: ignore[return-value] # it has the signature of `call`

    return decorate


def _named(name: str, late: Mapping[str, Any], options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return all options by their current names: those passed by position, by an old name, and the others."""
    found = {one: value for one, value in options.items() if one not in names}
    for one, value in [*late.items(), *((names[old], options[old]) for old in names if old in options)]:
        if one in found:
            raise TypeError(f"{name}() got two values for {one!r}")
        found[one] = value
    return found


def _misread(name: str, free: list[str], named: list[str], args: tuple[Any, ...], options: Mapping[str, Any]) -> str:
    """Word the error for a call with an unknown option, or with too many positional arguments."""
    strange = [one for one in options if one not in named]
    if strange:
        near = difflib.get_close_matches(strange[0], named, 1)
        return f"{name}() has no option {strange[0]!r}; " + (f"did you mean {near[0]}=?" if near else f"it has {', '.join(named)}.")
    by_place = [one for one in free if one != "self"]
    given = len(args) - len(free) + len(by_place)
    return f"{name}() takes {' and '.join(by_place) or 'nothing'} by place, and nothing else; got {given} values. Name the others."


def _written(free: list[str], args: tuple[Any, ...], options: Mapping[str, Any]) -> list[str]:
    """Write the arguments as code, a tensor by its argument's name."""
    given = [("", one, value) for one, value in zip(free, args, strict=False) if one != "self"]
    given += [(f"{one}=", one, value) for one, value in options.items()]
    return [text + (one if isinstance(value, torch.Tensor) else reprlib.repr(value)) for text, one, value in given]
