"""``pellucid export``: write a pipeline as a graph for other programs.

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
    output: Annotated[Path | None, typer.Argument(metavar="OUT", help="Ending in .onnx or .pt2; FILE's name by default.")] = None,
    to: Annotated[str, typer.Option(help="onnx, torch or stablehlo; default by OUT's ending.")] = "",
    floats: Annotated[bool, typer.Option("--floats", help="Pictures are float32 in [0, 1]; bytes otherwise.")] = False,
    channels: Annotated[int, typer.Option(min=1, help="Channels of the pictures.")] = 3,
    size: Annotated[
        tuple[int, int] | None, typer.Option(help="Height and width of all pictures; with it, the pipeline may draw.")
    ] = None,
    draws: Annotated[str, typer.Option(help="Inputs that decide the draw: key (seed, step, index), or values.")] = "key",
) -> None:
    """Write a pipeline as ONNX or as a torch.export program that runs without Pellucid. Random pipelines need --size."""
    import torch

    from pellucid import presets
    from pellucid.core.arguments import check_choice
    from pellucid.core.graphs import ENDINGS
    from pellucid.errors import invalid
    from pellucid.export import export_pipeline
    from pellucid.pipeline import Pipeline

    check_choice("--to", to or "onnx", tuple(ENDINGS))
    output = Path(Path(pipeline).stem + ENDINGS[to or "onnx"]) if output is None else output
    if to and output.suffix != ENDINGS[to]:
        raise invalid("OUT", expected=f"a name ending in {ENDINGS[to]} for --to {to}", got=str(output))
    loaded = Pipeline.load(pipeline) if Path(pipeline).suffix in (".toml", ".json") else presets.load(pipeline)
    export_pipeline(loaded, output, dtype=torch.float32 if floats else torch.uint8, channels=channels, size=size, draws=draws)
    sizes = "H, W" if size is None else f"{size[0]}, {size[1]}"
    typer.echo(f"wrote {output}: image (B, {channels}, {sizes}) -> pixels, src_from_dst")
