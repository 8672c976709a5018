"""The two entry points: ``audit`` a callable, or ``assert_clean`` in a test.

Owns: the order of the checks, what a declaration excuses, and the report put together.
Must not: measure anything itself.
Read next: ``checks/smoke.py``.
"""

from __future__ import annotations

import dataclasses
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from pellucid.audit.checks import agreement, compiled, degenerate, hazards, modes, smoke
from pellucid.audit.context import Context
from pellucid.audit.finding import Category, Finding, Measure, Severity, Sink
from pellucid.audit.isolate import Stage, can_isolate, run_here, run_isolated
from pellucid.audit.report import AuditReport
from pellucid.audit.settings import Settings
from pellucid.audit.subject import Subject
from pellucid.errors import invalid

__all__ = ["assert_clean", "audit"]


def audit(
    fn: Callable[..., Any],
    inputs: Any,
    params: Mapping[str, Tensor] | None = None,
    *,
    name: str | None = None,
    settings: Settings | None = None,
    **options: Any,
) -> AuditReport:
    """Find out where the gradients of a callable live, lie and die.

    Args:
        fn: Any callable on tensors, an ``nn.Module``, or an object with ``draw`` and ``apply`` (its draws are replayed).
        inputs: One tensor, a tuple of positional arguments, or a dict of keyword arguments. Small is enough: 2x3x16x16.
        params: Leaf tensors the callable reads besides its arguments, by name. A module's parameters are found by themselves.
        name: What to call it in the report.
        settings: How thorough to be; single fields may be given as keywords instead (``compile=True``, ``declared={...}``).
        **options: Fields of :class:`Settings`.

    Returns:
        The findings, worst first, with what was measured per input and parameter.

    Errors:
        ``InvalidArgument`` where no argument or parameter is a floating-point tensor.

    Example:
        >>> import torch
        >>> from pellucid.audit import audit
        >>> [str(f.category) for f in audit(lambda x: x * x.detach(), torch.rand(2, 8)).findings]
        ['detached']
    """
    unknown = set(options) - {f.name for f in dataclasses.fields(Settings)}
    if unknown:
        fields = ", ".join(f.name for f in dataclasses.fields(Settings))
        raise invalid("options", expected=f"fields of Settings ({fields})", got=", ".join(sorted(unknown)))
    chosen = dataclasses.replace(settings or Settings(), **options)
    began = time.perf_counter()
    subject = Subject(fn, inputs, params, seed=chosen.seed)
    sink = Sink()
    _warm()
    with subject.replay.preserved():
        stages = _stages(subject, chosen)
        if chosen.isolate and can_isolate([*subject.base.values(), *subject.others.values()]):
            run_isolated(stages, sink, chosen.timeout)
        else:
            run_here(stages, sink)
            subject.restore()
    findings = _judge(sink.findings, sink.measures, chosen)
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    return AuditReport(name or subject.name, findings, sink.measures, time.perf_counter() - began, versions)


def assert_clean(
    fn: Callable[..., Any],
    inputs: Any,
    params: Mapping[str, Tensor] | None = None,
    *,
    allow: Iterable[str] = (),
    level: str = "warning",
    **options: Any,
) -> AuditReport:
    """Audit a callable and raise ``AssertionError`` with the findings unless it is clean: a helper for tests.

    Args:
        fn: As in :func:`audit`.
        inputs: As in :func:`audit`.
        params: As in :func:`audit`.
        allow: Findings to accept: ``"category"`` or ``"category:subject"``.
        level: The mildest severity that fails: ``"note"``, ``"warning"`` or ``"error"``.
        **options: As in :func:`audit`.

    Returns:
        The report, for further questions.

    Example:
        >>> import torch
        >>> from pellucid.audit import assert_clean
        >>> assert_clean(torch.tanh, torch.rand(2, 8)).exit_code
        0
    """
    words = {s.label: s for s in Severity}
    if level not in words:
        raise invalid("level", expected=f"one of {', '.join(words)}", got=repr(level))
    report = audit(fn, inputs, params, **options)
    left = [f for f in report.without(allow) if f.severity >= words[level]]
    if left:
        raise AssertionError(str(dataclasses.replace(report, findings=left)))
    return report


@cache
def _warm() -> None:
    """Import what torch imports on first use, once in the parent, so that every child need not. No backward pass here."""
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.set_detect_anomaly(True, check_nan=False), torch.autograd.forward_ad.dual_level():
            torch.func.vmap(torch.sin)(x.detach())
            node = checkpoint(torch.sin, x, use_reentrant=False).grad_fn
            node.register_prehook(lambda _grads: None).remove()


def _stages(subject: Subject, settings: Settings) -> list[Stage]:
    context = Context(subject, settings)
    stages: list[Stage] = [
        ("the given inputs", lambda sink: smoke.check(context, sink)),
        ("hazards", lambda sink: hazards.check(context, sink)),
        ("finite differences", lambda sink: agreement.check(context, sink)),
    ]
    if settings.modes:
        stages.append(("other modes", lambda sink: modes.check(context, sink)))
    if settings.compile:
        stages.append(("compile", lambda sink: compiled.check(context, sink)))
    if settings.degenerate:
        stages.append(("degenerate inputs", lambda sink: degenerate.check(context, sink)))
        stages += [(f"NaN in {leaf}", partial(_poison, context, leaf)) for leaf in subject.inputs]
    return stages


def _poison(context: Context, leaf: str, sink: Sink) -> None:
    degenerate.poison(context, sink, leaf)


_EXCUSED = {
    "none": {Category.DETACHED, Category.COVERAGE, Category.JUMP, Category.SURROGATE},
    "surrogate": {Category.DETACHED, Category.WRONG, Category.SURROGATE, Category.JUMP},
    "almost_everywhere": set[Category](),
    "exact": set[Category](),
}


def _judge(findings: list[Finding], measures: Mapping[str, Measure], settings: Settings) -> list[Finding]:
    """Weigh findings against declarations: what was promised is a note, a broken promise is a finding of its own."""
    judged = []
    for finding in findings:
        promise = settings.promise(finding.subject)
        if promise is not None and finding.category in _EXCUSED[promise] and finding.severity > Severity.NOTE:
            finding = dataclasses.replace(finding, severity=Severity.NOTE, message=f"{finding.message} (Declared: {promise}.)")
        judged.append(finding)
    for name, measure in measures.items():
        promise = settings.promise(name)
        broken = {
            "exact": {"surrogate", "none"},
            "almost_everywhere": {"surrogate", "none"},
            "none": {"exact", "almost_everywhere"},
        }
        if promise is not None and measure.gradient in broken.get(promise, set()):
            text = f"{name} is declared {promise}, and measured as {measure.gradient}."
            advice = "Correct the declaration or the gradient."
            judged.append(Finding(Category.DECLARATION, Severity.ERROR, name, text, {}, None, advice))
    return judged
