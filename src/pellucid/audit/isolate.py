"""Run checks in a forked child, so that a crash in native code is a finding and the caller's state stays as it was.

Owns: the fork, the pipe, the time limit, and going on with the remaining checks after a crash.
Must not: know what the checks do.
Read next: ``run.py``.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch

from pellucid.audit.finding import Category, Finding, Severity, Sink
from pellucid.audit.place import traceback_place

__all__ = ["Stage", "can_isolate", "run_here", "run_isolated"]

Stage = tuple[str, Callable[[Sink], bool | None]]


class _Pipe(Sink):
    """A sink whose calls travel to the parent process."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def emit(self, finding: Finding) -> None:
        super().emit(finding)
        self._connection.send(("finding", finding))

    def mark(self, what: str) -> None:
        super().mark(what)
        self._connection.send(("mark", what))


def can_isolate(tensors: list[torch.Tensor]) -> bool:
    """Whether a forked child can run these tensors: there is a fork, they are on the CPU, and autograd survives the fork.

    Where torch sees an accelerator, the first backward pass of a process starts threads that no child inherits, and autograd then
    refuses to run in children. The audit never runs backward in the parent; if the caller has, the checks run in this process.
    """
    if not hasattr(os, "fork") or any(t.device.type != "cpu" for t in tensors):
        return False
    return torch.cuda.device_count() == 0 or _backward_survives()


def _backward_survives() -> bool:
    """Try a backward pass in a child."""
    child = multiprocessing.get_context("fork").Process(target=_try_backward)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
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


def run_here(stages: list[Stage], sink: Sink) -> None:
    """Run the stages in this process. A stage that returns False ends the audit."""
    for name, stage in stages:
        if not _one(name, stage, sink):
            return


def run_isolated(stages: list[Stage], sink: Sink, timeout: float) -> None:
    """Run the stages in a child; after a crash, report it and go on with the next stage in a new child."""
    start = 0
    while start < len(stages):
        start = _child_run(stages, start, sink, timeout)


def _child_run(stages: list[Stage], start: int, sink: Sink, timeout: float) -> int:
    """Run stages from ``start`` in one child; return the stage to go on with."""
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe(duplex=False)
    with tempfile.TemporaryFile() as log:
        child = context.Process(target=_child, args=(stages[start:], its, log))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the child starts no thread and takes no lock of the parent
            child.start()
        its.close()
        index, last, ended = start, "", False
        try:
            while mine.poll(timeout):
                kind, value = mine.recv()
                if kind == "finding":
                    sink.emit(value)
                elif kind == "mark":
                    last = value
                elif kind == "stage":
                    index, last = start + value, ""
                elif kind == "measures":
                    sink.measures.update(value)
                elif kind == "end":
                    ended = True
                    break
            else:
                sink.emit(_hang(stages[index][0], last, timeout))
        except EOFError:
            pass
        finally:
            mine.close()
            if not ended:
                child.join(1.0)
                if child.is_alive():
                    child.kill()
            child.join()
        if ended:
            return len(stages)
        if child.exitcode not in (0, None) and child.exitcode != -signal.SIGKILL:
            log.seek(0)
            sink.emit(_crash(stages[index][0], last, child.exitcode or 0, log.read().decode(errors="replace")))
        # A crash at the given inputs leaves nothing to audit.
        return index + 1 if index > 0 else len(stages)


def _child(stages: list[Stage], connection: Connection, log: Any) -> None:
    """The body of the child process."""
    faulthandler.enable(log.fileno(), all_threads=False)
    torch.set_num_threads(1)  # the parent's thread pool did not survive the fork
    sink = _Pipe(connection)
    for index, (name, stage) in enumerate(stages):
        connection.send(("stage", index))
        alive = _one(name, stage, sink)
        connection.send(("measures", sink.measures))
        if not alive:
            break
    connection.send(("end", None))


def _one(name: str, stage: Callable[[Sink], bool | None], sink: Sink) -> bool:
    """Run one stage; an exception it does not handle is reported and does not end the audit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return stage(sink) is not False
        except Exception as error:
            place = traceback_place("".join(traceback.format_tb(error.__traceback__)))
            text = f"The subject raises {type(error).__name__} during {sink.progress or name}: {str(error)[:300]}"
            sink.emit(Finding(Category.RAISES, Severity.NOTE, name, text, {}, place, "That check could not be completed."))
            return True


def _crash(stage: str, last: str, code: int, log: str) -> Finding:
    what = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    frames = "\n".join(reversed(log.splitlines()))  # faulthandler prints the innermost frame first
    node, _, where = last.partition("|")
    place = where or traceback_place(frames)
    text = f"The process dies with {what} during {stage}: {node}."
    advice = "Keep NaN and out-of-range values away from this operation, e.g. with nan_to_num on its coordinates."
    return Finding(Category.CRASH, Severity.ERROR, stage, text, {"exit_code": code}, place or None, advice)


def _hang(stage: str, last: str, timeout: float) -> Finding:
    text = f"No sign of life for {timeout:.0f} s during {stage}: {last.partition('|')[0]}."
    return Finding(Category.CRASH, Severity.ERROR, stage, text, {"timeout": timeout}, None, "Audit with smaller inputs.")
