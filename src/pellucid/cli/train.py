"""``pellucid train-descriptor``, ``train-detector`` and ``train-joint``: three commands with the same options.

Owns: the three commands.
Must not: train; ``pellucid.features.train`` does.
Read next: ``../features/train/run.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from pellucid.cli.errors import need
from pellucid.cli.settings import takes
from pellucid.features.train.settings import DescriptorSettings, DetectorSettings, JointSettings

__all__ = ["TRAIN"]


def _command(kind: type[DescriptorSettings | DetectorSettings | JointSettings], summary: str) -> Callable[..., None]:
    def train(
        directory: Annotated[Path, typer.Argument(help="the run's folder; an interrupted run in it is resumed")],
        settings: Any,
        fresh: Annotated[bool, typer.Option("--fresh", help="fail if the folder holds a run, instead of resuming it")] = False,
        quiet: Annotated[bool, typer.Option("--quiet", "-q", help="no progress bar")] = False,
    ) -> None:
        started = time.perf_counter()
        need("train", "cv2", "skimage", "safetensors", "matplotlib")
        from pellucid.features.train import train
        from pellucid.training.distributed import leave_world

        result = train(settings, directory, resume=not fresh, quiet=quiet, started=started)
        if leave_world() == 0 and not quiet:
            typer.echo(f"{result}")

    train.__doc__ = summary
    return takes(kind)(train)


TRAIN = {
    "train-descriptor": _command(
        DescriptorSettings, "Train a patch descriptor from photographs, or go on with an interrupted run."
    ),
    "train-detector": _command(DetectorSettings, "Train a keypoint detector from photographs, or go on with an interrupted run."),
    "train-joint": _command(
        JointSettings,
        "Train a detector and a descriptor, each alone and then through the patches, or go on with an interrupted run.",
    ),
}
"""The commands by name."""
