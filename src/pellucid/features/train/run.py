"""What all runs share around their step: the number of steps, the board, the loop and the curves.

Owns: the order of these things.
Must not: know what is trained.
Read next: ``../../training/loop.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from pellucid.features.train.board import board
from pellucid.features.train.budget import decide_steps
from pellucid.training import TrainState, World, fit
from pellucid.training.curves import plot_curves

__all__ = ["RunOptions", "Trainer", "run_steps"]


class Trainer(Protocol):
    """What a run steps."""

    @property
    def state(self) -> TrainState:
        """What a checkpoint holds."""

    def step(self, index: int, total: int) -> Mapping[str, float | Tensor]:
        """Do step ``index`` of ``total`` and say what to log."""


class RunOptions(Protocol):
    """The settings that concern the run and not what is trained."""

    @property
    def steps(self) -> int: ...  # noqa: D102
    @property
    def minutes(self) -> float | None: ...  # noqa: D102
    @property
    def seed(self) -> int: ...  # noqa: D102
    @property
    def save_every(self) -> int: ...  # noqa: D102
    @property
    def log_every(self) -> int: ...  # noqa: D102


def run_steps(
    make: Callable[[], Trainer],
    options: RunOptions,
    directory: Path,
    *,
    notes: Mapping[str, Any],
    title: str,
    panels: Mapping[str, Sequence[str]],
    world: World,
    device: torch.device,
    resume: bool = True,
    quiet: bool = False,
    started: float | None = None,
) -> tuple[Trainer, dict[str, Any]]:
    """Make a trainer and run it to its last step, from the newest checkpoint if there is one.

    Args:
        make: a fresh trainer; called a second time where the number of steps must be measured.
        options: of the run.
        directory: gets ``log.csv``, ``curves.png``, ``checkpoints/`` and, where TensorBoard is installed, ``tensorboard/``.
        notes: what a checkpoint must agree with.
        title: of the progress bar.
        panels: of the curves.
        world: the ranks.
        device: of the trainer.
        resume: go on where a run is found, instead of failing.
        quiet: no progress bar.
        started: ``time.perf_counter()`` when the budget began.

    Returns:
        The trainer after its last step, and the notes with the number of steps.
    """
    started = time.perf_counter() if started is None else started

    def rehearse() -> Callable[[int], object]:
        copied = make()
        return lambda index: copied.step(index, 1_000_000)

    total = _agree(decide_steps(options.steps, options.minutes, directory, rehearse, started=started), world, device)
    trainer = make()
    whole = {**notes, "steps": total}
    with board(directory, wanted=world.rank == 0) as write:
        fit(
            lambda index: trainer.step(index, total),
            trainer.state,
            total=total,
            directory=directory,
            seed=options.seed,
            save_every=options.save_every,
            log_every=options.log_every,
            settings=whole,
            title=title,
            resume=resume,
            quiet=quiet,
            world=world,
            after_log=write,
        )
    if world.rank == 0:
        plot_curves(directory / "log.csv", directory / "curves.png", panels=panels)
    return trainer, whole


def _agree(number: int, world: World, device: torch.device) -> int:
    """The first rank's number, on every rank."""
    if world.size == 1:
        return number
    told = torch.tensor([number], device=device)
    dist.broadcast(told, 0)
    return int(told)
