"""``pellucid explain``: show which transforms of a pipeline file are fused, and what it draws.

Owns: the command and the reading of sizes.
Must not: word the plan; ``pipeline.explain`` does.
Read next: ``preview.py``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from pellucid.errors import invalid

__all__ = ["explain", "parse_size"]


def parse_size(name: str, text: str) -> tuple[int, int]:
    """Read ``480x640`` (height x width), or ``224`` for a square."""
    match = re.fullmatch(r"\s*(\d{1,9})\s*(?:[xX×]\s*(\d{1,9})\s*)?", text)
    if match is None:
        raise invalid(name, expected="HEIGHTxWIDTH such as 480x640, or one number", got=repr(text))
    height, width = int(match[1]), int(match[2] or match[1])
    return height, width


def explain(
    pipeline: Annotated[Path, typer.Option("--pipeline", "-p", metavar="FILE", help="Written by Pipeline.save (.toml, .json).")],
    size: Annotated[str, typer.Option(metavar="HxW", help="Height and width of the images.")] = "224x224",
    channels: Annotated[int, typer.Option(help="Channels of the images.")] = 3,
    allow: Annotated[list[str] | None, typer.Option(metavar="MODULE", help="A module with transforms of your own.")] = None,
) -> None:
    """Show a pipeline's passes: the transforms in each, the implementation that runs it, and the values it draws."""
    from pellucid.pipeline import Pipeline

    typer.echo(Pipeline.load(pipeline, allow=allow or ()).explain(size=parse_size("--size", size), channels=channels))
