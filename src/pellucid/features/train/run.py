"""One training run of any kind: pictures, number of steps, loop, curves, and the final weights.

Owns: the order of these, the stages before a joint run, the number of steps that fit into a time, and TensorBoard's log if it is
    installed.
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
"""Larger photographs are shrunk to this longer side: it gives enough keypoints, and pictures of similar sharpness."""


def train(
    settings: DescriptorSettings | DetectorSettings | JointSettings,
    directory: str | os.PathLike[str],
    *,
    resume: bool = True,
    quiet: bool = False,
    started: float | None = None,
) -> Path:
    """Train a descriptor, a detector or both, by the class of the settings, or resume an interrupted run.

    A joint run trains a detector and a descriptor, each on its own, and then both through the patches. Every stage is a separate
    run (unless the settings name a finished one), in ``detector/``, ``descriptor/`` and ``joint/``. The networks of the first two
    are kept in ``before/``, so that the effect of the third can be measured.

    Args:
        settings: the settings of the run; their class decides what is trained.
        directory: gets the weights (``descriptor.safetensors``, ``detector.safetensors``), ``log.csv``, ``curves.png``,
            ``checkpoints/`` and, where TensorBoard is installed, ``tensorboard/``.
        resume: resume from the newest checkpoint; False makes an existing one an error.
        quiet: show no progress bar.
        started: ``time.perf_counter()`` when the budget of ``settings.minutes`` began; by default now. A joint run
            counts from the end of its earlier stages instead.

    Returns:
        The file of the trained weights; for a joint run ``directory``, which holds two.

    Errors:
        ``InvalidArgument`` for invalid settings, and for a folder that holds another run; ``CollapseError`` if descriptors no
        longer differ.
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
    """Return the settings with weights to start from: those of the named runs, or of stages trained now."""
    shared = {name: getattr(settings, name) for name in ("photographs", "exclude", "seed", "device", "save_every", "log_every")}
    if settings.detector:
        load_detector(Path(settings.detector))  # raise before anything is trained
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
    """Return the pictures of a folder, read when indexed, or the bundled photographs, without the excluded ones."""
    if not settings.photographs:
        return list(bundled_photographs(exclude=settings.exclude, longest=_LONGEST).values())
    return ImageFolder(settings.photographs, longest=_LONGEST, exclude=settings.exclude)


def picture_notes(photographs: Sequence[Tensor]) -> dict[str, str]:
    """Return a hash of a folder's pictures for the checkpoint, so that other pictures under the same names are detected."""
    return {"pictures": photographs.digest} if isinstance(photographs, ImageFolder) else {}


def _agree(number: int, world: World, device: torch.device) -> int:
    """Return the first rank's number on every rank."""
    if world.size == 1:
        return number
    number_on_device = torch.tensor([number], device=device)
    dist.broadcast(number_on_device, 0)
    return int(number_on_device)


@contextmanager
def board(directory: Path, *, wanted: bool) -> Iterator[Callable[[int, Mapping[str, float]], None]]:
    """Yield a function that writes a row of numbers to TensorBoard; it does nothing without TensorBoard, or if not ``wanted``."""
    writer = _writer(directory) if wanted else None
    if writer is None:
        yield lambda *_: None
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
    except ImportError:  # TensorBoard, or a package it needs, is not installed
        return None
    return SummaryWriter(str(directory / "tensorboard"))


_FILE: Final = "budget.json"
_RESERVE: Final = 0.97
"""Share of the time that steps may take: saving, logging and a slower second half need the rest."""


def decide_steps(
    steps: int, minutes: float | None, directory: Path, rehearse: Callable[[], Callable[[int], object]], *, started: float
) -> int:
    """Return the number of steps of a run.

    Args:
        steps: the number, if ``minutes`` is None.
        minutes: take as many steps as fit into this time after ``started``; a rehearsal measures the time of a step.
        directory: the run's folder. The number is written there, and read back on resuming, so that the schedule, which ends at the
            last step, is the same.
        rehearse: makes a step function on a copy of all state.
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
    """Return the mean time of a step after two steps of warming up; the mean, not the minimum, decides how many steps fit."""
    for index in range(2):
        step(index)
    begin = time.perf_counter()
    done = 0
    while done < 3 or (time.perf_counter() - begin < most and done < 200):
        step(done)
        done += 1
    return (time.perf_counter() - begin) / done
