"""Check many parameters at once: a random projection through all of them audits a large module in the time of a small one.

Owns: joint finite differences over groups of leaves, and halving a group that disagrees until the leaf is found.
Must not: judge a single leaf (``agreement.py`` does).
Read next: ``agreement.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.audit.context import Context
from pellucid.audit.differences import tolerance_for
from pellucid.audit.finding import Category, Finding, Measure, Severity, Sink
from pellucid.audit.probing import joint_directions, joint_slope

__all__ = ["settled"]

_MANY = 24  # parameters above which they are audited together


def settled(context: Context, sink: Sink) -> set[str]:
    """Judge the live parameters of a large module along joint directions; return the names that need no check of their own."""
    grads = context.run[1]
    live = [k for k in context.subject.judged if k in context.subject.params and _live(grads[k])]
    if len(live) <= _MANY or context.eps > tolerance_for(1e-10):
        return set()
    sink.mark(f"finite differences of {len(live)} parameters together")
    agreed = _agreeing(context, live)
    for name in agreed:
        grad = grads[name]
        assert grad is not None
        measure = Measure("parameter", tuple(grad.shape), "exact", error=0.0)
        measure.precision, measure.tolerance = f"{context.precision}, by projection", tolerance_for(context.eps)
        measure.coverage = float((grad != 0).double().mean())
        measure.magnitude = grad.abs().double().cpu().numpy()
        measure.state = torch.where(grad == 0, 1, 2).to(torch.uint8).cpu().numpy()
        sink.measure(name, measure)
    if agreed:
        text = f"{len(agreed)} parameters were audited together, along random projections through all of them."
        advice = "An error far smaller than their joint derivative is not seen; audit a part by itself for more."
        sink.emit(Finding(Category.COVERAGE, Severity.NOTE, "parameters", text, {"parameters": len(agreed)}, None, advice))
    return set(agreed)


def _live(grad: Tensor | None) -> bool:
    return grad is not None and bool((grad != 0).any()) and bool(torch.isfinite(grad).all())


def _agreeing(context: Context, names: list[str]) -> list[str]:
    """Return the leaves that agree: halve the group until each part agrees or is a single leaf."""
    point, grads = context.generic, context.run[1]
    if all(joint_slope(context, point, grads, v).verdict == "agree" for v in joint_directions(point, grads, names)):
        return names
    if len(names) == 1:
        return []
    half = len(names) // 2
    return _agreeing(context, names[:half]) + _agreeing(context, names[half:])
