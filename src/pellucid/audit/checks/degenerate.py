"""Check inputs that break formulas: black, white, grey, constant, tied, saturated, half precision, NaN.

Owns: building them, reporting non-finite gradients (first node by name and line), and the gain on flat inputs.
Must not: call a non-finite gradient a defect where the function's own value is not finite.
Read next: ``modes.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pellucid.audit.backward import first_non_finite, watched
from pellucid.audit.context import Context
from pellucid.audit.finding import Category, Evidence, Finding, Severity, Sink
from pellucid.audit.subject import Point

__all__ = ["check", "eligible", "poison"]

_GAIN = 1e3  # a normalisation with eps = 1e-5 stays below this (316), one with eps = 1e-7 does not (3162)
_GROWTH = 100.0
_ONE_LEVEL = 10.0  # factor on the limit where only black or only white is bad: steep functions are legitimate there
_FLAT = ("black", "white", "constant")
_ADVICE = {
    "gain": "Add a larger eps under the root (var + 1e-5), or smooth the floor.",
    "guard": "Use a double where: replace the input of the operation where it is singular, then select the result.",
    "spectral": "Do not differentiate eigenvectors at equal eigenvalues: use a closed form of the matrix function.",
    "half": "Compute this step in float32, or choose an eps that half precision can hold.",
}


@dataclass
class _Spoilt:
    """All degenerate inputs on which one node turned one leaf's gradient non-finite."""

    patterns: list[str] = field(default_factory=list)
    elements: int = 0


def check(context: Context, sink: Sink) -> None:
    """Replace one input at a time by degenerate values in the caller's dtype; then try half precision."""
    subject = context.subject
    base = subject.point()
    spoilt_at: dict[tuple[str, str, str | None], _Spoilt] = {}
    normal = _gains(context, base)
    refused: list[str] = []
    for name, value in subject.inputs.items():
        if not eligible(value):
            continue
        worst = (0.0, "")
        for pattern, other in patterns(value.detach()):
            sink.mark(f"{pattern} {name}")
            point = {**base, name: other}
            grads = _look(context, point, f"{pattern} {name}", spoilt_at, refused)
            if grads is not None and pattern in _FLAT and _image(value):
                gain = _gain(grads.get(name), context, point) / (1.0 if pattern == "constant" else _ONE_LEVEL)
                worst = max(worst, (gain, pattern))
        _report_gain(context, sink, name, worst, normal.get(name, 0.0))
    known = {(name, what.split()[0]) for (name, *_), spoilt in spoilt_at.items() for what in spoilt.patterns}
    for dtype in (torch.float16, torch.bfloat16):
        short = str(dtype).removeprefix("torch.")
        sink.mark(short)
        point = subject.point(dtype)
        _look(context, point, short, spoilt_at, [])
        for name, value in subject.inputs.items():
            flats = [(p, v) for p, v in patterns(value.detach()) if p in {"black", "constant"}] if eligible(value) else []
            for pattern, other in flats:
                if (name, pattern) not in known:
                    _look(context, {**point, name: other.to(dtype)}, f"{pattern} {name} in {short}", spoilt_at, [])
    _report(sink, spoilt_at)
    if refused:
        text = f"The output itself is not finite (or the call raises) on: {', '.join(refused)}."
        sink.emit(
            Finding(Category.NON_FINITE, Severity.NOTE, "output", text, {"inputs": len(refused)}, None, "Outside its domain.")
        )


def poison(context: Context, name: str, sink: Sink) -> None:
    """Run with NaN and inf in one input. Only a crash matters, which the parent process reports."""
    value = context.subject.base[name]
    for bad in (float("nan"), float("inf"), float("-inf")):
        point = {**context.subject.point(), name: torch.full_like(value, bad)}
        sink.mark(f"{bad} in {name}")
        try:
            watched(context.subject, point, sink.mark)
        except Exception:
            continue


def eligible(value: Tensor) -> bool:
    """Whether degenerate values make sense for an input: it is data, not a small matrix or a scalar."""
    return value.ndim >= 2 and value.numel() >= 32 and max(value.shape[-2:]) > 4


def patterns(value: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield degenerate variants of one input; images in [0, 1] go to 0 and 1, other data to 0 and its maximum."""
    low, high = float(value.min()), float(value.max())
    high = 1.0 if low >= 0.0 and high <= 1.0 else high
    yield "black", torch.zeros_like(value)
    yield "white", torch.full_like(value, high)
    levels = torch.linspace(0.35, 0.65, value.shape[1] if value.ndim > 2 else 1, dtype=value.dtype, device=value.device)
    flat = levels.reshape((1, -1) + (1,) * (value.ndim - 2)) * high if value.ndim > 2 else levels * high
    yield "constant", flat.expand_as(value).clone()
    if value.ndim >= 3 and value.shape[-3] == 3:
        yield "grey", value.mean(-3, keepdim=True).expand_as(value).clone()
    yield "tied", (value * 4).round() / 4
    middle = value.median()
    yield "saturated", torch.where(value > middle, high, min(low, 0.0))


def _image(value: Tensor) -> bool:
    return value.ndim >= 2 and min(value.shape[-2:]) > 4


def _look(
    context: Context, point: Point, what: str, spoilt_at: dict[tuple[str, str, str | None], _Spoilt], refused: list[str]
) -> dict[str, Tensor | None] | None:
    """Run at one point, and record non-finite gradients by the node that made them."""
    try:
        outs, grads = context.subject.gradient(point)
    except Exception:
        refused.append(what)
        return None
    if any(not torch.isfinite(o).all() for o in outs):
        refused.append(what)
        return None
    bad = {k: g for k, g in grads.items() if g is not None and not torch.isfinite(g).all()}
    if not bad:
        return grads
    step = first_non_finite(watched(context.subject, point)[0])
    for name, grad in bad.items():
        entry = spoilt_at.setdefault((name, step.node if step else "unknown", step.place if step else None), _Spoilt())
        entry.patterns.append(what)
        entry.elements = max(entry.elements, int((~torch.isfinite(grad)).sum()))
    return None


def _report(sink: Sink, spoilt_at: dict[tuple[str, str, str | None], _Spoilt]) -> None:
    reported = {f.subject for f in sink.findings if f.category == Category.NON_FINITE and f.severity == Severity.ERROR}
    for (name, node, place), spoilt in spoilt_at.items():
        if name in reported:
            continue
        spectral = any(word in node for word in ("Eigh", "Svd", "SVD", "Eig"))
        half = all("float16" in p for p in spoilt.patterns)
        advice = _ADVICE["spectral" if spectral else "half" if half else "guard"]
        text = f"The gradient of {name} is not finite on {', '.join(spoilt.patterns)}, where the output is finite; first in {node}."
        numbers: dict[str, Evidence] = {"elements": spoilt.elements, "node": node, "inputs": len(spoilt.patterns)}
        sink.emit(Finding(Category.NON_FINITE, Severity.WARNING, name, text, numbers, place, advice))


def _gains(context: Context, point: Point) -> dict[str, float]:
    grads = context.subject.gradient(point)[1]
    return {k: _gain(g, context, point) for k, g in grads.items()}


def _gain(grad: Tensor | None, context: Context, point: Point) -> float:
    """Return the norm of the gradient for an output weight vector of norm 1."""
    if grad is None:
        return 0.0
    size = sum(float(w.double().square().sum()) for w in context.subject.weights(context.subject.run(point))) ** 0.5
    return float(grad.double().norm()) / max(size, 1e-300)


def _report_gain(context: Context, sink: Sink, name: str, worst: tuple[float, str], normal: float) -> None:
    gain, pattern = worst
    if gain <= _GAIN or gain <= _GROWTH * normal:
        return
    other = dict(patterns(context.subject.inputs[name].detach()))[pattern]
    steps = watched(context.subject, {**context.subject.point(), name: other})[0]
    jump = max(steps, key=lambda s: s.growth, default=None)
    if jump is None or jump.growth <= _GAIN:
        return  # a product of moderate gains, as in a stack of normalisation layers
    gain *= 1.0 if pattern == "constant" else _ONE_LEVEL
    text = f"The gradient of {name} explodes on a {pattern} input: gain {gain:.3g}, against {normal:.3g} at the given input."
    numbers: dict[str, Evidence] = {"gain": gain, "gain_at_given": normal, "node": jump.node}
    sink.emit(Finding(Category.GAIN, Severity.WARNING, name, text, numbers, jump.place, _ADVICE["gain"]))
