"""Pipelines as plain data: dicts of strings, numbers and lists, for TOML and JSON.

Owns: the versioned format, and the errors of files that do not follow it.
Must not: execute anything it reads; names are looked up in tables, or in modules that the caller allows.
Read next: ``module.py``.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from pellucid.core.arguments import texts
from pellucid.core.files import whole
from pellucid.errors import InvalidArgument, InvalidType, invalid, needs, wrong_type
from pellucid.random.distributions import DISTRIBUTIONS, Distribution
from pellucid.random.learnable import Learnable
from pellucid.targets.kinds import KINDS, OURS, TargetKind
from pellucid.transforms import ALL, VOLUMES
from pellucid.transforms.base import Transform, check_kind
from pellucid.transforms.formerly import renamed

__all__ = [
    "VERSION", "as_toml", "read_file", "register", "settings_from_dict", "transforms_from_list", "transforms_to_list",
    "write_file",
]  # fmt: skip

VERSION = 1
_DEEPEST = 32

_TRANSFORMS: dict[str, type[Transform]] = {kind.__name__: kind for kind in (*ALL, *VOLUMES)}

Kind = TypeVar("Kind", bound=type[Transform] | TargetKind)


def register(kind: Kind) -> Kind:
    """Let files name a transform of your own, as they name ours: a decorator, above ``@dataclass(frozen=True)``.

    A `TargetKind` of your own becomes a kind that keys of batches and ``targets=`` can name.

    A file contains only the name, so the module that registers it must be imported before the file is loaded. Defining the
    class or the kind again (in a notebook) replaces it.

    Args:
        kind: the class of a transform, or a target kind.

    Returns:
        The same class or kind, so that it can be a decorator.

    Errors:
        InvalidType for anything but a frozen dataclass, InvalidArgument if another class, or one of our kinds, has the name.

    Example:
        >>> from dataclasses import dataclass
        >>> import pellucid
        >>> @pellucid.register
        ... @dataclass(frozen=True)
        ... class Nothing(pellucid.RandomInvert):
        ...     p: float = 0.0
        >>> pellucid.Pipeline([Nothing()]).to_dict()["transforms"]
        [{'name': 'Nothing'}]
    """
    if isinstance(kind, TargetKind):
        if kind.name in OURS:
            raise invalid("register", expected="a name that no kind of ours has", got=repr(kind.name))
        KINDS[kind.name] = kind
        return kind
    check_kind("register", kind)
    known = _TRANSFORMS.get(kind.__name__)
    if known is not None and _dotted(known) != _dotted(kind):
        raise invalid("register", expected="a name that no other transform has", got=f"{_dotted(kind)}, beside {_dotted(known)}")
    _TRANSFORMS[kind.__name__] = kind
    return kind


def transforms_to_list(transforms: Sequence[Transform]) -> list[dict[str, Any]]:
    """Return each transform as a table of its name and the fields that differ from their defaults."""
    return [_table_of(transform) for transform in transforms]


def _table_of(transform: Transform) -> dict[str, Any]:
    return {"name": _name_of(type(transform)), **_changed_fields(transform)}


def transforms_from_list(items: Sequence[Mapping[str, Any]], *, allow: Sequence[str] = ()) -> tuple[Transform, ...]:
    """Undo :func:`transforms_to_list`; ``allow`` names the modules that dotted names may be imported from."""
    allowed = texts("allow", allow)
    if not isinstance(items, list | tuple):
        raise wrong_type("transforms", expected="a list of tables", got=repr(items), fix="In TOML, head each with [[transforms]].")
    return tuple(_transform(item, f"transforms[{i}]", allowed) for i, item in enumerate(items))


def _dotted(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _name_of(kind: type[Transform]) -> str:
    """Return the name of a class in a file: its own if it is registered, else its dotted path."""
    if _TRANSFORMS.get(kind.__name__) is kind:
        return kind.__name__
    named = getattr(sys.modules.get(kind.__module__), kind.__qualname__, None)
    if named is not kind or kind.__module__ == "__main__":
        got = "one that is neither registered nor at the top of a module that can be imported"
        raise invalid(_dotted(kind), expected="a class that a file can name", got=got, fix="Put @pellucid.register above it.")
    return _dotted(kind)


def _kind_of(name: object, where: str, allowed: tuple[str, ...]) -> type[Transform]:
    """Return the class that a file names; import a module only if the caller allows it."""
    if isinstance(name, str) and name in _TRANSFORMS:
        return _TRANSFORMS[name]
    module, _, last = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if not module:
        fix = "For a transform of your own put @pellucid.register above its class, and import its module before loading."
        raise invalid(where, expected=f"one of {tuple(_TRANSFORMS)}, or the dotted name of a class", got=repr(name), fix=fix)
    if module not in allowed:
        fix = f"Importing runs the module's code. If you trust it, pass allow=({module!r},)."
        expected = "a module that the caller allows" + (f", one of {allowed}" if allowed else "")
        raise invalid(where, expected=expected, got=repr(name), fix=fix)
    try:
        kind = getattr(import_module(module), last, None)
    except ModuleNotFoundError as error:
        raise invalid(where, expected="a module that Python finds", got=repr(name), fix=f"Python says: {error}.") from error
    check_kind(f"{where} {name!r}", kind)
    assert isinstance(kind, type)
    return kind


def _changed_fields(value: Any) -> dict[str, Any]:
    changed = {}
    for field in fields(value):
        content = getattr(value, field.name)
        if content is None or (field.default is not MISSING and content == field.default and type(content) is type(field.default)):
            continue
        changed[field.name] = _encode(content, f"{type(value).__name__}.{field.name}")
    return changed


def _encode(value: Any, name: str) -> Any:
    if isinstance(value, Learnable) and not value.predicted and value.value is not None:
        bounds = {k: v for k, v in (("low", value.low), ("high", value.high)) if v is not None}
        return {"learnable": _encode(value.value, name), **bounds}
    if isinstance(value, Transform):
        return _table_of(value)
    if isinstance(value, Distribution):
        return {"distribution": type(value).__name__, **_changed_fields(value)}
    if isinstance(value, tuple | list):
        return [_encode(item, name) for item in value]
    if isinstance(value, bool | int | float | str):
        return value
    fix = "Only these can be written to a file; save the state_dict of a pipeline with parameters or modules of your own."
    raise invalid(name, expected="numbers, strings, Learnables or distributions", got=repr(value), fix=fix)


def _decode(value: Any, name: str, allowed: tuple[str, ...]) -> Any:
    if isinstance(value, Mapping):
        if "name" in value:
            return _transform(value, name, allowed)
        if "learnable" in value:
            return _build(Learnable, {"value" if k == "learnable" else k: v for k, v in value.items()}, name, allowed)
        kind = DISTRIBUTIONS.get(str(value.get("distribution")))
        if kind is None:
            expected = f"a table with 'learnable', or 'distribution' one of {tuple(DISTRIBUTIONS)}"
            raise invalid(name, expected=expected, got=dict(value))
        return _build(kind, {k: v for k, v in value.items() if k != "distribution"}, name, allowed)
    if isinstance(value, list):
        return tuple(_decode(item, name, allowed) for item in value)
    return value


def _transform(item: Mapping[str, Any], where: str, allowed: tuple[str, ...]) -> Transform:
    if not isinstance(item, Mapping):
        raise wrong_type(where, expected="a table with a name", got=repr(item), fix="For example {name = 'RandomHorizontalFlip'}.")
    name = item.get("name")
    kind = _kind_of(name, f"{where}.name", allowed)
    now = renamed(kind)
    built = _build(kind, {now.get(k, k): v for k, v in item.items() if k != "name"}, f"{where} ({name})", allowed)
    assert isinstance(built, Transform)
    return built


def _build(kind: Any, items: Mapping[str, Any], where: str, allowed: tuple[str, ...]) -> Any:
    known = fields(kind)
    names = tuple(field.name for field in known)
    for key in items:
        if key not in names:
            raise invalid(f"{where}.{key}", expected=f"one of {names}", got=repr(key))
    for field in known:
        if field.name not in items and field.default is MISSING and field.default_factory is MISSING:
            raise invalid(f"{where}.{field.name}", expected="a value, as it has no default", got="none")
    decoded = {key: _decode(value, f"{where}.{key}", allowed) for key, value in items.items()}
    try:
        return kind(**decoded)
    except (InvalidArgument, InvalidType) as error:
        if issubclass(kind, Transform):  # its errors name the field already
            raise
        raise type(error)(f"{where}: {error}") from error
    except (TypeError, ValueError) as error:  # a comparison of, say, a string with a number, deep in a constructor
        fix = f"Python says: {error}."
        raise wrong_type(where, expected="values of the types it documents", got=dict(items), fix=fix) from error


def read_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a ``.toml`` or ``.json`` file."""
    path = Path(path)
    _check_suffix(path)
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8")
        loaded = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        depth = _depth(loaded)
    except ValueError as error:
        raise invalid(str(path), expected=f"valid {path.suffix[1:].upper()} in UTF-8", got=str(error)) from error
    except RecursionError:
        depth = _DEEPEST + 1
    if depth > _DEEPEST:
        raise invalid(str(path), expected=f"tables and lists nested at most {_DEEPEST} levels deep", got="more")
    if not isinstance(loaded, dict):
        fix = "Pipeline.save writes one."
        raise wrong_type(str(path), expected="a table of a pipeline's settings", got=f"a {type(loaded).__name__}", fix=fix)
    return loaded


def _depth(content: Any) -> int:
    """Return the depth of nested tables and lists, without recursion."""
    depth, level = 0, [content]
    while level and depth <= _DEEPEST:
        depth += 1
        level = [
            part
            for outer in level
            if isinstance(outer, dict | list)
            for part in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return depth


def write_file(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write a ``.toml`` or ``.json`` file atomically."""
    path = Path(path)
    _check_suffix(path)
    text = as_toml(content) if path.suffix == ".toml" else json.dumps(content, indent=2) + "\n"
    with whole(path) as draft:
        draft.write_text(text, encoding="utf-8")


def as_toml(content: Mapping[str, Any]) -> str:
    """Return the plain form of a pipeline as TOML."""
    with needs("A file of a pipeline that ends in .toml, and not in .json,", "tomli-w"):
        import tomli_w
    return tomli_w.dumps(content)


def _check_suffix(path: Path) -> None:
    if path.suffix not in (".toml", ".json"):
        raise invalid("path", expected="a file name ending in .toml or .json", got=path.name)


def settings_from_dict(spec: object, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in the plain form of a pipeline by name; raise for unknown ones."""
    if not isinstance(spec, Mapping):
        raise wrong_type("spec", expected="a dict, as to_dict gives it", got=repr(spec))
    if type(spec.get("pellucid")) is not int or spec["pellucid"] != VERSION:
        fix = f"Write pellucid = {VERSION}."
        raise invalid("pellucid", expected=f"a pipeline of format version {VERSION}", got=spec.get("pellucid"), fix=fix)
    settings = {name: value for name, value in spec.items() if name not in ("pellucid", "transforms")}
    for name in settings:
        if name not in known:
            raise invalid(name, expected=f"one of {tuple(known)}", got=repr(name))
    return settings
