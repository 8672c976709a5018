"""The two entry points: ``audit`` a callable, or ``assert_clean`` in a test.

Owns: the order of the checks, the findings that a declaration excuses, and the assembly of the report.
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
from torch import Tensor, nn

from pellucid.audit.checks import agreement, compiled, conditions, degenerate, hazards, modes, smoke, variants
from pellucid.audit.context import Context
from pellucid.audit.finding import Category, Evidence, Finding, Measure, Severity, Sink
from pellucid.audit.isolate import GIVEN, Stage, can_isolate, run_here, run_isolated
from pellucid.audit.place import code_place, storing_place
from pellucid.audit.report import AuditReport
from pellucid.audit.settings import Settings
from pellucid.audit.subject import Subject
from pellucid.core.recording import check_recording
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
    """Audit a callable: find out where its gradients are right, wrong or lost.

    Args:
        fn: Any callable on tensors, an ``nn.Module``, or an object with ``draw`` and ``apply`` (its draws are replayed).
        inputs: One tensor, a tuple of positional arguments, or a dict of keyword arguments. Small inputs suffice: 2x3x16x16.
        params: Leaf tensors the callable reads besides its arguments, by name. By default they are searched for.
        name: The subject's name in the report.
        settings: How thorough to be; single fields may be given as keywords instead (``compile=True``, ``declared={...}``).
        **options: Fields of :class:`Settings`.

    Returns:
        The findings, worst first, with the measurements of each input and parameter.

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
    check_recording("audit")
    began = time.perf_counter()
    subject = Subject(fn, inputs, params, seed=chosen.seed)
    sink = Sink()
    _warm()
    with subject.replay.preserved():
        context = Context(subject, chosen)
        stages = _stages(context, chosen)
        if chosen.isolate and can_isolate([*subject.base.values(), *subject.others.values()]):
            if not chosen.quick:
                stages.insert(0, ("calls in another order", partial(variants.order, context)))
            run_isolated(stages, sink, chosen.timeout, chosen.limit)
        else:
            run_here(stages, sink)
            subject.restore()
    _report_unjudged(subject, sink)
    _report_unregistered(subject, sink)
    findings = _judge([_placed(subject, f) for f in sink.findings], sink.measures, chosen)
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    seconds = time.perf_counter() - began
    return AuditReport(name or subject.name, findings, sink.measures, seconds, versions, sink.tried, chosen.budget)


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
        The report.

    Errors:
        AssertionError with the findings; InvalidArgument for a level that does not exist, and as :func:`audit`.

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
    """Make torch do its imports of first use once in the parent, so that children need not. Run no backward pass here."""
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.set_detect_anomaly(True, check_nan=False), torch.autograd.forward_ad.dual_level():
            torch.func.vmap(torch.sin)(x.detach())
            node = checkpoint(torch.sin, x, use_reentrant=False).grad_fn
            node.register_prehook(lambda _grads: None).remove()


def _stages(context: Context, settings: Settings) -> list[Stage]:
    stages: list[Stage] = [
        (GIVEN, partial(smoke.check, context)),
        *((f"hazards: {check.__name__}", partial(check, context)) for check in _HAZARDS),
        ("finite differences", partial(agreement.check, context)),
    ]
    if not settings.quick:
        stages += [(f"variants: {check.__name__}", partial(check, context)) for check in _VARIANTS]
        stages += [(f"conditions: {check.__name__}", partial(check, context)) for check in _CONDITIONS]
    if settings.modes:
        stages.append(("other modes", partial(modes.check, context)))
    if settings.compile:
        stages.append(("compile", partial(compiled.check, context)))
    if settings.degenerate:
        stages.append(("degenerate inputs", partial(degenerate.check, context)))
        stages += [(f"NaN in {leaf}", partial(degenerate.poison, context, leaf)) for leaf in context.subject.inputs]
    return stages


def _report_unjudged(subject: Subject, sink: Sink) -> None:
    """Warn of leaves that got no verdict, unless an error already says why."""
    stopped = any(f.severity == Severity.ERROR and (f.subject == "call" or f.category == Category.CRASH) for f in sink.findings)
    reported = {f.subject for f in sink.findings if f.category == Category.UNJUDGED}
    open_ = [k for k in subject.judged if subject.base[k].numel()]
    open_ = [k for k in open_ if k not in sink.measures or sink.measures[k].gradient == "unknown"]
    open_ = [k for k in open_ if k not in reported]
    if open_ and not stopped and "call" not in reported:
        shown = ", ".join(open_[:_SHOWN]) + (f" and {len(open_) - _SHOWN} more" if len(open_) > _SHOWN else "")
        text = f"The gradient of {shown} was not judged: the checks could not be completed."
        advice = "See the notes on errors; make the call work for repeated runs at nearby values."
        sink.emit(Finding(Category.UNJUDGED, Severity.WARNING, "call", text, {"leaves": len(open_)}, None, advice))


def _report_unregistered(subject: Subject, sink: Sink) -> None:
    """Warn of leaves that a module reads but has not registered: ``parameters()`` and ``to()`` miss them."""
    if subject.module is None or not subject.unnamed:
        return
    names = ", ".join(list(subject.unnamed)[:_SHOWN])
    text = f"The module uses {len(subject.unnamed)} leaf tensor(s) that are not among its parameters: {names}."
    advice = "Register them: nn.ModuleList or nn.ModuleDict instead of a list or dict, nn.Parameter instead of a tensor."
    evidence: dict[str, Evidence] = {"leaves": len(subject.unnamed)}
    sink.emit(Finding(Category.UNREGISTERED, Severity.WARNING, next(iter(subject.unnamed)), text, evidence, None, advice))


def _placed(subject: Subject, finding: Finding) -> Finding:
    """Add a line to findings that no event of a run explains: where the leaf is stored, or where the call keeps state."""
    if finding.place is not None or finding.category not in _KEPT:
        return finding
    fn = subject.fn.func if isinstance(subject.fn, partial) else subject.fn
    body = fn if hasattr(fn, "__code__") else getattr(type(fn), "forward" if isinstance(fn, nn.Module) else "__call__", None)
    if finding.category != Category.STATE and subject.module is not None:
        place = storing_place(type(subject.module).__init__, finding.subject.split(".")[0])
    else:
        place = storing_place(body)
    return dataclasses.replace(finding, place=place or code_place(body))


_SHOWN = 5
_KEPT = {Category.STALE, Category.STATE, Category.UNREGISTERED}
_VARIANTS = (
    variants.layouts,
    variants.outputs,
    variants.second_call,
    variants.other_shapes,
    variants.other_sign,
    variants.other_mode,
)
_CONDITIONS = (conditions.digits, conditions.subsets, conditions.sizes, conditions.ranges)
_HAZARDS = (hazards.writes, hazards.traced, hazards.repeats, hazards.redraws, hazards.drift, hazards.downcasts)
_EXCUSED = {
    "none": {Category.DETACHED, Category.COVERAGE, Category.JUMP, Category.SURROGATE, Category.NO_EFFECT},
    "surrogate": {Category.DETACHED, Category.WRONG, Category.SURROGATE, Category.JUMP},
    "almost_everywhere": set[Category](),
    "exact": set[Category](),
}


def _judge(findings: list[Finding], measures: Mapping[str, Measure], settings: Settings) -> list[Finding]:
    """Compare findings with declarations: a declared defect becomes a note, a broken promise a finding of its own."""
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
