"""Autograd against finite differences for every input and parameter, and the reason where they differ.

Owns: the verdicts detached, zero, wrong, surrogate, staircase, kink and jump per leaf.
Must not: look at single elements (``coverage.py``) or at other inputs than the given ones (``degenerate.py``).
Read next: ``coverage.py``.
"""

from __future__ import annotations

import math

from torch import Tensor

from pellucid.audit.backward import first_dead, watched
from pellucid.audit.checks.coverage import cover
from pellucid.audit.context import Context
from pellucid.audit.differences import Slope
from pellucid.audit.finding import Category, Evidence, Finding, Measure, Severity, Sink
from pellucid.audit.probing import directions, measure_slope, takes_part
from pellucid.audit.trace import Event

__all__ = ["check"]

_HIDDEN = 1.2e-7
_WHOLE = {"detach", "no-grad", "host", "rebuild"}
_CURE = {
    "detach": "Remove the detach, or declare the gradient as a surrogate.",
    "no-grad": "Run it outside torch.no_grad().",
    "host": "Stay in torch: stack tensors instead of reading their values on the host.",
    "rebuild": "Build it with torch.stack or torch.cat: torch.tensor copies values without their graph.",
    "to-integer": "Interpolate between the neighbouring integer positions, or use a straight-through estimator and declare it.",
    "hard-sample": "Weight both branches by the probability, or use a relaxed or straight-through sample.",
    "compare": "A threshold has no gradient; use a soft one where you need it.",
    "index": "Indices have no gradient; use soft weights where you need one.",
}


def check(context: Context, sink: Sink) -> None:
    """Compare every leaf's gradient with finite differences at a generic point and at the given one."""
    if not context.repeatable:
        text = "Repeated runs differ by more than rounding: gradients cannot be checked against finite differences."
        sink.emit(
            Finding(Category.NONDETERMINISM, Severity.NOTE, "call", text, {}, None, "Make the call repeatable, then audit again.")
        )
        return
    grads = context.run[1]
    for name, value in context.generic.items():
        if value.numel() == 0:
            continue
        sink.mark(f"finite differences of {name}")
        leaf = context.subject.params.get(name)
        if leaf is not None and not leaf.requires_grad:
            continue
        _leaf(context, sink, name, value, grads[name])


def _leaf(context: Context, sink: Sink, name: str, value: Tensor, grad: Tensor | None) -> None:
    kind = "parameter" if name in context.subject.params else "input"
    measure = Measure(kind, tuple(value.shape))
    sink.measure(name, measure)
    slopes = [measure_slope(context, context.generic, name, grad, v) for v in directions(value)]
    if context.eps < _HIDDEN and all(s.verdict == "unsettled" for s in slopes):
        # Something inside may compute in float32 without telling: look again with steps that float32 resolves.
        slopes = [measure_slope(context, context.generic, name, grad, v, eps=_HIDDEN) for v in directions(value)]
    measure.pairs = [(s.autograd, s.central) for s in slopes if math.isfinite(s.central)]
    settled = [s for s in slopes if s.verdict in {"agree", "wrong"}]
    measure.error = max((s.error for s in settled if s.moves or s.autograd), default=0.0)
    flat = any(not s.moves for s in slopes) and not any(s.moves for s in slopes if s.verdict not in {"jump", "unsettled"})
    live = grad is not None and bool((grad != 0).any())
    wrong = [s for s in slopes if s.verdict == "wrong"]
    if flat:
        _flat(context, sink, name, grad, live, measure, slopes)
    elif grad is None:
        _detached(context, sink, name, measure, slopes)
    elif not live and wrong:
        _dead(context, sink, name, measure, slopes)
    elif 2 * len(wrong) >= len(slopes):
        assert grad is not None
        dense = directions(value, 1)[0]
        if measure_slope(context, context.generic, name, grad, dense * (grad != 0)).verdict != "agree":
            _wrong(context, sink, name, measure, wrong)  # else only the zeros are wrong: coverage says so
    else:
        measure.gradient = "exact"
        if not settled:
            _unsettled(sink, name, slopes)
        _given_point(context, sink, name, measure)
    cover(context, sink, name, value, grad, measure)


def _flat(context: Context, sink: Sink, name: str, grad: Tensor | None, live: bool, measure: Measure, slopes: list[Slope]) -> None:
    """The function does not move at a small step: a staircase, a plateau, or a leaf without effect."""
    drawn = any(e.kind == "hard-sample" and name in e.sources for e in context.trace.events)
    part = drawn or takes_part(context, context.generic, name)
    first = context.first[1].get(name)
    live = live or (not part and first is not None and bool((first != 0).any()))
    measure.gradient = "surrogate" if live and part else "none"
    numbers: dict[str, Evidence] = {"finite_difference": slopes[0].central, "autograd": slopes[0].autograd}
    parameter = measure.kind == "parameter"
    if not part and parameter:
        severity = Severity.ERROR if live else Severity.WARNING
        text = "gets a gradient, yet changing it does not change the output" if live else "has no effect on the output"
        advice = "Read the parameter itself in every call; a copy taken at construction goes stale."
        sink.emit(Finding(Category.STALE, severity, name, f"{name} {text}.", numbers, _custom(context), advice))
    elif not part and live:
        text = f"{name} gets a gradient, yet changing it does not change the output."
        sink.emit(Finding(Category.WRONG, Severity.ERROR, name, text, numbers, _custom(context), "Return no gradient for it."))
    elif part and live and all(s.verdict == "agree" for s in slopes):
        measure.gradient = "exact"  # both are zero to within rounding
    elif part and live:
        text = f"The output is a staircase in {name}; its gradient is a surrogate."
        sink.emit(Finding(Category.SURROGATE, Severity.NOTE, name, text, numbers, _custom(context), "Declare it as a surrogate."))
    elif part:
        _staircase(context, sink, name, grad, numbers)


def _staircase(context: Context, sink: Sink, name: str, grad: Tensor | None, numbers: dict[str, Evidence]) -> None:
    """A staircase without gradient: inherent, unless somebody made it one by sampling, casting or returning None."""
    hard = [e for e in context.trace.events if e.kind in {"hard-sample", "to-integer"} and name in e.sources]
    if grad is None and context.suspects and context.reachable(name):
        node, place = context.suspects[0]
        text = f"{name} takes part, but {node} returns no gradient for it."
        advice = "Return a gradient from backward, or mark the argument as non-differentiable and declare it."
        sink.emit(Finding(Category.DETACHED, Severity.ERROR, name, text, {**numbers, "node": node}, place, advice))
    elif hard:
        event = hard[0]
        text = f"{name} takes part only through {event.op}, which has no gradient."
        sink.emit(_cut_finding(name, text, event, Severity.WARNING, numbers))
    else:
        cuts = context.trace.cuts(name)
        place = cuts[0].place if cuts else None
        text = f"The output is piecewise constant in {name}: it takes part by jumps and has no derivative."
        advice = "Inherent; declare the gradient as none, or use a smooth stand-in where you need one."
        sink.emit(Finding(Category.JUMP, Severity.NOTE, name, text, numbers, place, advice))


def _detached(context: Context, sink: Sink, name: str, measure: Measure, slopes: list[Slope]) -> None:
    measure.gradient = "wrong"
    numbers: dict[str, Evidence] = {"finite_difference": slopes[0].central, "autograd": "no path"}
    cuts = _ranked(context.trace.cuts(name))
    text = f"{name} takes part in the output, but autograd has no path to it."
    if context.suspects and context.reachable(name):
        node, place = context.suspects[0]
        text = f"{name} takes part in the output, but {node} returns no gradient for it."
        advice = "Return the gradient from backward."
        sink.emit(Finding(Category.DETACHED, Severity.ERROR, name, text, {**numbers, "node": node}, place, advice))
    elif cuts:
        sink.emit(_cut_finding(name, text, cuts[0], Severity.ERROR, numbers))
    else:
        advice = "Look for a conversion to numpy or a custom operator without a registered backward."
        sink.emit(Finding(Category.DETACHED, Severity.ERROR, name, text, numbers, None, advice))


def _dead(context: Context, sink: Sink, name: str, measure: Measure, slopes: list[Slope]) -> None:
    """The path exists and carries nothing but zeros."""
    measure.gradient = "wrong"
    step = first_dead(watched(context.subject, context.generic)[0])
    numbers: dict[str, Evidence] = {"finite_difference": slopes[0].central, "autograd": 0.0, "node": step.node if step else ""}
    cuts = [e for e in _ranked(context.trace.cuts(name)) if e.kind in _WHOLE]
    if cuts:
        text = f"{name} takes part, but the path that matters is cut by {cuts[0].op}; what is left carries zeros."
        sink.emit(_cut_finding(name, text, cuts[0], Severity.ERROR, numbers))
        return
    place = step.place if step else _custom(context)
    text = f"{name} takes part in the output, but its gradient is zero everywhere."
    advice = "Correct the backward of the node named here."
    sink.emit(Finding(Category.COVERAGE, Severity.ERROR, name, text, numbers, place or _custom(context), advice))


def _wrong(context: Context, sink: Sink, name: str, measure: Measure, wrong: list[Slope]) -> None:
    measure.gradient = "wrong"
    worst = max(wrong, key=lambda s: s.error)
    numbers: dict[str, Evidence] = {
        "autograd": worst.autograd,
        "finite_difference": worst.central,
        "coarser_step": worst.coarse,
        "relative_error": worst.error,
    }
    cuts = [e for e in _ranked(context.trace.cuts(name)) if e.kind in _WHOLE]
    writes = [e for e in context.trace.events if e.kind in {"data-write", "stride-0"}]
    text = f"The gradient of {name} disagrees with finite differences at two step sizes."
    if context.redrawn[0]:
        advice = "Draw before the recomputed region and pass the draw in."
        sink.emit(Finding(Category.WRONG, Severity.ERROR, name, text, numbers, context.redrawn[1], advice))
    elif writes:
        advice = "Write the change as an out-of-place torch operation."
        sink.emit(Finding(Category.WRONG, Severity.ERROR, name, text, numbers, writes[0].place, advice))
    elif cuts:
        text = f"Part of the path from {name} is cut by {cuts[0].op}: the gradient disagrees with finite differences."
        sink.emit(_cut_finding(name, text, cuts[0], Severity.ERROR, numbers))
    else:
        advice = "Correct the backward named here." if context.suspects else "Compare the operations one by one with gradcheck."
        sink.emit(Finding(Category.WRONG, Severity.ERROR, name, text, numbers, _custom(context), advice))


def _given_point(context: Context, sink: Sink, name: str, measure: Measure) -> None:
    """At a generic point all is well; say what happens at the given one if it is special."""
    if context.given is context.generic:
        return
    outs, grads = context.subject.gradient(context.given)
    if [o.shape for o in outs] != [w.shape for w in context.weights]:
        return
    grad = grads[name]
    slopes = [measure_slope(context, context.given, name, grad, v) for v in directions(context.given[name], 2)]
    verdicts = {s.verdict for s in slopes}
    s = slopes[0]
    numbers: dict[str, Evidence] = {"autograd": s.autograd, "forward": s.forward, "backward": s.backward}
    if verdicts == {"wrong"}:
        text = f"The gradient of {name} is wrong at the given point, though right next to it."
        advice = "Check the branch that handles this special value."
        sink.emit(Finding(Category.WRONG, Severity.ERROR, name, text, numbers, _custom(context), advice))
        measure.gradient = "wrong"
    elif "jump" in verdicts:
        text = f"The output jumps at the given value of {name}."
        sink.emit(Finding(Category.JUMP, Severity.NOTE, name, text, numbers, None, "Expect no useful gradient exactly there."))
        measure.gradient = "almost_everywhere"
    elif "kink" in verdicts:
        text = f"The given value of {name} sits on a kink: the one-sided derivatives differ and autograd picks one."
        advice = "Harmless at random inputs; average both sides where exactly this value matters."
        sink.emit(Finding(Category.KINK, Severity.NOTE, name, text, numbers, None, advice))
        measure.gradient = "almost_everywhere"


def _unsettled(sink: Sink, name: str, slopes: list[Slope]) -> None:
    text = f"Finite differences of {name} do not settle: too rough or too noisy to judge its gradient."
    numbers: dict[str, Evidence] = {"autograd": slopes[0].autograd, "fine_step": slopes[0].central, "coarse_step": slopes[0].coarse}
    sink.emit(Finding(Category.JUMP, Severity.NOTE, name, text, numbers, None, "Audit with smoother inputs or in float64."))


def _cut_finding(name: str, text: str, event: Event, severity: Severity, numbers: dict[str, Evidence]) -> Finding:
    text = f"{text} Last attached: {event.node or 'unknown'}; cut by {event.op}."
    found = {**numbers, "last_attached": event.node, "cut": event.op}
    return Finding(Category.DETACHED, severity, name, text, found, event.place, _CURE[event.kind])


def _ranked(cuts: list[Event]) -> list[Event]:
    """Order cuts by how likely they are the culprit: whole-tensor cuts before comparisons and indices."""
    order = ["rebuild", "detach", "no-grad", "host", "hard-sample", "to-integer", "compare", "index"]
    return sorted(cuts, key=lambda e: order.index(e.kind))


def _custom(context: Context) -> str | None:
    return context.suspects[0][1] if context.suspects else None
