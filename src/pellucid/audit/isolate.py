"""Run checks in a forked child, so that a crash in native code becomes a finding and the caller's state does not change.

Owns: the fork, the process group, the pipes, limits on time and output, and resuming with the next check after a crash.
Must not: know what the checks do.
Read next: ``run.py``.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from pellucid.audit.finding import Category, Evidence, Finding, Measure, Severity, Sink
from pellucid.audit.place import traceback_place

__all__ = ["GIVEN", "Stage", "can_isolate", "fresh", "fresh_value", "run_here", "run_isolated"]

GIVEN = "the given inputs"  # the stage that all others depend on
_PATIENCE = 60.0  # seconds for one call in a process of its own
_LOOK = 0.5  # seconds between checks that the child lives: its own children may keep its pipes open
_SHOWN = 1 << 16  # bytes of the call's output that are passed on
_REST = 1000  # reads of the remaining output at the end: a process that left the group may write for ever
_in_group = False  # whether this process, a child of an audit, leads or shares a group that its parent will kill
Stage = tuple[str, Callable[[Sink], bool | None]]


class _Pipe(Sink):
    """A sink whose calls travel to the parent process."""

    def __init__(self, connection: Connection, measures: dict[str, Measure]) -> None:
        super().__init__()
        self.measures.update(measures)  # from an earlier child that died
        self._connection = connection

    def emit(self, finding: Finding) -> None:
        super().emit(finding)
        self._connection.send(("finding", finding))

    def mark(self, what: str) -> None:
        super().mark(what)
        self._connection.send(("mark", what))


def can_isolate(tensors: list[torch.Tensor]) -> bool:
    """Whether a forked child can use these tensors: the system can fork, they are on the CPU, and autograd works after the fork.

    On a machine with an accelerator, the first backward pass of a process starts threads that no child inherits, and autograd then
    refuses to run in children. The audit never runs backward in the parent; if the caller has, the checks run in this process.
    """
    if not hasattr(os, "fork") or any(t.device.type != "cpu" for t in tensors):
        return False
    return torch.cuda.device_count() == 0 or _backward_survives()


def _forked(body: Callable[..., None], *args: Any) -> Any:
    """Start a process that runs ``body`` in a copy of this one."""
    child = multiprocessing.get_context("fork").Process(target=body, args=args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child starts no thread and takes no lock of the parent
        child.start()
    return child


def _backward_survives() -> bool:
    """Try a backward pass in a child."""
    child = _forked(_try_backward)
    child.join(20.0)
    if child.is_alive():
        child.kill()
        child.join()
    return child.exitcode == 0


def _try_backward() -> None:
    x = torch.ones(2, requires_grad=True)
    try:
        torch.autograd.grad(x.sin().sum(), x)
    except RuntimeError:
        os._exit(1)
    os._exit(0)


def _lead() -> None:
    """Make this process the leader of a new group, which the parent kills as a whole; do nothing if it is in such a group."""
    global _in_group
    if not _in_group:
        os.setpgid(0, 0)
        _in_group = True


def _end(child: Any, leads: bool) -> None:
    """Kill a child and, if it leads a group, everything that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if leads:
            os.killpg(child.pid, signal.SIGKILL)
        child.kill()
    child.join()


def _redirect(out: int) -> None:
    """Give this process an empty standard input, and send its output to a file descriptor."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for the life of this process
    sys.stdout = sys.stderr = open(1, "w", buffering=1, errors="replace", closefd=False)  # noqa: SIM115


class _Printed:
    """The output of the audited call in all children: passed on to stderr up to a limit, then only counted."""

    def __init__(self) -> None:
        self.count = 0
        self.read, self.write = os.pipe()

    def drain(self) -> None:
        """Read the output that has arrived."""
        data = os.read(self.read, _SHOWN)
        sys.stderr.write(data[: max(0, _SHOWN - self.count)].decode(errors="replace"))
        self.count += len(data)

    def close(self, sink: Sink) -> None:
        """Read the remaining output, and report how much was printed if that is more than was shown."""
        for _ in range(_REST):
            if not wait([self.read], 0):
                break
            self.drain()
        os.close(self.read)
        os.close(self.write)
        if self.count > _SHOWN:
            text = f"The call printed {self.count / 1e6:.1f} MB in the runs of this audit; {_SHOWN >> 10} KiB are shown, on stderr."
            evidence: dict[str, Evidence] = {"bytes": self.count}
            sink.emit(Finding(Category.PRINTED, Severity.NOTE, "call", text, evidence, None, "Log less, or to a file."))


def fresh(compute: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor] | None:
    """Run ``compute`` in a child forked now, and return its tensors, or None if it raises or dies."""
    arrays = fresh_value(lambda: [t.double().numpy() for t in compute()])
    return None if arrays is None else [torch.from_numpy(a) for a in arrays]


def fresh_value(compute: Callable[[], Any], patience: float = _PATIENCE) -> Any:
    """Run ``compute`` in a child forked now, and return its picklable value, or None if it raises, dies or hangs."""
    mine, its = multiprocessing.Pipe(duplex=False)
    child = _forked(_send, compute, its)
    its.close()
    end = time.monotonic() + patience
    try:
        while not mine.poll(_LOOK):
            if time.monotonic() > end or not (child.is_alive() or mine.poll(0)):
                return None
        return mine.recv()
    except EOFError:
        return None
    finally:
        _end(child, not _in_group)


def _send(compute: Callable[[], Any], connection: Connection) -> None:
    _lead()
    torch.set_num_threads(1)  # the parent's thread pool did not survive the fork
    _redirect(os.open(os.devnull, os.O_WRONLY))  # an error here recurs in the child that runs the checks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            connection.send(compute())
        except BaseException:
            os._exit(1)


def run_here(stages: list[Stage], sink: Sink) -> None:
    """Run the stages in this process. A stage that returns False ends the audit."""
    for name, stage in stages:
        if not _one(name, stage, sink):
            return


def run_isolated(stages: list[Stage], sink: Sink, timeout: float, limit: float) -> None:
    """Run the stages in a child; after a crash, report it and go on with the next stage in a new child, up to a time limit."""
    start, end = 0, time.monotonic() + limit
    printed = _Printed()
    try:
        while start < len(stages):
            start = _child_run(stages, start, sink, timeout, end, printed)
            if start <= len(stages) and time.monotonic() > end:
                sink.emit(_late(stages[start - 1][0], limit))
                break
    finally:
        printed.close(sink)


@dataclass
class _Progress:
    """How far a child has come: the index of its stage, and the mark that it set last in it."""

    stage: int
    mark: str = ""


def _child_run(stages: list[Stage], start: int, sink: Sink, timeout: float, end: float, printed: _Printed) -> int:
    """Run stages from ``start`` in one child; return the stage to go on with."""
    mine, its = multiprocessing.Pipe(duplex=False)
    progress, outcome = _Progress(start), "died"
    with tempfile.TemporaryFile() as log:
        child = _forked(_child, stages, start, its, log, sink.measures, printed.write)
        its.close()
        try:
            outcome = _listen(child, mine, progress, sink, timeout, end, printed)
        finally:
            mine.close()
            if outcome in ("ended", "died"):
                child.join(1.0)
            code = child.exitcode
            _end(child, True)
        name = stages[progress.stage][0]
        if outcome == "hung":
            sink.emit(_hang(name, progress.mark, timeout))
        elif outcome == "died":
            log.seek(0)
            sink.emit(_crash(name, progress.mark, code or 0, log.read().decode(errors="replace")))
    # After a crash or a hang at the given inputs, nothing is left to audit.
    nothing_left = outcome != "late" and any(name == GIVEN for name, _ in stages[progress.stage :])
    return len(stages) if outcome == "ended" or nothing_left else progress.stage + 1


def _listen(child: Any, pipe: Connection, progress: _Progress, sink: Sink, timeout: float, end: float, printed: _Printed) -> str:
    """Pass on what a child sends, until it is ``ended``, ``died`` (it did not say "end"), ``hung`` or ``late``."""
    heard = time.monotonic()
    while True:
        ready = wait([pipe, printed.read], _LOOK)
        now = time.monotonic()
        if printed.read in ready:
            printed.drain()
        if now > end:
            return "late"
        if pipe not in ready:
            if not child.is_alive() and not pipe.poll(0):
                return "died"
            if now - heard > timeout:
                return "hung"
            continue
        heard = now
        try:
            kind, value = pipe.recv()
        except EOFError:
            return "died"
        if kind == "finding":
            sink.emit(value)
        elif kind == "mark":
            progress.mark = value
        elif kind == "stage":
            progress.stage, progress.mark = value, ""
        elif kind == "measures":
            sink.measures.update(value[0])
            sink.tried.update(value[1])
        else:
            return "ended"


def _child(stages: list[Stage], start: int, connection: Connection, log: Any, measures: dict[str, Measure], out: int) -> None:
    """The body of the child process."""
    _lead()
    _redirect(out)
    faulthandler.enable(log.fileno(), all_threads=False)
    torch.set_num_threads(1)  # the parent's thread pool did not survive the fork
    sink = _Pipe(connection, measures)
    for index, (name, stage) in enumerate(stages[start:], start):
        connection.send(("stage", index))
        alive = _one(name, stage, sink)
        connection.send(("measures", (sink.measures, sink.tried)))
        if not alive:
            break
    connection.send(("end", None))


def _one(name: str, stage: Callable[[Sink], bool | None], sink: Sink) -> bool:
    """Run one stage; an exception it does not handle is reported and does not end the audit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return stage(sink) is not False
        except (Exception, SystemExit) as error:
            place = traceback_place("".join(traceback.format_tb(error.__traceback__)))
            text = f"The subject raises {type(error).__name__} during {sink.progress or name}: {str(error)[:300]}"
            severity = Severity.ERROR if isinstance(error, SystemExit) else Severity.NOTE
            sink.emit(Finding(Category.RAISES, severity, name, text, {}, place, "That check could not be completed."))
            return True


_NATIVE = "Keep NaN and out-of-range values away from this operation, e.g. with nan_to_num on its coordinates."
_DEATHS = {
    -signal.SIGKILL: "It was killed, most often by the system for lack of memory. Audit with smaller inputs.",
    **dict.fromkeys((-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGFPE, -signal.SIGILL, -signal.SIGABRT), _NATIVE),
}


def _crash(stage: str, last: str, code: int, log: str) -> Finding:
    what = f"{signal.Signals(-code).name} (signal {-code})" if code < 0 else f"exit code {code}, without an exception,"
    frames = "\n".join(reversed(log.splitlines()))  # faulthandler prints the innermost frame first
    node, _, where = last.partition("|")
    place = where or traceback_place(frames)
    text = f"The process dies with {what} during {stage}: {node}."
    advice = _DEATHS.get(code, "Let the call raise an exception instead of ending the process.")
    return Finding(Category.CRASH, Severity.ERROR, stage, text, {"exit_code": code}, place or None, advice)


def _late(stage: str, limit: float) -> Finding:
    text = f"The audit was stopped after {limit:g} s, during {stage}: the other checks are missing."
    advice = "Audit with smaller inputs, with quick=True, or raise limit=."
    return Finding(Category.CRASH, Severity.ERROR, stage, text, {"limit": limit}, None, advice)


def _hang(stage: str, last: str, timeout: float) -> Finding:
    text = f"The process hangs: no progress for {timeout:.0f} s during {stage}: {last.partition('|')[0]}."
    return Finding(Category.CRASH, Severity.ERROR, stage, text, {"timeout": timeout}, None, "Audit with smaller inputs.")
