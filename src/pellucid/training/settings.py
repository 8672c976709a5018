"""Read settings from a TOML file and the command line into a frozen dataclass, with errors that explain typing mistakes.

Owns: the settings that all runs share, the ranges of numbers, and the order of precedence (defaults, file, overrides).
Must not: know any command's own settings.
Read next: ``loop.py``.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import re
import tomllib
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pellucid.core.files import parsed
from pellucid.errors import invalid, wrong_type

__all__ = ["Amount", "Count", "Number", "Positive", "RunSettings", "Share", "check_ranges", "described", "read_settings"]

S = TypeVar("S")


@dataclasses.dataclass(frozen=True)
class Within:
    """The allowed range of a number, for use in annotations."""

    expected: str
    holds: Callable[[Any], bool]


Count = Annotated[int, Within("a whole number, at least 1", lambda value: value >= 1)]
Number = Annotated[int, Within("a whole number that is not negative", lambda value: value >= 0)]
Positive = Annotated[float, Within("a positive number", lambda value: 0 < value < math.inf)]
Amount = Annotated[float, Within("a number that is not negative", lambda value: 0 <= value < math.inf)]
Share = Annotated[float, Within("in [0, 1)", lambda value: 0 <= value < 1)]


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """The settings that every run has, in a TOML file or on the command line; each kind of run adds its own.

    Args:
        steps: number of steps.
        batch: samples per step, over all ranks together.
        seed: seed of all random numbers.
        save_every, log_every: interval in steps.

    Errors:
        ``InvalidArgument`` for the first number outside of its range.

    Example:
        >>> from pellucid.training import RunSettings
        >>> RunSettings(steps=10)
        RunSettings(steps=10, batch=64, seed=0, save_every=200, log_every=10)
    """

    steps: Count = 1000
    batch: Count = 64
    seed: Number = 0
    save_every: Count = 200
    log_every: Count = 10

    def __post_init__(self) -> None:
        check_ranges(self)


def check_ranges(settings: object) -> None:
    """Raise for the first field of a dataclass whose value its annotation does not allow (a range, or a choice of texts).

    Errors:
        ``InvalidArgument``, which names the field.
    """
    for name, hint in get_type_hints(type(settings), include_extras=True).items():
        value = getattr(settings, name)
        if get_origin(hint) is Literal and value not in get_args(hint):
            raise invalid(name, expected=" or ".join(map(repr, get_args(hint))), got=repr(value))
        for within in (part for part in get_args(hint)[1:] if isinstance(part, Within)):
            number = int if get_args(hint)[0] is int else int | float
            if isinstance(value, bool) or not isinstance(value, number) or not within.holds(value):
                raise invalid(name, expected=within.expected, got=repr(value))


def described(kind: type) -> dict[str, str]:
    """Return the description of each field, from the docstrings of a dataclass and its bases."""
    texts: dict[str, str] = {}
    for part in reversed(kind.__mro__):
        for names, text in re.findall(r"^    (\w[\w, ]*): (.+(?:\n {8}.+)*)", inspect.cleandoc(part.__doc__ or ""), re.MULTILINE):
            texts |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return texts


def read_settings(
    kind: type[S], path: str | os.PathLike[str] | None = None, origins: Mapping[str, str] | None = None, /, **overrides: Any
) -> S:
    """Return a ``kind`` made from its defaults, a TOML file, and overrides that are not None.

    Args:
        kind: the dataclass.
        path: the TOML file, or None.
        origins: by name, the source of an override for messages; default ``--name``.
        overrides: values that replace the file's.

    Errors:
        ``InvalidArgument`` for an unknown name (with the known ones) or broken TOML; ``InvalidType`` for a wrong type.

    Example:
        >>> from pellucid.training import RunSettings, read_settings
        >>> read_settings(RunSettings, steps=10, batch=None).batch
        64
    """
    hints = get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    if path is not None:
        values |= parsed(path, lambda file: tomllib.loads(file.read().decode("utf-8")), expected="a TOML file in UTF-8")
    sources = dict.fromkeys(values, str(path))
    options = {name: value for name, value in overrides.items() if value is not None}
    sources |= {name: (origins or {}).get(name, f"--{name.replace('_', '-')}") for name in options}
    for name, value in (values | options).items():
        if name not in known:
            raise invalid(f"{sources[name]}: {name}", expected=f"one of {', '.join(sorted(known))}", got=repr(name))
        values[name] = _typed(f"{sources[name]}: {name}", value, hints[name])
    return kind(**values)


def _typed(name: str, value: Any, hint: Any) -> Any:
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for choice in choices:
        origin = str if get_origin(choice) is Literal else get_origin(choice) or choice
        if origin is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if origin is tuple and isinstance(value, list):
            return tuple(value)
        if origin is Path and isinstance(value, str):
            return Path(value)
        if isinstance(origin, type) and isinstance(value, origin) and not (origin is int and isinstance(value, bool)):
            return value
    raise wrong_type(name, expected=str(getattr(hint, "__name__", hint)), got=repr(value))
