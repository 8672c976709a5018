"""Try other ways to run the same function: forward mode, double backward, vmap, checkpoint. Each works, raises, or is wrong.

Owns: trying each, and comparing its gradient with reverse mode or with finite differences.
Must not: treat an exception as a defect; only a silently wrong result is one.
Read next: ``compiled.py``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from pellucid.audit.checks.smoke import first_line
from pellucid.audit.context import Context
from pellucid.audit.differences import slope, step_for, tolerance_for
from pellucid.audit.finding import Category, Evidence, Finding, Severity, Sink
from pellucid.audit.probing import directions
from pellucid.audit.tree import floats

__all__ = ["check"]

_SAYS = {
    Category.FORWARD_MODE: "Implement jvp (or register one for the custom operator), or use reverse mode only.",
    Category.DOUBLE_BACKWARD: "Write backward with differentiable torch operations, or mark it once_differentiable.",
    Category.VMAP: "Write the function for any leading dimensions, or loop over the batch.",
    Category.CHECKPOINT: "Draw randomness before the checkpoint and pass it in; keep no state between calls.",
}


def check(context: Context, sink: Sink) -> None:
    """Try every mode on every input."""
    if not context.repeatable:
        return
    for name in context.subject.inputs:
        sink.mark(f"forward mode of {name}")
        _file(context, sink, Category.FORWARD_MODE, name, _forward_mode)
        sink.mark(f"double backward of {name}")
        _file(context, sink, Category.DOUBLE_BACKWARD, name, _double_backward)
    if context.subject.inputs and not context.random:
        sink.mark("vmap")
        _file(context, sink, Category.VMAP, "call", _vmap)
    sink.mark("checkpoint")
    _file(context, sink, Category.CHECKPOINT, "call", _checkpoint)


def _file(context: Context, sink: Sink, category: Category, name: str, attempt: Any) -> None:
    """Run one attempt; record its outcome for each leaf, and report it if it raises or is wrong."""
    numbers: dict[str, Evidence] = {}
    try:
        wrong = attempt(context, sink, name, numbers)
        word = "works" if wrong is None else wrong
        reason = ""
    except Exception as error:  # the point of the check
        word, reason = "raises", f"{type(error).__name__}: {first_line(error)}"
    targets = [m for k, m in sink.measures.items() if k == name] or list(sink.measures.values())
    for measure in targets:
        measure.modes[str(category)] = word
    if word == "raises":
        text = f"{category} raises {reason}"
        sink.emit(Finding(category, Severity.NOTE, name, text, {}, None, _SAYS[category]))
    elif word == "wrong":
        draws = context.trace.of("draw")
        place = context.custom_place if context.suspects else draws[0].place if draws else None
        severity = Severity.WARNING if category == Category.CHECKPOINT else Severity.ERROR
        text = f"{category} is silently wrong for {name}."
        sink.emit(Finding(category, severity, name, text, numbers, place, _SAYS[category]))


def _trusted(sink: Sink, name: str) -> bool:
    """Whether finite differences confirmed reverse mode, so that it can serve as the reference."""
    measure = sink.measures.get(name)
    return measure is not None and measure.gradient in {"exact", "almost_everywhere"}


def _forward_mode(context: Context, sink: Sink, name: str, numbers: dict[str, Evidence]) -> str | None:
    """Compare <w, J v> with <J' w, v>."""
    subject, point = context.subject, context.generic
    grad = context.run[1][name]
    direction = directions(point[name], 1)[0]
    with subject.placed(point), forward_ad.dual_level():
        values = {k: point[k].detach().clone() for k in subject.inputs}
        values[name] = forward_ad.make_dual(values[name], direction)
        args, kwargs = subject.arguments(values)
        tangents = [forward_ad.unpack_dual(o).tangent for o in floats(subject.call(*args, **kwargs))]
    pairs = zip(tangents, context.weights, strict=True)
    forward = sum(float((t.double() * w.double()).nan_to_num().sum()) for t, w in pairs if t is not None)
    reverse = 0.0 if grad is None else float((grad.double() * direction.double()).sum())
    scale = 0.0 if grad is None else float(grad.double().norm() * direction.double().norm()) / max(1.0, grad.numel()) ** 0.5
    numbers.update({"forward_mode": forward, "reverse_mode": reverse, "tangent": any(t is not None for t in tangents)})
    if not _trusted(sink, name):
        return None
    return "wrong" if abs(forward - reverse) > 10 * tolerance_for(context.eps) * max(scale, abs(reverse)) else None


def _double_backward(context: Context, sink: Sink, name: str, numbers: dict[str, Evidence]) -> str | None:
    """Compare the derivative of <gradient, u> along v with its finite difference."""
    if not _trusted(sink, name):
        return "not tried"
    subject, point = context.subject, context.generic
    probe, other = directions(point[name], 2)
    with subject.placed(point):
        outs, roots = subject.graph(point)
        live = [(o, w) for o, w in zip(outs, context.weights, strict=True) if o.requires_grad]
        tensors, weights = [o for o, _ in live], [w for _, w in live]
        (first,) = torch.autograd.grad(tensors, [roots[name]], weights, create_graph=True)
        second: Tensor | None = None
        if first.requires_grad:
            (second,) = torch.autograd.grad((first * other).sum(), [roots[name]], allow_unused=True)

    def along(t: float) -> float:
        moved = subject.gradient({**point, name: point[name] + t * probe})[1][name]
        return 0.0 if moved is None else float(((moved - first.detach()).double() * other.double()).sum())

    expected = 0.0 if second is None else float((second.double() * probe.double()).sum())
    scale = 0.0 if second is None else float(second.double().norm() * probe.double().norm()) / max(1, second.numel()) ** 0.5
    rounding = context.eps * float((first.detach().double() * other.double()).abs().sum())
    tolerance = 10 * tolerance_for(context.eps)
    measured = slope(along, expected, step=step_for(context.eps), scale=scale, rounding=rounding, tolerance=tolerance)
    numbers.update({"second_derivative": expected, "finite_difference": measured.central})
    return "wrong" if measured.verdict == "wrong" and measured.moves else None


def _vmap(context: Context, _sink: Sink, _name: str, numbers: dict[str, Evidence]) -> str | None:
    """Compare a vmapped call on two examples with the two calls."""
    subject = context.subject
    two = [context.generic, {k: 0.9 * v for k, v in context.generic.items()}]
    point = context.generic
    with subject.placed(point):
        singles = [floats(subject.call(*_arguments(context, p)[0], **_arguments(context, p)[1])) for p in two]
        stacked = {k: torch.stack([p[k] for p in two]) for k in subject.inputs}
        names = list(stacked)

        def one(*values: Tensor) -> list[Tensor]:
            args, kwargs = subject.arguments(dict(zip(names, values, strict=True)))
            return floats(subject.call(*args, **kwargs))

        many = torch.func.vmap(one)(*stacked.values())
    gap = 0.0
    for index, outs in enumerate(singles):
        for got, want in zip(many, outs, strict=True):
            if got[index].shape != want.shape:
                numbers["shape"] = str(tuple(got[index].shape))
                return "wrong"
            size = float(want.detach().double().abs().max()) if want.numel() else 0.0
            difference = (got[index] - want).detach().double().nan_to_num()
            gap = max(gap, float(difference.abs().max()) / max(size, 1e-30) if want.numel() else 0.0)
    numbers["relative_difference"] = gap
    return "wrong" if gap > 1e4 * context.eps else None


def _arguments(context: Context, point: dict[str, Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return context.subject.arguments({k: point[k].detach().clone() for k in context.subject.inputs})


def _checkpoint(context: Context, _sink: Sink, _name: str, numbers: dict[str, Evidence]) -> str | None:
    """Compare gradients with and without recomputing the whole call in backward, both without lifting the call's casts."""
    subject, point, truth = context.subject, context.generic, context.run[1]
    lifts = subject.lift is not None
    with subject.lifted(None), subject.placed(point):
        truth = subject.gradient(point)[1] if lifts else truth
        roots, handed = subject.handed(point)
        args, kwargs = subject.arguments(handed)
        subject.rewind()
        outs = floats(checkpoint(lambda *a: subject.bare(*a, **kwargs), *args, use_reentrant=False))
        live = [(o, w) for o, w in zip(outs, context.weights, strict=True) if o.requires_grad]
        wanted = {k: r for k, r in {**roots, **subject.params}.items() if r.requires_grad}
        if not live:
            return None
        grads = subject.reverse([o for o, _ in live], wanted, [w for _, w in live])
    worst = 0.0
    for key, got in grads.items():
        want = truth[key]
        if got is None or want is None:
            worst = worst if got is want else float("inf")
            continue
        worst = max(worst, float((got - want).double().norm()) / max(float(want.double().norm()), 1e-30))
    numbers["relative_difference"] = worst
    return "wrong" if worst > 1e5 * context.eps else None
