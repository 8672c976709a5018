"""``pellucid import``: a pipeline of another library as a pipeline file.

Owns: the command, and which library a file is of.
Must not: run a file that the caller does not allow.
Read next: ``../interop/__init__.py``.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import typer

from pellucid.core.files import parsed
from pellucid.errors import invalid

__all__ = ["import_"]

LIBRARIES = ("albumentations", "torchvision", "kornia")


def import_(
    source: Annotated[str, typer.Argument(metavar="FILE", help="JSON, YAML or TOML; with --allow also FILE.py:NAME.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The pipeline file (.toml, .json).")],
    library: Annotated[str, typer.Option("--from", metavar="LIBRARY", help="albumentations, torchvision or kornia.")] = "",
    skip: Annotated[bool, typer.Option(help="Write what can be imported, and list the rest.")] = False,
    allow: Annotated[bool, typer.Option(help="Run FILE.py and read NAME of it. Without this nothing is run.")] = False,
) -> None:
    """Import a pipeline of albumentations, torchvision or kornia, and say what has no equal."""
    from pellucid import interop
    from pellucid.random.arguments import check_choice

    read, guessed = _read(source, allow)
    library = library or guessed
    check_choice("--from", library, LIBRARIES)
    readers = dict(zip(LIBRARIES, (interop.read_albumentations, interop.read_torchvision, interop.read_kornia), strict=True))
    found = readers[library](read)
    if found.missing and not skip:
        raise interop.Unsupported(found.missing)
    found.pipeline.save(output)
    for one in (*found.missing, *found.notes):
        typer.echo(str(one))
    typer.echo(f"{output}: {found.total - len(found.missing)} of {found.total} transforms of {library}'s")


def _read(source: str, allow: bool) -> tuple[Any, str]:
    """What is to be imported, and the library that it seems to be of."""
    name, _, attribute = source.rpartition(":") if ".py:" in source else (source, "", "")
    path = Path(name)
    if path.suffix == ".py":
        if not allow:
            fix = "If you trust it, add --allow; or write A.to_dict(transform) to a JSON file."
            raise invalid("FILE", expected="plain data: reading a Python file runs it", got=repr(source), fix=fix)
        value = _attribute(path, attribute)
        library = next((one for one in LIBRARIES if type(value).__module__.startswith(one)), "")
        return value, library
    table = _table(path)
    if not isinstance(table, dict):
        raise invalid("FILE", expected="a table that describes a pipeline", got=type(table).__name__)
    return table, "albumentations" if "__version__" in table or "__class_fullname__" in table else ""


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
    """A name of a Python file, which is run."""
    from runpy import run_path

    found = run_path(str(path))
    if attribute not in found:
        raise invalid("FILE", expected=f"FILE.py:NAME, a name in {path.name}", got=repr(attribute))
    return found[attribute]
