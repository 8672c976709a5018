"""Check the function under other conditions: other layouts, shapes and signs, single outputs, a second call, the other mode.

A gradient that is right for one contiguous square batch of positive numbers may be wrong for another. Only leaves whose gradient
was confirmed at the given input are compared, so that no defect is reported twice.

Owns: building these conditions and comparing gradients under them.
Must not: report a condition under which the call itself raises; only gradients are compared.
Read next: ``degenerate.py``.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from pellucid.audit.blame import blamed
from pellucid.audit.checks.smoke import first_line, raised
from pellucid.audit.context import Context
from pellucid.audit.finding import Category, Evidence, Finding, Severity, Sink
from pellucid.audit.isolate import fresh
from pellucid.audit.place import traceback_place
from pellucid.audit.probing import directions, joint_directions, joint_slope, large_changes, measure_slope, moved

__all__ = [
    "Gradients", "attempted", "compare", "confirmed", "layouts", "order", "other_mode", "other_shapes", "other_sign", "outputs",
    "second_call", "variant",
]  # fmt: skip

_CONFIRMED = {"exact", "almost_everywhere", "unverified"}
_PARTS = 4  # up to so many outputs are checked one by one
_SMALL = 1e-2  # share of the largest gradient of any leaf
_EDGE = 5  # the smallest height or width that is cropped

Gradients = dict[str, Tensor | None]


def layouts(context: Context, sink: Sink) -> None:
    """Check an expanded (as from ``sum()``) and a transposed output gradient, and transposed and channels-last inputs."""
    names = confirmed(context, sink)
    if not names:
        return
    subject, point, truth = context.subject, context.generic, context.run[1]
    ones = [torch.full_like(w, 0.7) for w in context.weights]
    sink.mark("an expanded output gradient")
    expanded = [o.new_full((), 0.7).expand(o.shape) for o in ones]
    flat = attempted(sink, Category.LAYOUT, None, lambda: subject.gradient(point, ones)[1])
    if flat is not None:
        changed = attempted(
            sink,
            Category.LAYOUT,
            "an expanded output gradient, as from sum(),",
            lambda: subject.gradient(point, expanded)[1],
        )
        compare(context, sink, Category.LAYOUT, "an expanded output gradient (as from sum())", names, changed, flat)
    sink.mark("a transposed output gradient")
    turned = [_turned(w) for w in context.weights]
    changed = attempted(sink, Category.LAYOUT, "a transposed output gradient", lambda: subject.gradient(point, turned)[1])
    compare(context, sink, Category.LAYOUT, "a transposed output gradient", names, changed, truth)
    _untouched(context, sink)
    for what, layout in (("transposed inputs", _turned), ("channels_last inputs", _channels_last)):
        if context.random:
            break  # torch fills rand_like in memory order, so another layout gets other noise
        sink.mark(what)
        with subject.laid_out(layout):
            try:
                outs = subject.run(point)
            except Exception:
                continue  # refusing a layout is honest
            changed = attempted(sink, Category.LAYOUT, what, lambda: subject.gradient(point)[1])
        if [o.shape for o in outs] == [o.shape for o in context.outs]:
            compare(context, sink, Category.LAYOUT, what, names, changed, truth)


def outputs(context: Context, sink: Sink) -> None:
    """Check that the gradients of single outputs add up to the gradient of all; report outputs that depend on nothing."""
    subject, point = context.subject, context.generic
    names = confirmed(context, sink)
    sink.mark("constant outputs")
    _constant(context, sink)
    count = len(context.outs)
    if count < 2 or not names:
        return
    groups = [[i] for i in range(count)] if count <= _PARTS else [[0], [1], list(range(2, count))]
    total: Gradients = dict.fromkeys(names)
    for group in groups:
        label = f"output {group[0]} alone" if len(group) == 1 else f"outputs {group[0]} to {group[-1]} alone"
        sink.mark(label)
        weights = [w if i in group else None for i, w in enumerate(context.weights)]
        share = attempted(sink, Category.OUTPUTS, label, lambda weights=weights: subject.gradient(point, weights)[1])  # type: ignore[misc]
        if share is None:
            return
        total = {k: _plus(total[k], share[k]) for k in names}
    what = "the outputs are differentiated one at a time"
    compare(context, sink, Category.OUTPUTS, what, names, total, context.run[1])


def order(context: Context, sink: Sink) -> None:
    """Compare the audit's first call with the same call after a different one, which runs in another process."""
    subject = context.subject
    point = subject.point()
    other = {k: 0.9 * v + 0.01 if k in subject.inputs else v for k, v in point.items()}

    def after_another() -> list[Tensor]:
        subject.run(other)
        return subject.run(point)

    later = fresh(after_another)
    if later is None:
        return
    sink.mark("forward at the given inputs")
    try:
        outs = subject.run(point)
    except Exception:
        return  # the next check reports it
    gaps = [_gap(a, b, _norm(b)) for a, b in zip(later, outs, strict=False)]
    if len(later) == len(outs) and max(gaps, default=0.0) > 1e5 * torch.finfo(subject.native).eps:
        text = "The output depends on earlier calls: after a call with other inputs, the same call gives another result."
        advice = "Cache nothing that depends on values, or key the cache by everything that its content depends on."
        evidence: dict[str, Evidence] = {"relative_difference": max(gaps)}
        sink.emit(Finding(Category.STATE, Severity.WARNING, "call", text, evidence, None, advice))


def second_call(context: Context, sink: Sink) -> None:
    """Check the gradient if another call runs between forward and backward."""
    names = confirmed(context, sink)
    if not names:
        return
    subject, point = context.subject, context.generic
    sink.mark("a second call before backward")

    def twice() -> Gradients:
        other = {k: 0.9 * point[k] + 0.01 for k in subject.inputs}
        return subject.gradient(point, between=lambda: subject.again(other))[1]

    changed = attempted(sink, Category.STATE, "a second call before backward", twice)
    compare(context, sink, Category.STATE, "the function is called again before backward", names, changed, context.run[1])


def other_shapes(context: Context, sink: Sink) -> None:
    """Check a single sample, one sample more, and an odd, non-square size."""
    names = confirmed(context, sink)
    if not names:
        return
    for label, change in (("a batch of one", _first), ("one sample more", _more), ("an odd, non-square size", _odd)):
        sink.mark(label)
        inputs = {k: change(context, v) for k, v in context.generic.items() if k in context.subject.inputs}
        others = {k: change(context, v) for k, v in context.subject.others.items()}
        if all(v.shape == context.generic[k].shape for k, v in inputs.items()):
            continue
        with context.subject.altered(others):
            variant(context, sink, Category.SHAPE, label, {**context.generic, **inputs}, names)


def other_sign(context: Context, sink: Sink) -> None:
    """Check every input with the opposite sign, for branches that images in [0, 1] never enter."""
    names = confirmed(context, sink)
    inputs = {k: -v for k, v in context.generic.items() if k in context.subject.inputs}
    if names and inputs:
        variant(context, sink, Category.WRONG, "inputs of the opposite sign", {**context.generic, **inputs}, names)


def other_mode(context: Context, sink: Sink) -> None:
    """Check the module in evaluation mode if it came in training mode, and in training mode if it came in evaluation mode."""
    module = context.subject.module
    names = confirmed(context, sink)
    if module is None or not names:
        return
    label = "evaluation mode" if module.training else "training mode"
    sink.mark(label)
    with _switched(module):
        variant(context, sink, Category.WRONG, label, context.generic, names)


@contextmanager
def _switched(module: nn.Module) -> Iterator[None]:
    kept = {m: m.training for m in module.modules()}
    module.train(not module.training)
    try:
        yield
    finally:
        for m, training in kept.items():
            m.training = training


def confirmed(context: Context, sink: Sink) -> list[str]:
    """The leaves whose gradient agreed with finite differences."""
    if not context.repeatable:
        return []
    return [k for k in context.subject.judged if k in sink.measures and sink.measures[k].gradient in _CONFIRMED]


def attempted(sink: Sink, category: Category, what: str | None, attempt: Callable[[], Gradients]) -> Gradients | None:
    """Run one backward pass; report an exception as a finding, unless ``what`` is None."""
    try:
        return attempt()
    except Exception as error:
        if what is not None:
            place = traceback_place("".join(traceback.format_tb(error.__traceback__)))
            if category == Category.WRONG:
                sink.emit(raised(error, f"backward ({what})", place))
                return None
            text = f"With {what}, the gradient raises {type(error).__name__}: {first_line(error)}"
            sink.emit(Finding(category, Severity.ERROR, "call", text, {}, place, _ADVICE[category]))
        return None


_ADVICE = {
    Category.LAYOUT: "Read tensors by index, never by memory order; use reshape or contiguous() in backward, and write to nothing.",
    Category.OUTPUTS: "In backward, treat every output's gradient as possibly missing (None) or zero.",
    Category.STATE: "Keep what backward needs in ctx.save_for_backward, one set per call, not on the module or the class.",
    Category.SHAPE: "Take sizes from the tensors of this call.",
    Category.WRONG: "Check the branch that only these inputs enter.",
    Category.DETACHED: "Use use_reentrant=False, and do not make gradients depend on x.requires_grad.",
}


def compare(
    context: Context,
    sink: Sink,
    category: Category,
    what: str,
    names: list[str],
    grads: Gradients | None,
    truth: Gradients,
    eps: float | None = None,
) -> None:
    """Report the leaf whose gradient changes most under a condition that must not change it."""
    if grads is None or not names:
        return
    limit = 1e5 * (context.eps if eps is None else eps)
    sizes = {k: max(_norm(truth[k]), _norm(context.run[1][k])) for k in names}
    floor = _SMALL * max(sizes.values())  # a smaller gradient may be mere rounding
    gaps = {k: _gap(grads.get(k), truth[k], max(sizes[k], floor)) for k in names}
    worst = max(gaps, key=lambda k: gaps[k])
    if gaps[worst] <= limit:
        return
    lost = grads.get(worst) is None
    numbers: dict[str, Evidence] = {"relative_difference": gaps[worst], "leaves": sum(g > limit for g in gaps.values())}
    text = f"The gradient of {worst} {'is lost' if lost else 'changes'} when given {what}."
    text = text.replace("when given the", "when the").replace("when given only", "when only")
    sink.emit(Finding(category, Severity.ERROR, worst, text, numbers, context.custom_place, _ADVICE[category]))


def variant(
    context: Context, sink: Sink, category: Category, label: str, point: dict[str, Tensor], names: list[str]
) -> Gradients | None:
    """Compare gradients with finite differences at another point; report a leaf that agreed before and does not agree here.

    Return the gradients there, or None if the call refuses the point or a leaf was reported.
    """
    other = Context(context.subject, context.settings)
    other.__dict__.update(dtype=context.dtype, generic=point, given=point, eps=context.eps)
    try:
        outs = context.subject.run(point)
    except Exception:
        return None  # a call that refuses the condition is honest
    if not outs or any(not torch.isfinite(o).all() for o in outs):
        return None
    blind = category == Category.SHAPE and not context.suspects  # torch itself refuses this shape, which is honest
    grads = attempted(sink, category, None if blind else label, lambda: other.run[1])
    if grads is None:
        return None
    if not _disagree(other, point, grads, names):
        return grads
    for name in names if other.repeatable else []:
        along = directions(point[name], 2)
        slopes = [measure_slope(other, point, name, grads[name], v) for v in along]
        if not all(s.verdict == "wrong" for s in slopes):
            continue
        numbers: dict[str, Evidence] = {"autograd": slopes[0].autograd, "finite_difference": slopes[0].central}
        text = f"The gradient of {name} is right at the given inputs and wrong for {label}."
        cuts = blamed(other, name, grads[name], along)
        place = cuts[0].place if cuts else other.custom_place
        sink.emit(Finding(category, Severity.ERROR, name, text, numbers, place, _ADVICE[category]))
        break
    return None


def _disagree(context: Context, point: dict[str, Tensor], grads: Gradients, names: list[str]) -> bool:
    """Whether finite differences along random directions through all leaves contradict the gradient."""
    directions = joint_directions(point, grads, names)
    return any(joint_slope(context, point, grads, along).verdict == "wrong" for along in directions)


def _constant(context: Context, sink: Sink) -> None:
    """Report outputs that no leaf changes."""
    still, ran = [i for i, o in enumerate(context.outs) if o.numel()], False
    for name in context.subject.judged:
        for value in large_changes(context.generic[name], None):
            if not still:
                return
            try:
                outs = context.subject.run({**context.generic, name: value})
            except Exception:
                continue
            if len(outs) != len(context.outs):
                return
            ran = True
            still = [i for i in still if not moved([context.outs[i]], [outs[i]])]
    drawn = any(e.kind == "hard-sample" for e in context.trace.events)
    for index in still if ran and not drawn else []:
        name = "output" if len(context.outs) == 1 else f"output {index}"
        text = f"The {name} does not depend on any input or parameter."
        advice = "A loss built on it trains nothing: compute it from the inputs, or do not return it as a float."
        sink.emit(Finding(Category.NO_EFFECT, Severity.WARNING, name, text, {}, None, advice))


def _untouched(context: Context, sink: Sink) -> None:
    """Check that backward does not write to the gradient it is given, which other branches of the graph read, too."""
    handed = [w.clone() for w in context.weights]
    try:
        context.subject.gradient(context.generic, handed)
    except Exception:
        return
    if moved(handed, context.weights):
        text = "Backward writes in place to the gradient it is given: other branches of the graph read the changed values."
        sink.emit(Finding(Category.IN_PLACE, Severity.ERROR, "call", text, {}, context.custom_place, _ADVICE[Category.LAYOUT]))


def _gap(got: Tensor | None, want: Tensor | None, size: float) -> float:
    """Return the difference of two results relative to a size."""
    if got is None or want is None:
        return 0.0 if _norm(got) == _norm(want) == 0.0 else float("inf")
    if got.shape != want.shape:
        return float("inf")
    return _norm(got - want) / max(size, 1e-30)


def _norm(value: Tensor | None) -> float:
    return 0.0 if value is None or not value.numel() else float(value.double().nan_to_num().norm())


def _plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


def _turned(value: Tensor) -> Tensor:
    return value.mT.contiguous().mT if value.ndim > 1 else value


def _channels_last(value: Tensor) -> Tensor:
    return value.contiguous(memory_format=torch.channels_last) if value.ndim == 4 else value


def _batch(context: Context) -> int:
    """The leading size that all batched inputs share, or 0 if they differ."""
    sizes = {v.shape[0] for k, v in context.generic.items() if k in context.subject.inputs and v.ndim > 1}
    return sizes.pop() if len(sizes) == 1 else 0


def _first(context: Context, value: Tensor) -> Tensor:
    return value[:1].clone() if value.ndim and value.shape[0] == _batch(context) else value


def _more(context: Context, value: Tensor) -> Tensor:
    if not value.ndim or value.shape[0] != _batch(context) or not len(value):
        return value
    more = value[:1].roll(1, -1) * 0.9 if value.is_floating_point() else value[:1]
    return torch.cat([value, more])


def _odd(_context: Context, value: Tensor) -> Tensor:
    """Crop an image, or a batch of planes, to an odd height and an odd, smaller width."""
    if value.ndim < 3 or min(value.shape[-2:]) < _EDGE:
        return value
    height, width = ((n - k) // 2 * 2 + 1 for n, k in zip(value.shape[-2:], (1, 3), strict=True))
    return value[..., : min(height, value.shape[-2]), : min(width, value.shape[-1])].clone()
