"""A run's settings on the command line: ``--config``, ``--set``, and an option for every field.

Owns: how a field becomes an option, and the order of precedence (file, then ``--set``, then options).
Must not: know any command.
Read next: ``../training/settings.py``.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from pellucid.errors import invalid
from pellucid.training import RunSettings, read_settings
from pellucid.training.settings import described

__all__ = ["takes"]

Config = Annotated[Path | None, typer.Option("--config", "-c", help="settings in a TOML file")]
Assignments = Annotated[list[str] | None, typer.Option("--set", "-s", help="one setting, such as batch=256; may be repeated")]


def takes(kind: type[RunSettings]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's argument ``settings`` by options: ``--config``, ``--set``, and one for every field."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        fields = [field.name for field in dataclasses.fields(kind)]

        @wraps(command)
        def run(config: Path | None, assignments: list[str] | None, **arguments: Any) -> None:
            options = {name: arguments.pop(name) for name in fields}
            assigned = _assigned(assignments or ())
            whole = assigned | {name: _listed(value) for name, value in options.items() if value is not None}
            command(settings=read_settings(kind, config, dict.fromkeys(assigned, "--set"), **whole), **arguments)

        own = [one for name, one in inspect.signature(command, eval_str=True).parameters.items() if name != "settings"]
        parameters = [
            *own,
            *(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
                for name, hint in {"config": Config, "assignments": Assignments, **_options(kind)}.items()
            ),
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate


def _options(kind: type[RunSettings]) -> Mapping[str, Any]:
    """The annotation of each field's option."""
    texts, options = described(kind), {}
    for name, hint in get_type_hints(kind).items():
        plain = (
            next((part for part in get_args(hint) if part is not type(None)), hint) if get_origin(hint) is not tuple else list[str]
        )
        default = getattr(kind, name)
        shown = f" (default {default})" if isinstance(default, int | float) else ""
        text = texts[name].rstrip(".").replace("`", "") + shown
        options[name] = Annotated[(str if get_origin(hint) is Literal else plain) | None, typer.Option(help=text)]
    return options


def _assigned(assignments: Iterable[str]) -> dict[str, Any]:
    """Parse each ``name=value`` as a line of TOML; a value that is no TOML is taken as text."""
    import tomllib

    table: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise invalid("--set", expected="NAME=VALUE", got=repr(text))
        try:
            parsed = tomllib.loads(f"value = {value}")
        except (ValueError, RecursionError):
            parsed = {}
        table[name.strip()] = parsed["value"] if parsed.keys() == {"value"} else value.strip()
    return table


def _listed(value: Any) -> Any:
    """Split the values of an option that may be repeated at their commas; return other values unchanged."""
    return [name.strip() for text in value for name in text.split(",") if name.strip()] if isinstance(value, list) else value
