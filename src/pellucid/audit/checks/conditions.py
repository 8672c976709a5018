"""Check conditions beyond the given inputs: lower precisions, gradients to some leaves only, larger sizes, larger values.

Fused kernels have separate code paths for each of these, while the other checks run in float64, with gradients to all leaves, at
the given sizes and values. Only leaves whose gradient was confirmed there are checked here.

Owns: building these conditions, and the budget that they share.
Must not: report a condition under which the call raises.
Read next: ``../rounding.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations

import torch
from torch import Tensor

from pellucid.audit.checks.variants import Gradients, attempted, compare, confirmed, variant
from pellucid.audit.context import Context
from pellucid.audit.finding import Category, Evidence, Finding, Severity, Sink
from pellucid.audit.probing import directions, measure_slope
from pellucid.audit.rounding import differences, representable

__all__ = ["digits", "ranges", "sizes", "subsets"]

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_FEW = 3  # up to so many leaves, every subset is tried; of more, each alone, all but each, all inputs, all parameters
_ALONE = 6
_COLUMNS, _SAMPLES = (33, 65, 129), (9, 33)
_ELEMENTS = 1 << 20  # the largest input that is tried
_FACTORS = (4.0, -4.0, 32.0)
_ADVICE = "Look for separate code that only this condition runs: a fused kernel, a fallback, a fast path."

_Try = tuple[str, Callable[[], None]]


def digits(context: Context, sink: Sink) -> None:
    """Compare every narrower dtype at the given inputs with float64."""
    names = confirmed(context, sink)
    if not names or context.dtype != torch.float64:
        return
    width = torch.finfo(context.subject.native).bits

    def tries() -> Iterator[_Try]:
        for dtype in _DTYPES:
            if torch.finfo(dtype).bits < width or dtype == context.subject.native:
                yield _word(dtype), partial(look, dtype)

    def look(dtype: torch.dtype) -> None:
        point = representable(context.generic, dtype)
        truth = context.subject.gradient(point)[1]
        agrees = _in_fewer(context, sink, Category.WRONG, "", point, truth, names, dtype)
        for name in names:
            sink.measures[name].modes[_word(dtype)] = {None: "not compared", True: "agrees", False: "wrong"}[agrees]

    _try(context, sink, tries())


def subsets(context: Context, sink: Sink) -> None:
    """Compare gradients to some leaves only with gradients to all leaves, in float64 and in the given dtype."""
    names, subject = confirmed(context, sink), context.subject
    if not names or len(subject.judged) < 2:
        return
    dtypes = list(dict.fromkeys((context.dtype, subject.native)))
    points = {d: {k: v.to(d) for k, v in context.generic.items()} for d in dtypes}
    truths: dict[torch.dtype, Gradients] = {context.dtype: context.run[1]}

    def ask(asked: tuple[str, ...], what: str) -> None:
        wanted = [k for k in names if k in asked]
        for dtype, point in points.items():
            if dtype not in truths:
                truths[dtype] = subject.gradient(point)[1]
            got = attempted(sink, Category.DETACHED, what, partial(_asked, context, point, asked))
            compare(context, sink, Category.DETACHED, what, wanted, got, truths[dtype], max(context.eps, torch.finfo(dtype).eps))

    def tries() -> Iterator[_Try]:
        inputs = {k for k in subject.judged if k in subject.inputs}
        for asked in _subsets(subject.judged, inputs):
            what = f"only {', '.join(asked[:_ALONE])}{' and others' if len(asked) > _ALONE else ''} must get a gradient"
            if inputs and not inputs & set(asked) and len(asked) == len(subject.judged) - len(inputs):
                what = "the inputs need no gradient themselves (as images from a loader do)"
            yield what, partial(ask, asked, what)

    _try(context, sink, tries())


def sizes(context: Context, sink: Sink) -> None:
    """Check more columns and more samples than were given: beyond blocks of 8, 32, 64 and 128."""
    names, subject = confirmed(context, sink), context.subject
    lead = next((v for k, v in context.generic.items() if k in subject.inputs and v.ndim > 1), None)
    if not names or lead is None:
        return

    def look(axis: int, count: int, label: str) -> None:
        old = lead.shape[axis]
        for everywhere in (False, True):
            grow = {k: _grown(v, axis, old, count, everywhere) for k, v in {**context.generic, **subject.others}.items()}
            point = {k: v if k in subject.params else grow[k] for k, v in context.generic.items()}
            with subject.altered({k: grow[k] for k in subject.others}):
                try:
                    subject.run(point)
                except Exception:
                    continue  # perhaps other axes of this size must grow with it
                _meet(context, sink, Category.SHAPE, label, point, names)
                return

    def tries() -> Iterator[_Try]:
        shown = max(v.numel() for v in context.generic.values())
        for axis, counts, word in ((-1, _COLUMNS, "columns"), (0, _SAMPLES, "samples")):
            old = lead.shape[axis]
            for count in counts:
                if 0 < old < count and shown * count // old <= _ELEMENTS:
                    label = f"{count} {word}"
                    yield label, partial(look, axis, count, label)

    _try(context, sink, tries())


def ranges(context: Context, sink: Sink) -> None:
    """Check all inputs scaled by several factors, of either sign, then one leaf at a time."""
    names, subject = confirmed(context, sink), context.subject
    if not names or not subject.inputs:
        return
    several = subject.judged if 1 < len(subject.judged) <= _FEW else []

    def tries() -> Iterator[_Try]:
        for chosen in [list(subject.inputs), *([k] for k in several)]:
            for factor in _FACTORS:
                point = {k: factor * v if k in chosen else v for k, v in context.generic.items()}
                label = f"{', '.join(chosen[:_ALONE])} times {factor:g}"
                yield label, partial(_meet, context, sink, Category.WRONG, label, point, names)

    _try(context, sink, tries())


def _try(context: Context, sink: Sink, tries: Iterator[_Try]) -> None:
    """Try one condition after the other while the budget lasts, and report which were left out."""
    left = []
    for label, attempt in tries:
        if context.spent >= context.settings.budget:
            left.append(label)
            continue
        sink.mark(label)
        began = time.process_time()
        attempt()
        seconds = time.process_time() - began
        context.spent += seconds
        sink.tried.update({label: seconds})
    if left:
        text = f"The budget of {context.settings.budget:g} s is spent; not tried: {', '.join(left)}."
        sink.emit(Finding(Category.UNJUDGED, Severity.NOTE, "conditions", text, {"left_out": len(left)}, None, "Raise budget=."))


def _meet(context: Context, sink: Sink, category: Category, label: str, point: dict[str, Tensor], names: list[str]) -> None:
    """Judge a condition by finite differences in float64, then the given dtype by float64."""
    native = context.subject.native
    narrow = context.dtype == torch.float64 and native != torch.float64
    point = representable(point, native) if narrow else point
    truth = variant(context, sink, category, label, point, names)
    if truth is not None and narrow:
        _in_fewer(context, sink, category, f" for {label}", point, truth, names, native)


def _in_fewer(
    context: Context,
    sink: Sink,
    category: Category,
    where: str,
    point: dict[str, Tensor],
    truth: Gradients,
    names: list[str],
    dtype: torch.dtype,
) -> bool | None:
    """Compare gradients in a dtype with float64, and report the worst leaf if rounding does not explain it; None if not judged."""
    subject = context.subject
    found = differences(subject, point, dtype, {k: truth[k] for k in names})
    if found is None:
        return _by_slopes(context, sink, where, point, names, dtype)
    wrong = {k: one for k, one in found.items() if one.relative > one.explained}
    if not wrong:
        return True
    name = max(wrong, key=lambda k: wrong[k].relative / wrong[k].explained)
    numbers: dict[str, Evidence] = {"relative_difference": wrong[name].relative, "explained": wrong[name].explained}
    _report(context, sink, category, name, where, dtype, numbers)
    return False


def _by_slopes(
    context: Context, sink: Sink, where: str, point: dict[str, Tensor], names: list[str], dtype: torch.dtype
) -> bool | None:
    """Judge float32 by its own finite differences if its outputs differ from float64's, as those of calls that draw do."""
    if dtype != torch.float32 or dtype != context.subject.native:
        return None
    low = {k: v.to(dtype) for k, v in point.items()}
    other = Context(context.subject, context.settings)
    other.__dict__.update(dtype=dtype, generic=low, given=low, eps=torch.finfo(dtype).eps)
    try:
        grads = other.run[1]
        if not other.repeatable:
            return None
    except Exception:
        return None
    for name in names:
        slopes = [measure_slope(other, low, name, grads[name], v) for v in directions(low[name], 2)]
        if all(s.verdict == "wrong" for s in slopes):
            numbers: dict[str, Evidence] = {"autograd": slopes[0].autograd, "finite_difference": slopes[0].central}
            _report(context, sink, Category.WRONG, name, where, dtype, numbers)
            return False
    return None


def _report(
    context: Context, sink: Sink, category: Category, name: str, where: str, dtype: torch.dtype, numbers: dict[str, Evidence]
) -> None:
    severity = Severity.ERROR if dtype == context.subject.native else Severity.WARNING
    text = f"The gradient of {name} is right in float64 and wrong in {_word(dtype)}{where}."
    sink.emit(Finding(category, severity, name, text, numbers, context.custom_place, _ADVICE))


def _asked(context: Context, point: dict[str, Tensor], asked: tuple[str, ...]) -> Gradients:
    return context.subject.gradient(point, asked=asked)[1]


def _subsets(leaves: list[str], inputs: set[str]) -> list[tuple[str, ...]]:
    """Return the subsets of leaves to ask for: first all parameters, all inputs."""
    kinds = [tuple(k for k in leaves if (k in inputs) == kind) for kind in (False, True)]
    if len(leaves) <= _FEW:
        rest = [chosen for size in range(1, len(leaves)) for chosen in combinations(leaves, size)]
    else:
        some = leaves[:_ALONE]
        rest = [(k,) for k in some] + [tuple(other for other in leaves if other != k) for k in some]
    return [chosen for chosen in dict.fromkeys([*kinds, *rest]) if 0 < len(chosen) < len(leaves)]


def _grown(value: Tensor, axis: int, old: int, count: int, everywhere: bool) -> Tensor:
    """Grow the given axis (or ``everywhere``) from size ``old`` to ``count``, by repeating the tensor with small changes."""
    if value.ndim == 0:
        return value
    axes = [i for i, n in enumerate(value.shape) if n == old and (everywhere or i == axis % value.ndim)]
    for i in axes:
        value = value.index_select(i, torch.arange(count, device=value.device) % old)
    if axes and value.is_floating_point():
        generator = torch.Generator().manual_seed(70_001)
        value = value * (1 - 0.05 * torch.rand(value.shape, generator=generator).to(value))
    return value


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
