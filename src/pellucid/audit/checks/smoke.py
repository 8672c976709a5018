"""Check that the call runs: forward and backward at the given inputs, in the given dtype.

Owns: reporting exceptions, NaN and inf at the given inputs, and the line that causes them.
Must not: perturb anything.
Read next: ``hazards.py``.
"""

from __future__ import annotations

import traceback

import torch
from torch import Tensor

from pellucid.audit.backward import Step, first_non_finite
from pellucid.audit.context import Context
from pellucid.audit.finding import Category, Evidence, Finding, Measure, Severity, Sink
from pellucid.audit.place import traceback_place

__all__ = ["check", "first_line", "raised"]

_IN_PLACE = ("modified by an inplace operation", "is being modified inplace", "in-place operation", "written-to tensor")


def check(context: Context, sink: Sink) -> bool:
    """Run forward, then backward; return whether both work, which the other checks require."""
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
        text = "No output is a floating-point tensor: there is nothing to differentiate."
        advice = "Audit the step that turns this result into a loss, or declare the gradient as none."
        sink.emit(Finding(Category.COVERAGE, Severity.NOTE, subject.name, text, advice=advice))
        return False
    sink.mark("backward at the given inputs")
    try:
        context.announce = sink.mark
        steps, grads = context.first
    except Exception as error:
        sink.emit(raised(error, "backward", _last_write(context)))
        return False
    _finite(sink, outs, steps, grads)
    return True


def raised(error: BaseException, stage: str, place: str | None) -> Finding:
    """Turn an exception into a finding: in-place errors and numpy conversions get their own category, others ``raises``."""
    category, what = Category.RAISES, f"raises {type(error).__name__}"
    advice = "Make the call work for tensors that require a gradient, or audit with inputs it accepts."
    if any(mark in str(error) for mark in _IN_PLACE):
        category, what, advice = Category.IN_PLACE, "raises because of a write in place", "Write the operation out of place."
    elif "requires grad" in str(error) and "numpy" in str(error):
        category, what = Category.DETACHED, "leaves torch for numpy and raises on tensors that need a gradient"
        advice = "Do the computation in torch operations."
    where = place or traceback_place("".join(traceback.format_tb(error.__traceback__)))
    return Finding(category, Severity.ERROR, "call", f"{stage} {what}: {first_line(error)}", place=where, advice=advice)


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, cut to a readable length."""
    return str(error).strip().split("\n")[0][:300]


def _last_write(context: Context) -> str | None:
    """Return the line of the last in-place write in a watched forward run."""
    try:
        tracer = context.watch(context.subject.point())
    except Exception:
        return None
    return tracer.writes[-1] if tracer.writes else None


def _finite(sink: Sink, outs: list[Tensor], steps: list[Step], grads: dict[str, Tensor | None]) -> None:
    if any(not torch.isfinite(o).all() for o in outs):
        bad = sum(int((~torch.isfinite(o)).sum()) for o in outs)
        text, advice = "The output itself is not finite at the given inputs.", "Audit with inputs inside the function's domain."
        sink.emit(Finding(Category.NON_FINITE, Severity.WARNING, "output", text, {"elements": bad}, None, advice))
    spoilt = {k: int((~torch.isfinite(g)).sum()) for k, g in grads.items() if g is not None and not torch.isfinite(g).all()}
    if spoilt:
        step = first_non_finite(steps)
        node, place = (step.node, step.place) if step else ("", None)
        name, count = next(iter(spoilt.items()))
        text = f"The gradient is not finite at the given inputs; first in {node or 'an unknown node'}."
        evidence: dict[str, Evidence] = {"elements": count, "node": node}
        advice = "Guard the input of that operation with a double where."
        sink.emit(Finding(Category.NON_FINITE, Severity.ERROR, name, text, evidence, place, advice))
