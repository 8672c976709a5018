"""The training loop: steps, logs, checkpoints, and exact resuming after a kill.

Owns: when to log, save and stop, the seed of every step, the folder's lock (which the operating system releases whenever the
    process ends), and the progress bar.
Must not: look inside a step.
Read next: ``checkpoint.py``.
"""

from __future__ import annotations

import errno
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from pellucid.errors import StoppedRun, invalid, needs
from pellucid.training.checkpoint import TrainState, latest_checkpoint, resume_from, save_checkpoint
from pellucid.training.distributed import World, barrier
from pellucid.training.log import CsvLog
from pellucid.training.settings import RunSettings

__all__ = ["NonFiniteLoss", "fit", "fit_run", "only_run_in", "progress_bar", "step_seed"]


class NonFiniteLoss(StoppedRun):
    """A logged number became NaN or infinite; the run stopped, and its last checkpoint is intact."""


def fit(
    step: Callable[[int], Mapping[str, float | Tensor]],
    state: TrainState,
    *,
    total: int,
    directory: str | os.PathLike[str],
    seed: int = 0,
    save_every: int = 200,
    log_every: int = 10,
    settings: Mapping[str, Any] | None = None,
    title: str = "Training",
    resume: bool = True,
    quiet: bool = False,
    world: World | None = None,
    after_log: Callable[[int, Mapping[str, float]], None] | None = None,
) -> Path:
    """Call ``step(0) .. step(total - 1)``, and log and save at intervals.

    A step must depend only on its number, the state and torch's generator. The generator is seeded from (seed, step, rank) before
    each step and restored afterwards, so dropout resumes exactly, and random numbers outside the loop do not change.

    Args:
        step: does one step and returns the numbers to log; ``loss`` is shown beside the bar.
        state: the objects that a checkpoint holds.
        total: number of steps.
        directory: gets ``log.csv`` and ``checkpoints/``; locked while the run lasts.
        seed: the seed of the run.
        save_every, log_every: intervals in steps; the last step is always saved and logged.
        settings: JSON-ready settings; a checkpoint with other settings is refused.
        title: the progress bar's title.
        resume: resume from the newest checkpoint in ``directory``; if False, an existing checkpoint is an error.
        quiet: show no progress bar.
        world: the ranks; only the first one writes.
        after_log: called with every logged row, on every rank; may raise to stop the run (for instance on a collapse).

    Returns:
        The last checkpoint.

    Errors:
        ``NonFiniteLoss`` when a logged number is not finite; ``InvalidArgument`` when the checkpoint in ``directory`` belongs to
        other settings (the first that differs is named), when another run is writing to the folder, or for a number below 1.

    Example:
        >>> import tempfile, torch
        >>> from pellucid.training import TrainState, World, descend, fit, read_log
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), 0.1)
        >>> def step(number):
        ...     loss = (model(torch.rand(8, 2)) - 1.0).square().mean()
        ...     descend(loss, optimizer, world=World())
        ...     return {"loss": loss}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = fit(step, TrainState({"model": model}, {"optimizer": optimizer}), total=3, directory=folder, quiet=True)
        ...     len(read_log(f"{folder}/log.csv")["loss"])
        1
    """
    for name, number in (("total", total), ("save_every", save_every), ("log_every", log_every)):
        if not isinstance(number, int) or number < 1:
            raise invalid(name, expected="a whole number, at least 1", got=repr(number))
    world = world or World()
    home = Path(directory)
    saved = home / "checkpoints"
    notes: dict[str, Any] = {"seed": seed, "total": total, "settings": json.loads(json.dumps(dict(settings or {}), default=str))}
    with ExitStack() as held:
        if world.rank == 0:
            held.enter_context(only_run_in(home))
        done = _resume(saved, state, notes, resume)
        log = CsvLog(home / "log.csv", resume_at=done) if world.rank == 0 else None
        bar: Callable[[int, str], AbstractContextManager[Reporter]] = silence if quiet or world.rank else progress_bar
        last = latest_checkpoint(saved)
        tell = held.enter_context(bar(total, title))
        tell(done)
        for index in range(done, total):
            with torch.random.fork_rng(devices=_devices()):
                torch.manual_seed(step_seed(seed, index, world.rank))
                numbers = step(index)
            now = index + 1
            text = None
            if now % log_every == 0 or now == total:
                row = {name: float(n.detach() if isinstance(n, Tensor) else n) for name, n in numbers.items()}
                _check_finite(row, now, last)
                if log is not None:
                    log.write(now, row)
                if after_log is not None:
                    after_log(now, row)
                text = "  ".join(f"{name} {number:.4g}" for name, number in list(row.items())[:3])
            if now % save_every == 0 or now == total:
                if world.rank == 0:
                    last = save_checkpoint(saved, now, state, **notes)
                barrier(world)
            tell(now, text)
    last = latest_checkpoint(saved)
    assert last is not None
    return last


def fit_run(
    step: Callable[[int], Mapping[str, float | Tensor]],
    state: TrainState,
    settings: RunSettings,
    directory: str | os.PathLike[str],
    *,
    about: Mapping[str, Any] | None = None,
    **options: Any,
) -> Path:
    """Return the result of :func:`fit` with the steps, the seed and the intervals of the settings.

    Args:
        step, state, directory: as for :func:`fit`.
        settings: the settings of the run.
        about: facts that must be equal in the run and in a checkpoint to resume from; default the settings.
        options: further arguments of :func:`fit`.

    Errors:
        As :func:`fit`.

    Example:
        >>> import tempfile, torch
        >>> from pellucid.training import RunSettings, TrainState, fit_run
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit_run(lambda number: {"loss": 0.0}, TrainState({}), RunSettings(steps=2), folder, quiet=True).name
        'step-00000002'
    """
    numbers = {"seed": settings.seed, "save_every": settings.save_every, "log_every": settings.log_every, "total": settings.steps}
    return fit(step, state, directory=directory, settings=asdict(settings) if about is None else about, **numbers | options)


def step_seed(seed: int, step: int, rank: int = 0) -> int:
    """Return a seed for torch's generator, which another (seed, step, rank) is unlikely to share."""
    mixed = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + rank * 0x94D049BB133111EB) & ((1 << 64) - 1)
    mixed ^= mixed >> 31
    return (mixed * 0xD6E8FEB86659FD93 & ((1 << 64) - 1)) >> 1


def _resume(saved: Path, state: TrainState, notes: Mapping[str, Any], resume: bool) -> int:
    if not resume and latest_checkpoint(saved) is not None:
        raise invalid("directory", expected="a folder without checkpoints", got=saved, fix="Resume, or choose another folder.")
    resumed = resume_from(saved, state)
    if resumed is None:
        return 0
    folder, meta = resumed
    wrong = list(_differences(notes, meta))
    if wrong:
        name, wanted, got = wrong[0]
        more = f"{len(wrong)} settings differ. " if len(wrong) > 1 else ""
        fix = f"{more}Resume with the same settings, or choose another folder."
        raise invalid(f"{folder}: {name}", expected=repr(wanted), got=repr(got), fix=fix)
    return int(meta["step"])


def _differences(wanted: Mapping[str, Any], got: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Name, wanted and stored value of every setting that differs; ``None`` stands for a missing one."""
    for name, value in wanted.items():
        other = got.get(name)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            both = {**dict.fromkeys(other), **value}  # a name in the checkpoint alone is a difference, too
            yield from ((f"{name}.{inner}", *pair) for inner, *pair in _differences(both, other))
        elif other != value:
            yield name, value, other


def _check_finite(row: Mapping[str, float], step: int, last: Path | None) -> None:
    for name, number in row.items():
        if not math.isfinite(number):
            where = f"The last good checkpoint is {last}." if last else "No checkpoint was written yet."
            raise NonFiniteLoss(f"{name} is {number} after step {step}. {where} Lower the learning rate or audit the loss.")


def _devices() -> list[int]:
    return [torch.cuda.current_device()] if torch.cuda.is_available() and torch.cuda.is_initialized() else []


_TAKEN = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}


@contextmanager
def only_run_in(directory: Path) -> Iterator[None]:
    """Hold the folder's lock, an empty file ``.lock`` that is not deleted.

    Errors:
        ``InvalidArgument`` if another run holds the lock. A file system without locks gives a warning.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / ".lock"
    with path.open("a") as file:
        try:
            _lock(file.fileno())
        except OSError as error:
            if error.errno in _TAKEN:
                expected, fix = "a folder that no other run is writing to", "Wait for that run to end, or choose another folder."
                raise invalid("directory", expected=expected, got=str(directory), fix=fix) from None
            warnings.warn(f"{path} cannot be locked ({error.strerror}): make sure that no other run uses the folder.", stacklevel=3)
        yield


if sys.platform == "win32":

    def _lock(handle: int) -> None:
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:

    def _lock(handle: int) -> None:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Reporter(Protocol):
    """Called by the loop after each step."""

    def __call__(self, done: int, text: str | None = None) -> None:
        """``done`` steps of the total are done; ``text`` shows the newest numbers."""


@contextmanager
def silence(total: int, title: str) -> Iterator[Reporter]:
    """Show nothing: for ranks other than the first, and for tests."""
    del total, title

    def tell(done: int, text: str | None = None) -> None:
        del done, text

    yield tell


@contextmanager
def progress_bar(total: int, title: str) -> Iterator[Reporter]:
    """Show a bar with rate and time left or, without a terminal, print a line every half minute."""
    with needs("A progress bar", "rich"):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(highlight=False)
    if not console.is_terminal:
        yield _plain_lines(console.print, total, title)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=total, text="", rate="")
        started: tuple[float, int] | None = None

        def tell(done: int, text: str | None = None) -> None:
            nonlocal started
            now = time.perf_counter()
            started = started or (now, done)
            seconds, steps = now - started[0], done - started[1]
            rate = f"{steps / seconds:.1f} steps/s" if steps and seconds else ""
            bar.update(task, completed=done, rate=rate)
            if text is not None:
                bar.update(task, text=text)

        yield tell


def _plain_lines(say: object, total: int, title: str) -> Reporter:
    assert callable(say)
    last = time.perf_counter()
    first: tuple[float, int] | None = None
    latest = ""

    def tell(done: int, text: str | None = None) -> None:
        nonlocal last, first, latest
        now = time.perf_counter()
        first = first or (now, done)
        latest = latest if text is None else text
        if now - last < 30 and done < total:
            return
        last = now
        rate = (done - first[1]) / max(now - first[0], 1e-9)
        left = f", {(total - done) / rate:.0f} s left" if rate and done < total else ""
        say(f"{title}: {done}/{total} steps, {rate:.1f} steps/s{left}  {latest}")

    return tell
