"""Compare autograd with finite differences for every input and parameter, and find the reason where they differ.

Owns: the verdicts detached, zero, wrong, surrogate, staircase, kink and jump per leaf.
Must not: look at single elements (``coverage.py``) or at other inputs than the given ones (``degenerate.py``).
Read next: ``coverage.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from pellucid.audit.backward import first_dead, watched
from pellucid.audit.blame import blamed, blamed_hook, carriers, changing_hooks, takes_part_without
from pellucid.audit.causes import ranked
from pellucid.audit.checks import projection
from pellucid.audit.checks.coverage import cover
from pellucid.audit.context import Context
from pellucid.audit.differences import Slope, tolerance_for
from pellucid.audit.finding import Category, Evidence, Finding, Measure, Severity, Sink
from pellucid.audit.probing import directions, large_changes, measure_slope, singles, takes_part
from pellucid.audit.trace import Event

__all__ = ["check", "measured"]

_HIDDEN = 1.2e-7
_FLOAT64 = 1e-10
_SINGLES = 12
_ROUNDING = 4  # a gradient below so many times the noise counts as zero
_LITTLE = 1e3  # rounding units that may remain of a leaf that cancels
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
        text = "Gradients were not judged: repeated runs differ by more than rounding, so finite differences mean nothing."
        advice = "Make the call repeatable, then audit again."
        sink.emit(Finding(Category.UNJUDGED, Severity.WARNING, "call", text, {}, None, advice))
        return
    grads = context.run[1]
    together = projection.settled(context, sink)
    for name in context.subject.judged:
        value = context.generic[name]
        if value.numel() == 0 or name in together:
            continue
        sink.mark(f"finite differences of {name}")
        _leaf(context, sink, name, value, grads[name])


def _leaf(context: Context, sink: Sink, name: str, value: Tensor, grad: Tensor | None) -> None:
    measure = measured(context, sink, name)
    slopes, stairs = _slopes(context, name, value, grad, measure)
    measure.pairs = [(s.autograd, s.central) for s in slopes if math.isfinite(s.central)]
    settled = [s for s in slopes if s.verdict in {"agree", "wrong"}]
    measure.error = max((s.error for s in settled if s.moves or s.autograd), default=0.0)
    flat = any(not s.moves for s in slopes) and not any(s.moves for s in slopes if s.verdict not in {"jump", "unsettled"})
    flat = flat or stairs
    live = grad is not None and bool((grad != 0).any())
    wrong = [s for s in slopes if s.verdict == "wrong"]
    if not any(math.isfinite(s.central) for s in slopes):
        _unsettled(sink, name, measure, slopes)
        return
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
            _wrong(context, sink, name, measure, wrong)  # else only the zeros are wrong, which coverage reports
    else:
        measure.gradient = _agreed(measure, slopes)
        if not settled:
            _unsettled(sink, name, measure, slopes)
        else:
            _given_point(context, sink, name, measure)
    cover(context, sink, name, value, grad, measure)


def measured(context: Context, sink: Sink, name: str) -> Measure:
    """Start the measurement of one leaf."""
    kind = "parameter" if name in context.subject.params else "input"
    measure = Measure(kind, tuple(context.generic[name].shape))
    measure.precision, measure.tolerance = context.precision, tolerance_for(context.eps)
    sink.measure(name, measure)
    return measure


def _slopes(context: Context, name: str, value: Tensor, grad: Tensor | None, measure: Measure) -> tuple[list[Slope], bool]:
    """Measure along random directions or, if these meet jumps, along single elements; also return whether it is a staircase.

    A dense direction of a large image crosses some jump at any step, so it cannot distinguish a staircase from a slope with a few
    jumps. A single element crosses almost none: it is flat, or it has a slope.
    """
    slopes = [measure_slope(context, context.generic, name, grad, v) for v in directions(value)]
    if all(s.verdict in {"agree", "wrong", "kink"} for s in slopes) and len({s.moves for s in slopes}) == 1:
        return slopes, False
    if not any(math.isfinite(s.central) for s in slopes):
        return slopes, False
    alone = [measure_slope(context, context.generic, name, grad, v) for v in singles(value, _SINGLES)]
    rising = [s for s in alone if s.moves and s.verdict not in {"jump", "unsettled"}]
    if not rising and sum(not s.moves for s in alone) * 2 > len(alone):
        return alone, True
    if len(rising) * 2 > len(alone):
        return rising, False
    if context.eps < _HIDDEN and all(s.verdict == "unsettled" for s in slopes):
        # An operation inside may compute in float32 unnoticed: measure again with steps that float32 resolves.
        measure.precision, measure.tolerance = "float32", tolerance_for(_HIDDEN)
        slopes = [measure_slope(context, context.generic, name, grad, v, eps=_HIDDEN) for v in directions(value)]
    return slopes, False


def _agreed(measure: Measure, slopes: list[Slope]) -> str:
    """The verdict for a gradient that agrees: ``exact``, ``unverified`` (to lower precision), or ``almost_everywhere`` (jumps)."""
    if measure.tolerance > tolerance_for(_FLOAT64):
        return "unverified"
    return "almost_everywhere" if any(s.verdict == "jump" for s in slopes) else "exact"


def _flat(context: Context, sink: Sink, name: str, grad: Tensor | None, live: bool, measure: Measure, slopes: list[Slope]) -> None:
    """Judge a leaf whose small steps do not change the output: a staircase, a plateau, or no effect at all."""
    drawn = any(e.kind == "hard-sample" and name in e.sources for e in context.trace.events)
    part = drawn or takes_part(context, context.generic, name)
    first = context.first[1].get(name)
    if part and not drawn and grad is not None and _cancels(context, name, grad):
        measure.gradient = "exact"
        text = f"{name} cancels out: its gradient and its effect on the output are mere rounding."
        advice = "A bias before a normalisation cancels like this: leave it out."
        sink.emit(Finding(Category.COVERAGE, Severity.NOTE, name, text, advice=advice))
        return
    live = live or (not part and first is not None and bool((first != 0).any()))
    measure.gradient = "surrogate" if live and part else "none"
    numbers: dict[str, Evidence] = {"finite_difference": slopes[0].central, "autograd": slopes[0].autograd}
    parameter = measure.kind == "parameter"
    if not part and parameter:
        _stale(context, sink, name, live, grad is not None or first is not None, numbers)
    elif not part and live:
        text = f"{name} gets a gradient, yet changing it does not change the output."
        sink.emit(Finding(Category.WRONG, Severity.ERROR, name, text, numbers, _custom(context), "Return no gradient for it."))
    elif part and live and all(s.verdict == "agree" or abs(s.autograd) <= _ROUNDING * s.noise for s in slopes):
        measure.gradient = "exact"  # both are zero to within rounding
    elif part and live:
        text = f"The output is a staircase in {name}; its gradient is a surrogate."
        sink.emit(Finding(Category.SURROGATE, Severity.NOTE, name, text, numbers, _custom(context), "Declare it as a surrogate."))
    elif part and _live_elsewhere(context, name):
        measure.gradient = "exact"  # zero by autograd and by finite differences
        text = f"{name} sits on a plateau at the given inputs (saturated or clipped): its gradient is zero here, not elsewhere."
        severity = Severity.WARNING if parameter else Severity.NOTE  # an optimiser never brings it back
        sink.emit(Finding(Category.COVERAGE, severity, name, text, numbers, None, "Audit with values inside the range, too."))
    elif part:
        _staircase(context, sink, name, grad, numbers)
    elif not drawn:
        if grad is None:
            text = f"{name} has no effect on the output."
            advice = "Use it, or remove it from the signature; declare it as none if only its shape or dtype is read."
        else:
            text = f"{name} is read, but no value near the given one changes the output: it is saturated, or multiplied by zero."
            advice = "Audit with inputs inside the range; look for a factor of zero or a result that is overwritten."
        sink.emit(Finding(Category.NO_EFFECT, Severity.WARNING, name, text, numbers, None, advice))


def _cancels(context: Context, name: str, grad: Tensor) -> bool:
    """Whether a leaf's gradient and its effect on the output are no larger than rounding."""
    little = _LITTLE * context.eps
    rest = max((float(g.double().norm()) for k, g in context.run[1].items() if g is not None and k != name), default=0.0)
    return float(grad.double().norm()) <= little * rest and not takes_part(context, context.generic, name, beyond=little)


def _stale(context: Context, sink: Sink, name: str, live: bool, attached: bool, numbers: dict[str, Evidence]) -> None:
    """Report a parameter whose change does not change the output."""
    advice = "Read the parameter itself in every call: a copy taken at construction or cached goes stale."
    severity = Severity.WARNING
    if live:
        severity, text = Severity.ERROR, "gets a gradient, yet changing it does not change the output"
    elif attached:
        text = "is read, but has no effect on the output: its result is multiplied by zero, dead or discarded"
        advice = "Look at what follows it: a unit that never fires, a factor of zero, a result that is overwritten."
    else:
        text = "has no effect on the output"
        advice = f"Use it or delete it. If a value derived from it is used: {advice[0].lower()}{advice[1:]}"
    sink.emit(Finding(Category.STALE, severity, name, f"{name} {text}.", numbers, _custom(context), advice))


def _live_elsewhere(context: Context, name: str) -> bool:
    """Whether the gradient is not zero at some value further away: then the function is saturated here, not a staircase."""
    for other in large_changes(context.generic[name], None):
        try:
            grad = context.subject.gradient({**context.generic, name: other})[1][name]
        except Exception:
            continue
        if grad is not None and bool((grad.nan_to_num() != 0).any()):
            return True
    return False


def _staircase(context: Context, sink: Sink, name: str, grad: Tensor | None, numbers: dict[str, Evidence]) -> None:
    """Report a staircase without gradient: inherent, unless it comes from sampling, a cast or a backward that returns None."""
    hard = [e for e in context.trace.events if e.kind in {"hard-sample", "to-integer"} and name in e.sources]
    hard = [e for e in hard if e.kind == "hard-sample" or not takes_part_without(context, name, e)]
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
        text = f"The output is piecewise constant in {name}: it changes by jumps and has no derivative."
        advice = "Inherent; declare the gradient as none, or use a smooth substitute where you need one."
        sink.emit(Finding(Category.JUMP, Severity.NOTE, name, text, numbers, place, advice))


def _detached(context: Context, sink: Sink, name: str, measure: Measure, slopes: list[Slope]) -> None:
    measure.gradient = "wrong"
    numbers: dict[str, Evidence] = {"finite_difference": slopes[0].central, "autograd": "no path"}
    along = directions(context.generic[name], 2)
    cuts = blamed(context, name, None, along) or ranked(context.trace.cuts(name))
    text = f"{name} takes part in the output, but autograd has no path to it."
    if context.suspects and context.reachable(name):
        node, place = context.suspects[0]
        text = f"{name} takes part in the output, but {node} returns no gradient for it."
        advice = "Return the gradient from backward."
        sink.emit(Finding(Category.DETACHED, Severity.ERROR, name, text, {**numbers, "node": node}, place, advice))
    elif cuts:
        _report_cuts(context, sink, name, text, cuts, along, numbers)
    else:
        advice = "Look for a conversion to numpy or a custom operator without a registered backward."
        sink.emit(Finding(Category.DETACHED, Severity.ERROR, name, text, numbers, None, advice))


def _dead(context: Context, sink: Sink, name: str, measure: Measure, slopes: list[Slope]) -> None:
    """Report a path that exists but carries only zeros."""
    measure.gradient = "wrong"
    step = first_dead(watched(context.subject, context.generic)[0])
    numbers: dict[str, Evidence] = {"finite_difference": slopes[0].central, "autograd": 0.0, "node": step.node if step else ""}
    along = directions(context.generic[name], 2)
    if cuts := blamed(context, name, None, along):
        text = f"{name} takes part, but its path is cut by {cuts[0].op}; the remaining path carries only zeros."
        _report_cuts(context, sink, name, text, cuts, along, numbers)
        return
    place = step.place if step else _custom(context)
    text = f"{name} takes part in the output, but its gradient is zero everywhere."
    advice = "Correct the backward of the node named here."
    sink.emit(Finding(Category.COVERAGE, Severity.ERROR, name, text, numbers, place or _custom(context), advice))


def _wrong(context: Context, sink: Sink, name: str, measure: Measure, wrong: list[Slope]) -> None:
    """Report a gradient that disagrees with finite differences, with the cause that a run without it confirms, if one does."""
    measure.gradient = "wrong"
    worst = max(wrong, key=lambda s: s.error)
    numbers: dict[str, Evidence] = {
        "autograd": worst.autograd,
        "finite_difference": worst.central,
        "coarser_step": worst.coarse,
        "relative_error": worst.error,
    }
    along = directions(context.generic[name], 2)
    cuts = blamed(context, name, context.run[1][name], along)
    if cuts and not context.redrawn[0]:
        text = f"Part of the path from {name} is cut by {cuts[0].op}: the gradient disagrees with finite differences."
        _report_cuts(context, sink, name, text, cuts, along, numbers)
    else:
        cause = _cause(context, name, along)
        sink.emit(Finding(cause.category, Severity.ERROR, name, cause.text, numbers, cause.place, cause.advice))


class _Cause(NamedTuple):
    """What makes a gradient wrong, in words, and the line."""

    text: str
    place: str | None
    advice: str
    category: Category = Category.WRONG


def _cause(context: Context, name: str, along: list[Tensor]) -> _Cause:
    """Return what makes a gradient wrong though its path is whole: the first of the known causes that applies."""
    text = f"The gradient of {name} disagrees with finite differences at two step sizes."
    draw_earlier = "Draw before the recomputed region and pass the draw in."
    redraws, redrawing = context.redrawn
    if redraws:
        return _Cause(text, redrawing, draw_earlier)
    if (hook := blamed_hook(context, name, along[:1])) is not None:
        text = f"A backward hook changes the gradient of {name}: without it, the gradient agrees with finite differences."
        return _Cause(text, hook, "Return nothing from the hook, or declare the gradient as a surrogate.")
    if writes := [e for e in context.trace.events if e.kind in {"data-write", "stride-0"}]:
        return _Cause(text, writes[0].place, "Write the change as an out-of-place torch operation.")
    if several := _several(context, name, context.run[1][name], along[0]):
        places = [f"{what} at {place}" for what, place in several]
        text += f" Several lines change it: {', '.join(places)}."
        return _Cause(text, several[0][1], "Repair them one by one and audit again.")
    if drawn := context.drawn_in_backward:
        text = f"Backward draws random numbers again: the recomputed forward differs, and the gradient of {name} is wrong."
        return _Cause(text, drawn[0], draw_earlier, Category.RNG_RECOMPUTE)
    compare = "Compare the operations one by one with gradcheck."
    return _Cause(text, _custom(context), "Correct the backward named here." if context.suspects else compare)


def _several(context: Context, name: str, grad: Tensor | None, along: Tensor) -> list[tuple[str, str]]:
    """Return the custom backwards, hooks and cuts that each cause a part of a disagreement that none of them explains alone."""
    found = [(node, place) for node, place in context.guilty if place]
    found += [("a hook", place) for place in changing_hooks(context, name, grad)]
    found += [(e.op, e.place) for e in carriers(context, name, [], along) if e.place]
    several = len(found) > 1 or not (context.guilty or context.drawn_in_backward)  # a single cause gets a finding of its own
    return list({place: (what, place) for what, place in reversed(found)}.values())[::-1] if several else []


def _given_point(context: Context, sink: Sink, name: str, measure: Measure) -> None:
    """Judge the given point, after the gradient at the generic point next to it was found right."""
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
        text = f"The gradient of {name} is wrong at the given point, but right next to it."
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


def _unsettled(sink: Sink, name: str, measure: Measure, slopes: list[Slope]) -> None:
    measure.gradient = "unknown"
    text = f"The gradient of {name} was not judged: finite differences do not settle (rough, noisy, or raising nearby)."
    numbers: dict[str, Evidence] = {"autograd": slopes[0].autograd, "fine_step": slopes[0].central, "coarse_step": slopes[0].coarse}
    advice = "Audit with smoother inputs or in float64."
    sink.emit(Finding(Category.UNJUDGED, Severity.WARNING, name, text, numbers, None, advice))


def _report_cuts(
    context: Context, sink: Sink, name: str, text: str, cuts: list[Event], along: list[Tensor], numbers: dict[str, Evidence]
) -> None:
    """Report cut paths, with the further cuts that only show once these are mended."""
    also = carriers(context, name, cuts, along[0])
    sink.emit(_cut_finding(name, text, cuts[0], Severity.ERROR, numbers, [*cuts[1:], *also]))


def _cut_finding(
    name: str, text: str, event: Event, severity: Severity, numbers: dict[str, Evidence], also: Sequence[Event] = ()
) -> Finding:
    text = f"{text} Last attached: {event.node or 'unknown'}; cut by {event.op}."
    if also:
        text += f" Also cut: the path through {', '.join(dict.fromkeys(f'{e.op} at {e.place}' for e in also))}."
    evidence = {**numbers, "last_attached": event.node, "cut": event.op}
    return Finding(Category.DETACHED, severity, name, text, evidence, event.place, _CURE[event.kind])


def _custom(context: Context) -> str | None:
    """The line of a custom backward that is wrong by itself, or else of the only custom backward."""
    guilty = context.guilty or (context.suspects if len(context.suspects) == 1 else [])
    return guilty[0][1] if guilty else None
