"""``pellucid import``: translate a pipeline of another library to code or to a pipeline file.

Owns: the command, and the guess of the library that a file belongs to.
Must not: run a file that the caller does not allow.
Read next: ``../interop/__init__.py``.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.core.files import parsed
from pellucid.errors import invalid

if TYPE_CHECKING:
    from pellucid.interop import Sourced

__all__ = ["import_"]

LIBRARIES = ("albumentations", "torchvision", "kornia")


def import_(
    source: Annotated[str, typer.Argument(metavar="FILE", help="JSON, YAML, TOML, FILE.py or FILE.py:NAME.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="The pipeline file (.toml, .json).")] = None,
    library: Annotated[str, typer.Option("--from", metavar="LIBRARY", help="albumentations, torchvision or kornia.")] = "",
    match: Annotated[str, typer.Option(help="nearest, or exact, which refuses transforms without an equal.")] = "nearest",
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="The value of a name that FILE.py does not define.")
    ] = None,
    skip: Annotated[bool, typer.Option(help="Write what can be imported, and list the rest.")] = False,
    allow: Annotated[bool, typer.Option(help="Run FILE.py and read its NAME. Without this nothing is run.")] = False,
) -> None:
    """Import a pipeline of albumentations, torchvision or kornia: print it as code, and list differences and missing transforms."""
    from pellucid import interop

    found = _found(source, library, match, values or [], allow)
    if output is not None and len(found) > 1:
        several = ", ".join(f"{one.name} (line {one.line})" for one in found)
        raise invalid("FILE", expected="FILE.py:NAME, one pipeline to write", got=several)
    for one in found:
        result = one.imported
        if result.missing and not skip and output is not None:
            raise interop.Unsupported(result.missing)
        if output is not None:
            result.pipeline.save(output)
        else:
            typer.echo(f"{one.name or 'augment'} = {interop.as_code(result.pipeline)}")
        for each in (*result.missing, *result.notes):
            typer.echo(f"# {each}" if output is None else str(each))
        read = f"{max(result.total - len(result.missing), 0)} of {result.total} transforms of {one.library}"
        typer.echo(f"{output}: {read}" if output is not None else f"# line {one.line}: {read}\n")


def _found(source: str, library: str, match: Any, values: list[str], allow: bool) -> list[Sourced]:
    """Import every pipeline of a file."""
    from pellucid import interop
    from pellucid.core.arguments import check_choice

    check_choice("--match", match, ("nearest", "exact"))
    name, _, attribute = source.rpartition(":") if ".py:" in source else (source, "", "")
    path = Path(name)
    if path.suffix == ".py" and not allow:
        return _spelled(path, attribute, match, values)
    read, guessed = (_attribute(path, attribute), "") if path.suffix == ".py" else _plain(path)
    library = library or guessed or next((one for one in LIBRARIES if type(read).__module__.startswith(one)), "")
    check_choice("--from", library, LIBRARIES)
    readers = dict(zip(LIBRARIES, (interop.read_albumentations, interop.read_torchvision, interop.read_kornia), strict=True))
    return [interop.Sourced(attribute, 1, library, readers[library](read, match=match))]


def _spelled(path: Path, attribute: str, match: Any, values: list[str]) -> list[Sourced]:
    """Import the pipelines that a Python file spells out, without running it."""
    from ast import literal_eval

    from pellucid import interop

    names = {}
    for one in values:
        name, _, value = one.partition("=")
        try:
            names[name.strip()] = literal_eval(value.strip())
        except (ValueError, SyntaxError):
            raise invalid("--set", expected="NAME=VALUE with a number, text or list", got=repr(one)) from None
    text = parsed(path, lambda file: file.read().decode("utf-8"), expected="text", name="FILE")
    found = [one for one in interop.from_source(text, match=match, names=names) if attribute in ("", one.name)]
    if not found:
        fix = "For a pipeline made in another way, save A.to_dict(transform) as JSON; or, if you trust the file, pass --allow."
        raise invalid("FILE", expected="a file that spells out a Compose", got=repr(str(path)), fix=fix)
    return found


def _plain(path: Path) -> tuple[Any, str]:
    """Read a pipeline's description from a file, and guess its library, or return an empty text for it."""
    table = _table(path)
    if not isinstance(table, dict):
        raise invalid("FILE", expected="a table that describes a pipeline", got=type(table).__name__)
    if (found := _instantiated(table)) is not None:
        return found[1], found[0]
    return table, "albumentations" if "__version__" in table or "__class_fullname__" in table else ""


def _instantiated(value: Any) -> tuple[str, Any] | None:
    """The library and description of the first pipeline in a Hydra configuration, or None."""
    if not isinstance(value, dict):
        return next(filter(None, map(_instantiated, value)), None) if isinstance(value, list) else None
    target = str(value.get("_target_", ""))
    if target.partition(".")[0] not in LIBRARIES:
        return next(filter(None, map(_instantiated, value.values())), None)
    return target.partition(".")[0], _renamed(value)


def _renamed(value: Any) -> Any:
    """Replace Hydra's ``_target_`` entries by ``name``, the last part of the target."""
    if isinstance(value, list):
        return [_renamed(one) for one in value]
    if not isinstance(value, dict) or "_target_" not in value:
        return value
    rest = {key: _renamed(one) for key, one in value.items() if not key.startswith("_")}
    return {"name": str(value["_target_"]).rpartition(".")[2], **rest}


def _table(path: Path) -> Any:
    import json
    import tomllib

    def read(file: BytesIO) -> Any:
        text = file.read().decode("utf-8")
        if path.suffix in (".yaml", ".yml"):
            try:
                import yaml  # type: ignore[import-untyped]
            except ImportError as error:
                raise invalid("FILE", expected="PyYAML to read YAML with", got="none", fix="Or write JSON.") from error
            return yaml.safe_load(text)
        return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)

    return parsed(path, read, expected=f"valid {path.suffix[1:].upper() or 'JSON'}", name="FILE")


def _attribute(path: Path, attribute: str) -> Any:
    """Run a Python file, and return one of its names."""
    from runpy import run_path

    found = run_path(str(path))
    if attribute not in found:
        raise invalid("FILE", expected=f"FILE.py:NAME, a name in {path.name}", got=repr(attribute))
    return found[attribute]
