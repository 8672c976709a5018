"""``pellucid train-descriptor``, ``train-detector`` and ``train-joint``: the options, and the settings they become.

Owns: the options the commands share, and their merging with a TOML file.
Must not: train; ``pellucid.features.train`` does.
Read next: ``../features/train/settings.py``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from pellucid.cli.errors import need

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["train_descriptor", "train_detector", "train_joint"]

S = TypeVar("S")

_Directory = Annotated[Path, typer.Argument(help="the run's folder; a run that was interrupted there goes on")]
_Config = Annotated[Path | None, typer.Option("--config", "-c", help="settings in a TOML file")]
_Set = Annotated[list[str] | None, typer.Option("--set", "-s", help="one setting, such as batch=256; may be repeated")]
_Steps = Annotated[int | None, typer.Option(help="number of steps")]
_Minutes = Annotated[float | None, typer.Option(help="as many steps as fit into this time, instead")]
_Photographs = Annotated[str | None, typer.Option(help="a folder of pictures; by default scikit-image's photographs")]
_Exclude = Annotated[list[str] | None, typer.Option(help="a photograph to hold out; may be repeated")]
_Seed = Annotated[int | None, typer.Option(help="of everything that is drawn")]
_Fresh = Annotated[bool, typer.Option("--fresh", help="fail where the folder holds a run, instead of going on with it")]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="no progress bar")]


def train_descriptor(
    directory: _Directory,
    config: _Config = None,
    set_: _Set = None,
    steps: _Steps = None,
    minutes: _Minutes = None,
    photographs: _Photographs = None,
    exclude: _Exclude = None,
    seed: _Seed = None,
    fresh: _Fresh = False,
    quiet: _Quiet = False,
) -> None:
    """Train a patch descriptor from photographs, or go on with an interrupted run."""
    started = time.perf_counter()
    need("train", "cv2", "skimage", "safetensors", "matplotlib")
    from pellucid.features.train.descriptor import train_descriptor as train
    from pellucid.features.train.settings import DescriptorSettings

    settings = _settings(
        DescriptorSettings,
        config,
        set_,
        {"steps": steps, "minutes": minutes, "photographs": photographs, "exclude": _listed(exclude), "seed": seed},
    )
    _finish(train(settings, directory, resume=not fresh, quiet=quiet, started=started), quiet)


def train_detector(
    directory: _Directory,
    config: _Config = None,
    set_: _Set = None,
    steps: _Steps = None,
    minutes: _Minutes = None,
    photographs: _Photographs = None,
    exclude: _Exclude = None,
    seed: _Seed = None,
    fresh: _Fresh = False,
    quiet: _Quiet = False,
) -> None:
    """Train a keypoint detector from photographs, or go on with an interrupted run."""
    started = time.perf_counter()
    need("train", "cv2", "skimage", "safetensors", "matplotlib")
    from pellucid.features.train.detector import train_detector as train
    from pellucid.features.train.settings import DetectorSettings

    settings = _settings(
        DetectorSettings,
        config,
        set_,
        {"steps": steps, "minutes": minutes, "photographs": photographs, "exclude": _listed(exclude), "seed": seed},
    )
    _finish(train(settings, directory, resume=not fresh, quiet=quiet, started=started), quiet)


def train_joint(
    directory: _Directory,
    config: _Config = None,
    set_: _Set = None,
    steps: Annotated[int | None, typer.Option(help="number of joint steps")] = None,
    minutes: Annotated[float | None, typer.Option(help="as many joint steps as fit into this time, instead")] = None,
    photographs: _Photographs = None,
    exclude: _Exclude = None,
    seed: _Seed = None,
    fresh: _Fresh = False,
    quiet: _Quiet = False,
) -> None:
    """Train a detector and a descriptor, each alone and then through the patches, or go on with an interrupted run."""
    need("train", "cv2", "skimage", "safetensors", "matplotlib")
    from pellucid.features.train.joint import train_joint as train
    from pellucid.features.train.settings import JointSettings

    settings = _settings(
        JointSettings,
        config,
        set_,
        {"steps": steps, "minutes": minutes, "photographs": photographs, "exclude": _listed(exclude), "seed": seed},
    )
    _finish(train(settings, directory, resume=not fresh, quiet=quiet), quiet)


def _settings(kind: type[S], config: Path | None, assignments: Sequence[str] | None, options: dict[str, Any]) -> S:
    from pellucid.training import read_settings

    given = _assigned(assignments or ())
    options = {name: value for name, value in options.items() if value is not None}
    return read_settings(kind, config, dict.fromkeys(given, "--set"), **{**given, **options})


def _assigned(assignments: Sequence[str]) -> dict[str, Any]:
    """``name=value`` as a line of TOML; a value that is no TOML is taken as text."""
    import tomllib

    from pellucid.errors import invalid

    found: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise invalid("--set", expected="NAME=VALUE", got=repr(text))
        try:
            parsed = tomllib.loads(f"value = {value}")
        except (ValueError, RecursionError):
            parsed = {}
        found[name.strip()] = parsed["value"] if parsed.keys() == {"value"} else value.strip()
    return found


def _listed(names: Sequence[str] | None) -> list[str] | None:
    """Names from options that may be repeated and may hold commas."""
    return [name.strip() for text in names for name in text.split(",") if name.strip()] if names else None


def _finish(result: Path, quiet: bool) -> None:
    from pellucid.training.distributed import leave_world

    if leave_world() == 0 and not quiet:
        typer.echo(f"{result}")
