"""Find side effects of the call: writes, aliases, host reads, hidden randomness, changes of dtype.

Owns: checks for effects that make a correct gradient wrong later, in other code.
Must not: differentiate numerically.
Read next: ``agreement.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.audit.checks.smoke import first_line
from pellucid.audit.context import Context
from pellucid.audit.finding import Category, Evidence, Finding, Severity, Sink
from pellucid.audit.trace import Event
from pellucid.audit.tree import leaves

_FEW_BITS = 32  # many kernels compute in float32 inside a float64 call; only half precision is reported

__all__ = ["downcasts", "drift", "redraws", "repeats", "traced", "writes"]


def writes(context: Context, sink: Sink) -> None:
    """Report inputs and parameters that one call changes, and outputs that share memory with an input."""
    subject = context.subject
    point = subject.point()
    with subject.placed(point), torch.enable_grad():
        handed = subject.handed(point)[1]
        others = {k: v.clone() for k, v in subject.others.items()}
        kept = {k: v.detach().clone() for k, v in {**handed, **others, **subject.params}.items()}
        versions = {k: v._version for k, v in handed.items()}
        args, kwargs = subject.arguments({**handed, **others})
        out = subject.call(*args, **kwargs)
        changed = {}
        for name, tensor in {**handed, **others, **subject.params}.items():
            count = int((~_same(tensor, kept[name])).sum())
            if count or (name in versions and tensor._version != versions[name]):
                changed[name] = count
        stores = {v.untyped_storage()._cdata: k for k, v in handed.items()}
        shared = {stores[t.untyped_storage()._cdata] for t in leaves(out).values() if t.untyped_storage()._cdata in stores}
    for name, count in changed.items():
        kinds = ("write", "data-write", "host")
        write = [e for kind in kinds for e in context.trace.of(kind) if name in e.sources]
        text = f"The call changes {name} in place."
        numbers: dict[str, Evidence] = {"elements_changed": count, "write": write[0].op if write else "outside torch"}
        advice = "Write out of place, or clone first: callers and autograd still need the old values."
        place = write[0].place if write else None
        sink.emit(Finding(Category.IN_PLACE, Severity.ERROR, name, text, numbers, place, advice))
    for name in sorted(shared - set(changed)):
        text = f"The output shares memory with {name}."
        advice = "A later write in place to the output changes the input; clone if callers do that."
        sink.emit(Finding(Category.ALIAS, Severity.NOTE, name, text, {}, None, advice))


def traced(context: Context, sink: Sink) -> None:
    """Report events of the watched run that are defects by themselves."""
    for event in context.trace.of("data-write"):
        text = f"{event.op} writes to values behind autograd's back."
        advice = "Use an out-of-place operation on the tensor itself; autograd cannot see writes through .data or detach()."
        sink.emit(_finding(Category.DATA_WRITE, Severity.ERROR, event, text, advice))
    for event in context.trace.of("stride-0"):
        text = f"{event.op} writes through an expanded view: one write lands in every expanded element."
        sink.emit(_finding(Category.STRIDE_0, Severity.ERROR, event, text, "Clone (or repeat) before writing."))
    for event in context.trace.of("host-read"):
        text = f"Python reads a tensor's value through {event.op}: a device sync, and a graph break under torch.compile."
        sink.emit(_finding(Category.HOST_READ, Severity.WARNING, event, text, "Use torch.where instead of branching on values."))


def repeats(context: Context, sink: Sink) -> None:
    """Check that two runs from the same random state agree in every bit, forward and backward."""
    subject, point = context.subject, context.subject.point()
    try:
        with subject.by_backward():
            first, second = subject.gradient(point), subject.gradient(point)
    except Exception as error:  # the first step worked
        text = f"A second step raises {type(error).__name__}: {first_line(error)}"
        advice = "Store no tensor with its graph between calls: detach what the next call reads."
        sink.emit(Finding(Category.STATE, Severity.ERROR, "call", text, {}, None, advice))
        return
    worst = max((_gap(a, b) for a, b in zip(first[0], second[0], strict=False)), default=0.0)
    back = max((_gap(a, second[1][k]) for k, a in first[1].items()), default=0.0)
    if worst or back:
        size = max((float(o.detach().double().abs().nan_to_num().max()) for o in first[0] if o.numel()), default=1.0)
        rounding = worst <= 1e3 * torch.finfo(subject.native).eps * size
        severity = Severity.NOTE if rounding and context.repeatable else Severity.WARNING
        text = f"Two runs with every reachable generator rewound differ{' in the last bits' if rounding else ''}."
        numbers: dict[str, Evidence] = {"output_difference": worst, "gradient_difference": back}
        draws = context.trace.of("draw")
        advice = "Take randomness as an argument (a draw or a generator); remove state kept between calls."
        place = draws[0].place if draws else None
        sink.emit(Finding(Category.NONDETERMINISM, severity, "call", text, numbers, place, advice))


def redraws(context: Context, sink: Sink) -> None:
    """Report random numbers drawn during backward: a recomputed region then sees other values than the forward pass."""
    names, place = context.redrawn
    if names:
        text = f"Backward draws random numbers again ({', '.join(names)}): the recomputed forward differs from the first."
        advice = "Draw before the checkpoint and pass the draw in as a tensor."
        sink.emit(Finding(Category.RNG_RECOMPUTE, Severity.ERROR, "call", text, {"generators": len(names)}, place, advice))
    elif (draws := context.trace.of("draw")) and not all(e.node for e in draws):
        text = f"{draws[0].op} draws from the global generator."
        advice = "Take a key or a generator as an argument to make runs repeatable."
        sink.emit(Finding(Category.RANDOM, Severity.NOTE, "call", text, {"draws": len(draws)}, draws[0].place, advice))


def drift(context: Context, sink: Sink) -> None:
    """Report outputs whose dtype or device differs from the inputs'."""
    subject = context.subject
    for dtype in dict.fromkeys((subject.native, context.dtype)):
        with subject.lifted(None):
            if _drifts(context, sink, dtype):
                return


def _drifts(context: Context, sink: Sink, dtype: torch.dtype) -> bool:
    """Compare the dtype and device of inputs and outputs for one dtype; return whether the dtype changes."""
    subject, point = context.subject, context.subject.point(dtype)
    inputs = [v for k, v in point.items() if k in subject.inputs] or list(point.values())
    try:
        outs = context.native if dtype == subject.native else subject.run(point)
    except Exception:
        if dtype == subject.native:
            raise
        return False  # the call accepts the given dtype only
    odd = [o.dtype for o in outs if torch.finfo(o.dtype).bits != torch.finfo(dtype).bits]
    devices = {str(o.device) for o in outs} - {str(v.device) for v in inputs}
    if devices:
        text = f"The output is on {', '.join(sorted(devices))}, the inputs are not."
        sink.emit(Finding(Category.DRIFT, Severity.WARNING, "output", text, {}, None, "Create tensors on x.device."))
    if odd:
        watched = context.look(point)
        events = watched.of("narrow") + watched.of("widen")
        text = f"{dtype} in, {odd[0]} out."
        advice = "Keep the dtype of the input: create constants with dtype=x.dtype."
        place = events[0].place if events else None
        numbers: dict[str, Evidence] = {"operation": events[0].op if events else "unknown"}
        sink.emit(Finding(Category.DRIFT, Severity.WARNING, "output", text, numbers, place, advice))
    return bool(odd)


def downcasts(context: Context, sink: Sink) -> None:
    """Report steps in a lower precision than that of the call's inputs and outputs."""
    subject = context.subject
    bits = torch.finfo(subject.native).bits
    for event in context.look(subject.point()).of("narrow"):
        if torch.finfo(getattr(torch, event.node)).bits < min(bits, _FEW_BITS):
            text = f"{event.op} computes in {event.node} inside a {str(subject.native).removeprefix('torch.')} call."
            advice = "Gradients lose precision, too: keep this step in the input's dtype, or leave casts to the caller's autocast."
            names = ", ".join(sorted(event.sources)) or "call"
            evidence: dict[str, Evidence] = {"operation": event.op, "computes_in": event.node}
            sink.emit(Finding(Category.PRECISION, Severity.WARNING, names, text, evidence, event.place, advice))
            return


def _finding(category: Category, severity: Severity, event: Event, text: str, advice: str) -> Finding:
    names = ", ".join(sorted(event.sources)) or "call"
    return Finding(category, severity, names, text, {"operation": event.op}, event.place, advice)


def _same(a: Tensor, b: Tensor) -> Tensor:
    return (a == b) | ((a != a) & (b != b))


def _gap(a: Tensor | None, b: Tensor | None) -> float:
    """Return the largest difference of two results, 0 if every bit agrees."""
    if a is None or b is None:
        return 0.0 if a is b else float("inf")
    if a.shape != b.shape:
        return float("inf")
    difference = torch.where(_same(a, b), 0.0, (a.double() - b.double()).abs())
    return float(difference.nan_to_num(float("inf")).max()) if difference.numel() else 0.0
