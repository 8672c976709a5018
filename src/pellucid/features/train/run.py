"""One run of any kind: pictures, number of steps, loop, curves, and the weights in the end.

Owns: the order of these things, the stages before a joint run, and what a run leaves in its folder: how
    many steps fit into its minutes, and TensorBoard's log, where that is installed.
Must not: know what a step does; the trainers do.
Read next: ``descriptor.py``, ``detector.py``, ``joint.py``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor

from pellucid.core.files import parsed, whole
from pellucid.errors import invalid
from pellucid.features.data.photographs import ImageFolder, bundled_photographs
from pellucid.features.train.descriptor import DescriptorTrainer
from pellucid.features.train.detector import DetectorTrainer
from pellucid.features.train.joint import JointTrainer
from pellucid.features.train.settings import DescriptorSettings, DetectorSettings, FeatureSettings, JointSettings
from pellucid.features.train.trainer import Trainer
from pellucid.features.weights import load_descriptor, load_detector
from pellucid.training import World, fit_run, join_world
from pellucid.training.distributed import barrier, pick_device
from pellucid.training.log import plot_curves

__all__ = ["decide_steps", "picture_notes", "train"]

_LONGEST: Final = 800
"""Larger photographs are shrunk to this many pixels: enough keypoints, and all pictures of one kind of sharpness."""


def train(
    settings: DescriptorSettings | DetectorSettings | JointSettings,
    directory: str | os.PathLike[str],
    *,
    resume: bool = True,
    quiet: bool = False,
    started: float | None = None,
) -> Path:
    """Train what the settings are for, or go on with a run that was interrupted.

    A joint run trains a detector and a descriptor, each on its own, and then both through the patches. Every stage is a run of its
    own (unless the settings name a finished one), in ``detector/``, ``descriptor/`` and ``joint/``. What the first two made is kept
    in ``before/``, so that the effect of the third can be measured.

    Args:
        settings: of the run; their class says what is trained.
        directory: gets the weights (``descriptor.safetensors``, ``detector.safetensors``), ``log.csv``, ``curves.png``,
            ``checkpoints/`` and, where TensorBoard is installed, ``tensorboard/``.
        resume: go on from the newest checkpoint; False makes an existing one an error.
        quiet: no progress bar.
        started: ``time.perf_counter()`` when the budget of ``settings.minutes`` began; by default now, and after the stages before.

    Returns:
        The file of the trained weights; for a joint run ``directory``, which holds two.

    Errors:
        ``InvalidArgument`` for settings that do not fit, and a folder that holds another run; ``CollapseError`` where descriptors
        no longer differ.
    """
    home, about = Path(directory), asdict(settings)
    trainer_of: type[Trainer] = DescriptorTrainer
    if isinstance(settings, DetectorSettings):
        trainer_of = DetectorTrainer
    elif isinstance(settings, JointSettings):
        settings, trainer_of, started = _pretrained(settings, home, resume, quiet), JointTrainer, None
    started = time.perf_counter() if started is None else started
    world, device = join_world(), pick_device(settings.device)
    barrier(world)  # until the first rank has written the files of the stages before
    photographs = _photographs(settings)
    make = trainer_of.prepare(settings, photographs, world, device)
    folder = home / trainer_of.folder

    def rehearse() -> Callable[[int], object]:
        copied = make()
        return lambda index: copied.step(index, 1_000_000)

    total = _agree(decide_steps(settings.steps, settings.minutes, folder, rehearse, started=started), world, device)
    trainer = make()
    notes = {**about, **trainer.notes, **picture_notes(photographs), "steps": total}
    with board(folder, wanted=world.rank == 0) as write:
        options = {"title": trainer.title, "resume": resume, "quiet": quiet, "world": world, "after_log": write}
        fit_run(lambda index: trainer.step(index, total), trainer.state, settings, folder, about=notes, total=total, **options)
    if world.rank == 0:
        plot_curves(folder / "log.csv", folder / "curves.png", panels=trainer.panels)
        trainer.save(home, notes)
    return home / trainer.file


def _pretrained(settings: JointSettings, home: Path, resume: bool, quiet: bool) -> JointSettings:
    """The settings with the weights to start from: the runs they name, or stages trained now."""
    shared = {name: getattr(settings, name) for name in ("photographs", "exclude", "seed", "device", "save_every", "log_every")}
    if settings.detector:
        load_detector(Path(settings.detector))  # complain before anything is trained
    if settings.descriptor:
        load_descriptor(Path(settings.descriptor))
    if not settings.detector:
        detector = DetectorSettings(**shared, steps=settings.detector_steps, strength=settings.strength)
        settings = replace(settings, detector=str(train(detector, home / "detector", resume=resume, quiet=quiet)))
    if not settings.descriptor:
        descriptor = DescriptorSettings(**shared, steps=settings.descriptor_steps, width=settings.width)
        settings = replace(settings, descriptor=str(train(descriptor, home / "descriptor", resume=resume, quiet=quiet)))
    return settings


def _photographs(settings: FeatureSettings) -> Sequence[Tensor]:
    """The pictures of a folder, read when they are asked for, or the bundled photographs; without those excluded."""
    if not settings.photographs:
        return list(bundled_photographs(exclude=settings.exclude, longest=_LONGEST).values())
    return ImageFolder(settings.photographs, longest=_LONGEST, exclude=settings.exclude)


def picture_notes(photographs: Sequence[Tensor]) -> dict[str, str]:
    """What a checkpoint remembers of a folder's pictures, so that others under the same names are not taken for them."""
    return {"pictures": photographs.digest} if isinstance(photographs, ImageFolder) else {}


def _agree(number: int, world: World, device: torch.device) -> int:
    """The first rank's number, on every rank."""
    if world.size == 1:
        return number
    number_on_device = torch.tensor([number], device=device)
    dist.broadcast(number_on_device, 0)
    return int(number_on_device)


@contextmanager
def board(directory: Path, *, wanted: bool) -> Iterator[Callable[[int, Mapping[str, float]], None]]:
    """Give a function that writes a row of numbers; without TensorBoard, or where ``wanted`` is False, it does nothing."""
    writer = _writer(directory) if wanted else None
    if writer is None:
        yield _ignore
        return

    def write(step: int, row: Mapping[str, float]) -> None:
        for name, number in row.items():
            writer.add_scalar(name, number, step)

    try:
        yield write
    finally:
        writer.close()


def _writer(directory: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:  # not installed, or without what it needs itself
        return None
    return SummaryWriter(str(directory / "tensorboard"))


def _ignore(step: int, row: Mapping[str, float]) -> None:
    del step, row


_FILE: Final = "budget.json"
_RESERVE: Final = 0.97
"""Share of the time that is planned: saving, logging and a slower second half need the rest."""


def decide_steps(
    steps: int, minutes: float | None, directory: Path, rehearse: Callable[[], Callable[[int], object]], *, started: float
) -> int:
    """The number of steps of a run.

    Args:
        steps: the number, unless there are
        minutes: then as many steps as fit into the time since ``started``; the rate is measured with a rehearsal.
        directory: of the run. The number is written there and read back when the run is resumed, so that the schedule, which ends
            at the last step, is the same.
        rehearse: makes a step function on a copy of everything.
        started: ``time.perf_counter()`` when the command began.

    Errors:
        ``InvalidArgument`` for a time too short for ten steps.
    """
    if minutes is None:
        return steps
    if not 0 < minutes < 1e5:
        raise invalid("minutes", expected="a positive time", got=minutes)
    kept = directory / _FILE
    if kept.exists():
        then, number = parsed(kept, _kept, expected="minutes and steps, as the start of the run wrote them")
        if then == minutes:
            return number
    seconds = _seconds_per_step(rehearse(), most=min(20.0, 0.04 * 60 * minutes))
    left = 60.0 * minutes * _RESERVE - (time.perf_counter() - started)
    number = int(left / seconds)
    if number < 10:
        raise invalid("minutes", expected=f"time for ten steps of {seconds:.2g} s after starting", got=minutes)
    directory.mkdir(parents=True, exist_ok=True)
    with whole(kept) as draft:
        draft.write_text(json.dumps({"minutes": minutes, "steps": number, "seconds_per_step": round(seconds, 5)}) + "\n")
    return number


def _kept(file: BytesIO) -> tuple[float, int]:
    earlier = json.load(file)
    return float(earlier["minutes"]), int(earlier["steps"])


def _seconds_per_step(step: Callable[[int], object], most: float) -> float:
    """The mean after two steps of warming up: a schedule is met by the mean, not by the best."""
    for index in range(2):
        step(index)
    begin = time.perf_counter()
    done = 0
    while done < 3 or (time.perf_counter() - begin < most and done < 200):
        step(done)
        done += 1
    return (time.perf_counter() - begin) / done
