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
from pathlib import Path
from typing import Any

import torch

from pellucid.audit.finding import Category, Finding, Measure, Severity, Sink
from pellucid.audit.place import traceback_place

__all__ = ["GIVEN", "Stage", "can_isolate", "fresh", "fresh_value", "run_here", "run_isolated"]

GIVEN = "the given inputs"  # the stage without which nothing can be said
_PATIENCE = 60.0  # seconds for one call in a process of its own
Stage = tuple[str, Callable[[Sink], bool | None]]


class _Pipe(Sink):
    """A sink whose calls travel to the parent process."""

    def __init__(self, connection: Connection, measures: dict[str, Measure]) -> None:
        super().__init__()
        self.measures.update(measures)  # what an earlier child measured before it died
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


def fresh(compute: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor] | None:
    """Return the tensors that ``compute`` gives in a child forked here and now, None where it raises or dies."""
    arrays = fresh_value(lambda: [t.double().numpy() for t in compute()])
    return None if arrays is None else [torch.from_numpy(a) for a in arrays]


def fresh_value(compute: Callable[[], Any], patience: float = _PATIENCE) -> Any:
    """Return the plain value that ``compute`` gives in a child forked here and now, None where it raises, dies or hangs."""
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(compute, its))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    its.close()
    try:
        return mine.recv() if mine.poll(patience) else None
    except EOFError:
        return None
    finally:
        child.kill()
        child.join()


def _send(compute: Callable[[], Any], connection: Connection) -> None:
    torch.set_num_threads(1)  # the parent's thread pool did not survive the fork
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)  # whatever goes wrong here goes wrong again, and is told, in the first child
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
        child = context.Process(target=_child, args=(stages[start:], its, log, sink.measures))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the child starts no thread and takes no lock of the parent
            child.start()
        its.close()
        index, last, ended, hung = start, "", False, False
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
                    sink.measures.update(value[0])
                    sink.tried.update(value[1])
                elif kind == "end":
                    ended = True
                    break
            else:
                hung = True
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
        if not hung:  # a child that does not say "end" died, whatever its exit code
            log.seek(0)
            sink.emit(_crash(stages[index][0], last, child.exitcode or 0, log.read().decode(errors="replace")))
        # A crash at the given inputs leaves nothing to audit.
        return len(stages) if any(name == GIVEN for name, _ in stages[index:]) else index + 1


def _child(stages: list[Stage], connection: Connection, log: Any, measures: dict[str, Measure]) -> None:
    """The body of the child process."""
    faulthandler.enable(log.fileno(), all_threads=False)
    torch.set_num_threads(1)  # the parent's thread pool did not survive the fork
    sink = _Pipe(connection, measures)
    for index, (name, stage) in enumerate(stages):
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
    -signal.SIGKILL: "Somebody killed it: most often the kernel, for want of memory. Audit with smaller inputs.",
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


def _hang(stage: str, last: str, timeout: float) -> Finding:
    text = f"No sign of life for {timeout:.0f} s during {stage}: {last.partition('|')[0]}."
    return Finding(Category.CRASH, Severity.ERROR, stage, text, {"timeout": timeout}, None, "Audit with smaller inputs.")
