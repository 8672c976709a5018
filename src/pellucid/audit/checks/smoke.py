"""Does it run at all: forward and backward at the given inputs, in the given dtype.

Owns: exceptions at the given inputs, NaN or inf there, and the line behind them.
Must not: perturb anything.
Read next: ``hazards.py``.
"""

from __future__ import annotations

import traceback

import torch
from torch import Tensor

from pellucid.audit.backward import Step, first_non_finite
from pellucid.audit.context import Context
from pellucid.audit.finding import Category, Finding, Measure, Severity, Sink
from pellucid.audit.place import traceback_place

__all__ = ["check", "first_line", "raised"]

_IN_PLACE = ("modified by an inplace operation", "is being modified inplace", "in-place operation", "written-to tensor")


def check(context: Context, sink: Sink) -> bool:
    """Run forward, then backward; return whether both work, so that further checks make sense."""
    subject = context.subject
    sink.mark("forward at the given inputs")
    try:
        outs = context.native
    except Exception as error:
        sink.emit(raised(error, "forward", None))
        return False
    if not outs:
        for name in subject.judged:
            sink.measure(name, Measure("parameter" if name in subject.params else "input", tuple(subject.base[name].shape), "none"))
        if subject.returned is type(None):
            text = "The call returns None: there is nothing to differentiate."
            advice = "Return the result; look for a forgotten return, or for a function that only writes or prints."
            sink.emit(Finding(Category.UNJUDGED, Severity.ERROR, "call", text, {}, None, advice))
            return False
        sink.emit(
            Finding(
                Category.COVERAGE,
                Severity.NOTE,
                subject.name,
                "No output is a floating-point tensor: there is nothing to differentiate.",
                advice="Audit the step that turns this result into a loss, or declare the gradient as none.",
            )
        )
        return False
    sink.mark("backward at the given inputs")
    try:
        context.announce = sink.mark
        steps, grads = context.first
    except Exception as error:
        write = _last_write(context)
        sink.emit(raised(error, "backward", write))
        return False
    _finite(sink, outs, steps, grads)
    return True


def raised(error: BaseException, stage: str, place: str | None) -> Finding:
    """Word an exception as a finding: in-place trouble by its own category, anything else as raises."""
    text = first_line(error)
    where = place or traceback_place("".join(traceback.format_tb(error.__traceback__)))
    if any(mark in str(error) for mark in _IN_PLACE):
        return Finding(
            Category.IN_PLACE,
            Severity.ERROR,
            "call",
            f"{stage} raises because of a write in place: {text}",
            place=where,
            advice="Write the operation out of place.",
        )
    if "requires grad" in str(error) and "numpy" in str(error):
        return Finding(
            Category.DETACHED,
            Severity.ERROR,
            "call",
            f"{stage} leaves torch for numpy and raises on tensors that need a gradient: {text}",
            place=where,
            advice="Do the computation in torch operations.",
        )
    return Finding(
        Category.RAISES,
        Severity.ERROR,
        "call",
        f"{stage} raises {type(error).__name__}: {text}",
        place=where,
        advice="Make the call work for tensors that require a gradient, or audit with inputs it accepts.",
    )


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, cut to a readable length."""
    return str(error).strip().split("\n")[0][:300]


def _last_write(context: Context) -> str | None:
    """Return the line of the last write in place of a watched forward run."""
    try:
        tracer = context.watch(context.subject.point())
    except Exception:
        return None
    return tracer.writes[-1] if tracer.writes else None


def _finite(sink: Sink, outs: list[Tensor], steps: list[Step], grads: dict[str, Tensor | None]) -> None:
    if any(not torch.isfinite(o).all() for o in outs):
        bad = sum(int((~torch.isfinite(o)).sum()) for o in outs)
        sink.emit(
            Finding(
                Category.NON_FINITE,
                Severity.WARNING,
                "output",
                "The output itself is not finite at the given inputs.",
                {"elements": bad},
                advice="Audit with inputs inside the function's domain.",
            )
        )
    spoilt = {k: int((~torch.isfinite(g)).sum()) for k, g in grads.items() if g is not None and not torch.isfinite(g).all()}
    if spoilt:
        step = first_non_finite(steps)
        name, count = next(iter(spoilt.items()))
        sink.emit(
            Finding(
                Category.NON_FINITE,
                Severity.ERROR,
                name,
                f"The gradient is not finite at the given inputs; first in {step.node if step else 'an unknown node'}.",
                {"elements": count, "node": step.node if step else ""},
                place=step.place if step else None,
                advice="Guard the input of that operation with a double where.",
            )
        )
