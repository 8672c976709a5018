"""Settings from a TOML file and the command line into a frozen dataclass, with the errors a typing mistake deserves.

Owns: the merging order (defaults, file, overrides) and the checks of names and types.
Must not: know any command's settings.
Read next: ``loop.py``.
"""

from __future__ import annotations

import dataclasses
import math
import os
import tomllib
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pellucid.errors import invalid, wrong_type

__all__ = ["check_numbers", "read_settings"]

S = TypeVar("S")


def read_settings(
    kind: type[S], path: str | os.PathLike[str] | None = None, origins: Mapping[str, str] | None = None, /, **overrides: Any
) -> S:
    """Build the dataclass ``kind`` from its defaults, a TOML file, and overrides that are not None.

    Args:
        kind: the dataclass.
        path: of the file, or None.
        origins: by name, where an override came from; default an option of that name.
        overrides: what goes before the file.

    Errors:
        ``InvalidArgument`` for an unknown name (with the known ones) or broken TOML; ``InvalidType`` for a wrong type.
    """
    hints = get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values = {} if path is None else dict(_table(Path(path)))
    sources = dict.fromkeys(values, str(path))
    given = {name: value for name, value in overrides.items() if value is not None}
    sources |= {name: (origins or {}).get(name, f"--{name.replace('_', '-')}") for name in given}
    for name, value in (values | given).items():
        if name not in known:
            raise invalid(f"{sources[name]}: {name}", expected=f"one of {', '.join(sorted(known))}", got=repr(name))
        values[name] = _typed(f"{sources[name]}: {name}", value, hints[name])
    return kind(**values)


def check_numbers(settings: object, *, at_least_one: str = "", positive: str = "", not_negative: str = "", share: str = "") -> None:
    """Raise for the first number out of its range; names are separated by blanks.

    Args:
        settings: a dataclass.
        at_least_one: whole numbers.
        positive, not_negative: finite numbers.
        share: in [0, 1).

    Errors:
        ``InvalidArgument``, which names the field.
    """
    kinds: list[tuple[str, str, Callable[[Any], bool]]] = [
        (at_least_one, "a whole number, at least 1", lambda value: isinstance(value, int) and value >= 1),
        (positive, "a positive number", lambda value: 0 < value < math.inf),
        (not_negative, "a number that is not negative", lambda value: 0 <= value < math.inf),
        (share, "in [0, 1)", lambda value: 0 <= value < 1),
    ]
    for names, expected, right in kinds:
        for name in names.split():
            value = getattr(settings, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not right(value):
                raise invalid(name, expected=expected, got=repr(value))


def _table(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise invalid(str(path), expected="a TOML file in UTF-8", got=str(error)) from None


def _typed(name: str, value: Any, hint: Any) -> Any:
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for choice in choices:
        origin = get_origin(choice) or choice
        if origin is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if origin is tuple and isinstance(value, list):
            return tuple(value)
        if origin is Path and isinstance(value, str):
            return Path(value)
        if isinstance(origin, type) and isinstance(value, origin) and not (origin is int and isinstance(value, bool)):
            return value
    raise wrong_type(name, expected=str(getattr(hint, "__name__", hint)), got=repr(value))
