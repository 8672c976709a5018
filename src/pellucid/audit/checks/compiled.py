"""Does torch.compile accept the call: in one graph, or with which breaks, with how many recompiles, with the same gradient?

Owns: compiling with a counting backend and comparing with eager.
Must not: run unless asked for; it takes seconds.
Read next: ``../run.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pellucid.audit.checks.smoke import first_line
from pellucid.audit.context import Context
from pellucid.audit.finding import Category, Evidence, Finding, Severity, Sink
from pellucid.audit.place import traceback_place
from pellucid.audit.subject import Point
from pellucid.audit.tree import floats

__all__ = ["check"]

_STATIC_AND_DYNAMIC = 2  # graphs of any function: one for the first shape, one for all others
_SIZES = 5
_LIFTED = 1.2e-7
"""The rounding unit of float32, the widest cast that other checks lift to float64."""


def check(context: Context, sink: Sink) -> None:
    """Compile, count graphs, compare gradients."""
    import torch._dynamo as dynamo

    with torch.autograd.set_detect_anomaly(False):
        sink.mark("compile fullgraph")
        whole = _whole(context, sink, dynamo)
        sink.mark("compiled gradient")
        _gradient(context, sink, dynamo, whole)
        sink.mark("recompiles")
        _recompiles(context, sink, dynamo)
        dynamo.reset()


class _Counter:
    """A backend that counts how many graphs it is given."""

    def __init__(self, backend: str) -> None:
        from torch._dynamo.backends.registry import lookup_backend

        self.graphs = 0
        self._inner: Callable[..., Any] = lookup_backend(backend)

    def __call__(self, graph: Any, example: Any) -> Any:
        self.graphs += 1
        return self._inner(graph, example)


def _whole(context: Context, sink: Sink, dynamo: Any) -> bool:
    """Compile as one graph; where that fails, list the breaks."""
    subject, point = context.subject, context.subject.point()
    dynamo.reset()
    compiled = torch.compile(subject.bare, fullgraph=True, backend="eager")
    try:
        with subject.placed(point):
            args, kwargs = _arguments(context, point)
            subject.rewind()
            compiled(*args, **kwargs)
    except Exception as error:
        dynamo.reset()
        with subject.placed(point):
            args, kwargs = _arguments(context, point)
            subject.rewind()
            reasons = [(r.reason.strip().split("\n")[0][:200], _stack(r)) for r in _breaks(subject.bare, args, kwargs, dynamo)]
        if len(reasons) == 1:
            reasons = [(first_line(error), reasons[0][1])]  # the error's own words are plainer
        breaks = reasons or [(first_line(error), str(error))]
        for reason, stack in dict.fromkeys(breaks):
            place = traceback_place(stack)
            text = f"torch.compile cannot make one graph of it: {reason}"
            advice = "Replace the construct by torch operations (torch.where for branches, tensors for Python numbers)."
            sink.emit(Finding(Category.GRAPH_BREAK, Severity.WARNING, "call", text, {"breaks": len(breaks)}, place, advice))
        return False
    return True


def _breaks(fn: Any, args: Any, kwargs: Any, dynamo: Any) -> list[Any]:
    try:
        return list(dynamo.explain(fn)(*args, **kwargs).break_reasons)
    except Exception:
        return []


def _stack(reason: Any) -> str:
    return "".join(f'  File "{f.filename}", line {f.lineno}\n' for f in (reason.user_stack or []))


def _gradient(context: Context, sink: Sink, dynamo: Any, whole: bool) -> None:
    """Compare the compiled gradient with eager's, in the widest precision."""
    subject, point = context.subject, context.generic
    dynamo.reset()
    compiled = torch.compile(subject.bare, backend=_Counter(context.settings.backend))
    try:
        grads, outs = _reverse(context, compiled, point)
    except Exception as error:
        text = f"The compiled call raises {type(error).__name__}: {first_line(error)}"
        severity = Severity.WARNING if whole else Severity.NOTE
        sink.emit(Finding(Category.COMPILED_GRADIENT, severity, "call", text, {}, None, "Run this part eagerly."))
        return
    truth, truth_outs, eps = context.run[1], context.run[0], context.eps
    if subject.lift is not None:  # the compiled call keeps its casts, so compare with an eager call that keeps them
        truth, truth_outs = _reverse(context, subject.bare, point)
        eps = max(eps, _LIFTED)
    tolerance = 1e5 * eps
    for name, want in truth.items():
        got = grads[name]
        gap = _gap(got, want)
        if gap > tolerance:
            numbers: dict[str, Evidence] = {"relative_difference": gap}
            text = f"The compiled gradient of {name} differs from the eager one."
            advice = "Look for state that is read while tracing; pass it in as a tensor."
            sink.emit(Finding(Category.COMPILED_GRADIENT, Severity.ERROR, name, text, numbers, context.custom_place, advice))
    gap = max((_gap(a, b) for a, b in zip(outs, truth_outs, strict=True)), default=0.0)
    if gap > tolerance:
        text = "The compiled output differs from the eager one."
        advice = "Look for state that is read while tracing; pass it in as a tensor."
        sink.emit(Finding(Category.COMPILED_GRADIENT, Severity.ERROR, "output", text, {"relative_difference": gap}, None, advice))


def _reverse(context: Context, fn: Any, point: Point) -> tuple[dict[str, Tensor | None], list[Tensor]]:
    subject = context.subject
    with subject.placed(point):
        roots, handed = subject.handed(point)
        args, kwargs = subject.arguments(handed)
        subject.rewind()
        outs = floats(fn(*args, **kwargs))
        live = [(o, w) for o, w in zip(outs, context.weights, strict=True) if o.requires_grad]
        wanted = {k: r for k, r in {**roots, **subject.params}.items() if r.requires_grad}
        grads: dict[str, Tensor | None] = dict.fromkeys({**roots, **subject.params})
        if live:
            slopes = torch.autograd.grad([o for o, _ in live], list(wanted.values()), [w for _, w in live], allow_unused=True)
            grads.update(zip(wanted, slopes, strict=True))
    return grads, [o.detach() for o in outs]


def _gap(got: Tensor | None, want: Tensor | None) -> float:
    if got is None or want is None:
        other = got if want is None else want
        return 0.0 if other is None or not bool((other != 0).any()) else float("inf")
    if got.shape != want.shape:
        return float("inf")
    size = float(want.double().nan_to_num().norm())
    return float((got - want).double().nan_to_num().norm()) / max(size, 1e-30) if want.numel() else 0.0


def _recompiles(context: Context, sink: Sink, dynamo: Any) -> None:
    """Count the graphs made for other values, then for other batch sizes."""
    subject, base = context.subject, context.subject.point()
    scaled = [{k: v * f if k in subject.inputs else v for k, v in base.items()} for f in (1.0, 0.9, 0.8, 0.7)]
    first, graphs = _count(context, dynamo, scaled)
    if graphs > first:
        numbers: dict[str, Evidence] = {"first_call": first, "after_four_values": graphs}
        text = "Other values of the same shape recompile."
        advice = "Keep Python from reading tensor values; pass numbers as tensors."
        sink.emit(Finding(Category.RECOMPILE, Severity.WARNING, "call", text, numbers, None, advice))
    sizes = {v.shape[0] for k, v in base.items() if k in subject.inputs and v.ndim > 0}
    if len(sizes) != 1 or any(v.ndim == 0 for k, v in base.items() if k in subject.inputs) or subject.others or min(sizes) < 2:
        return
    grown = [{k: torch.cat([v] + [v[:1]] * n) if k in subject.inputs else v for k, v in base.items()} for n in range(_SIZES)]
    first, graphs = _count(context, dynamo, grown)
    if first and graphs > _STATIC_AND_DYNAMIC * first:
        numbers = {"first_call": first, "after_five_sizes": graphs}
        every = graphs >= _SIZES * first
        severity = Severity.WARNING if every else Severity.NOTE
        text = "Every batch size recompiles." if every else "Batch sizes recompile more than once before they settle."
        advice = "Avoid Python loops over the batch and branches on its size."
        sink.emit(Finding(Category.RECOMPILE, severity, "call", text, numbers, None, advice))


def _count(context: Context, dynamo: Any, points: list[dict[str, Tensor]]) -> tuple[int, int]:
    """Return the number of graphs after the first call and after all calls; (0, 0) if a call raises."""
    subject = context.subject
    dynamo.reset()
    counter = _Counter("eager")
    compiled = torch.compile(subject.bare, backend=counter)
    first = 0
    try:
        for index, point in enumerate(points):
            with subject.placed(point):
                args, kwargs = _arguments(context, point)
                subject.rewind()
                compiled(*args, **kwargs)
            first = counter.graphs if index == 0 else first
    except Exception:
        return 0, 0
    return first, counter.graphs


def _arguments(context: Context, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return context.subject.arguments({k: point[k].detach().clone().requires_grad_() for k in context.subject.inputs})
