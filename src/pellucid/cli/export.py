"""``pellucid export``: an evaluation pipeline as a graph for other programs.

Owns: the command.
Must not: make the graph; ``pellucid.export`` does.
Read next: ``../export.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["export"]


def export(
    pipeline: Annotated[str, typer.Argument(metavar="FILE", help="Written by Pipeline.save (.toml, .json), or a preset's name.")],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="Ending in .onnx or .pt2.")],
    floats: Annotated[bool, typer.Option("--floats", help="Pictures are float32 in [0, 1]; bytes otherwise.")] = False,
    channels: Annotated[int, typer.Option(min=1, help="Channels of the pictures.")] = 3,
) -> None:
    """Write an evaluation pipeline as ONNX or as a torch.export program, for pictures of any size, to be run without Pellucid."""
    import torch

    from pellucid import presets
    from pellucid.export import export_pipeline
    from pellucid.pipeline import Pipeline

    made = Pipeline.load(pipeline) if Path(pipeline).suffix in (".toml", ".json") else presets.load(pipeline)
    export_pipeline(made, output, dtype=torch.float32 if floats else torch.uint8, channels=channels)
    typer.echo(f"wrote {output}: image (B, {channels}, H, W) -> pixels, src_from_dst (3, 3)")
