"""Watch a few steps of a user's training: which parameters learn, which never do, where gradients vanish, whether runs repeat.

Owns: hooks on every parameter in reach of a step, the findings from them, and the report with a plot per layer.
Must not: change the training; it runs in forked children, so the caller's model does not change.
Read next: ``reach.py`` (how parameters are found), ``report.py``.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from pellucid.audit.finding import Category, Finding, Severity
from pellucid.audit.isolate import fresh_value
from pellucid.audit.reach import held, held_leaves
from pellucid.audit.replay import Replay
from pellucid.audit.report import Reported
from pellucid.errors import invalid, wrong_type

__all__ = ["TrainingReport", "watch_training"]

_VANISHED = 1e-7  # share of the largest layer's gradient
_CANCELLED = 1e-4  # share of the weight's gradient: rounding alone gives this to a bias that a normalisation subtracts
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_DECADES = 12.0


@dataclass
class TrainingReport(Reported):
    """The gradients of every parameter in a few training steps, and the defects found.

    Args:
        name: the training's name.
        gradients: for each parameter one norm per step; None where no gradient came.
        losses: the loss of each step.
        findings: all defects that were seen, the worst first.

    Example:
        >>> from pellucid.audit import TrainingReport
        >>> report = TrainingReport("net", {"weight": [1.0, 0.5]}, losses=[2.0, 1.0])
        >>> report.exit_code, report.to_dict()["gradients"]
        (0, {'weight': [1.0, 0.5]})
    """

    name: str
    gradients: dict[str, list[float | None]]
    losses: list[float] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        """The findings, then one line per parameter: its gradient's size on a logarithmic scale, step by step."""
        lines = [f"{self.name}: {len(self.findings)} finding(s)"]
        lines += [f"  {f.severity.label:7} {f.category} ({f.subject}): {f.message} {f.advice}".rstrip() for f in self.findings]
        width = max((len(n) for n in self.gradients), default=0)
        for name, norms in self.gradients.items():
            bars = "".join(("!" if n is not None and (not math.isfinite(n)) else _EIGHTHS[round(8 * _height(n))]) for n in norms)
            lines.append(f"  {name:{width}} |{bars}| {_middle(norms):.1e}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that ``json`` accepts."""
        plain = {k: [None if n is None else n if math.isfinite(n) else str(n) for n in v] for k, v in self.gradients.items()}
        return {
            "name": self.name,
            "exit_code": self.exit_code,
            "losses": [x if math.isfinite(x) else str(x) for x in self.losses],
            "gradients": plain,
            "findings": [f.to_dict() for f in self.findings],
        }

    def _page(self) -> str:
        """The findings, and the gradient's size over the layers and the steps."""
        rows = "".join(
            f"<tr><td><code>{escape(name)}</code></td><td>{_middle(norms):.1e}</td><td>{_plot(norms)}</td></tr>"
            for name, norms in self.gradients.items()
        )
        items = "".join(
            f"<li><b>{f.severity.label} {f.category}</b> {escape(f.subject)}: {escape(f.message)} {escape(f.advice)}</li>"
            for f in self.findings
        )
        style = "body{font:15px/1.5 system-ui;margin:2rem auto;max-width:62rem}td{padding:.1rem .6rem}rect{fill:#2670c4}"
        return (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Training of {escape(self.name)}</title>'
            f"<style>{style}</style><h1>Training of {escape(self.name)}</h1><ul>{items or '<li>Nothing found.</li>'}</ul>"
            f"<table><tr><th>parameter</th><th>gradient</th><th>per step, logarithmic</th></tr>{rows}</table></html>\n"
        )


def watch_training(
    step: Callable[[], Any], steps: int = 10, *, name: str | None = None, seed: int = 0, patience: float = 600.0
) -> TrainingReport:
    """Run some steps of a training loop and report every parameter's gradient.

    Args:
        step: A callable without arguments that does one training step, with backward and update. Its model is searched for in its
            closure, attributes and globals. It may return the loss.
        steps: How many steps to run.
        name: The training's name in the report.
        seed: Every generator starts from it.
        patience: Seconds the steps may take.

    Returns:
        A report with the gradient's norm per parameter and step. It finds parameters whose gradient is missing, NaN, zero or tiny
        beside the other layers', those that have a gradient and never change, and those whose gradient is never cleared; and it
        finds a difference between two runs from the same state and seed.

    Errors:
        ``InvalidArgument`` where no parameter is in reach of ``step``, or ``steps`` is not positive.

    Example:
        >>> import torch
        >>> from pellucid.audit import watch_training
        >>> net = torch.nn.Linear(3, 1)
        >>> sgd = torch.optim.SGD(net.parameters(), lr=0.1)
        >>> def step():
        ...     sgd.zero_grad()
        ...     net(torch.rand(8, 3)).square().mean().backward()
        ...     sgd.step()
        >>> watch_training(step, 3).exit_code
        0
    """
    if not callable(step):
        raise wrong_type("step", expected="a callable without arguments that does one training step", got=type(step).__name__)
    if steps < 1:
        raise invalid("steps", expected="at least 1", got=steps)
    if not held_leaves(step):
        text = "Keep the model in a global, a closure or an attribute of the step."
        raise invalid("step", expected="a function that reads a model with parameters", got="none in reach", fix=text)
    title = name or str(getattr(step, "__qualname__", type(step).__name__))
    first, second = (fresh_value(lambda: _run(step, steps, seed), patience) for _ in range(2))
    if first is None or second is None:
        text = "The training died or hung before all steps were done."
        return TrainingReport(title, {}, [], [Finding(Category.CRASH, Severity.ERROR, "step", text)])
    gradients, losses, error = first.norms, first.losses, first.error
    findings = [_raised(error)] if error else [*_findings(gradients, steps), *_unmoved(first, steps)]
    parted = _parting(first, second)
    if parted is not None:
        text = f"Two runs from the same state and seed differ from step {parted} on."
        advice = "Seed every generator (workers of a DataLoader, too), and look for nondeterministic kernels."
        findings.append(Finding(Category.NONDETERMINISM, Severity.WARNING, "step", text, {"step": parted}, None, advice))
    return TrainingReport(title, gradients, losses, findings)


@dataclass
class _Seen:
    """The record of one run: norms of gradients, losses, the updates of each parameter, and the error, if any."""

    norms: dict[str, list[float | None]]
    updates: dict[str, _Update]
    losses: list[float] = field(default_factory=list)
    error: str = ""


@dataclass
class _Update:
    """The updates of one parameter, step by step."""

    rates: list[float]  # learning rates in the optimisers that hold it
    optimisers: int  # number of optimisers in reach of the step
    moved: list[bool] = field(default_factory=list)  # whether the step changed it
    kept: list[bool] = field(default_factory=list)  # whether it still had a gradient when the next one arrived
    cleared: bool = True  # whether no gradient was left after any step


def _run(step: Callable[[], Any], steps: int, seed: int) -> _Seen:
    """Run the steps with a hook on every parameter."""
    Replay(step, seed).rewind()
    params = held_leaves(step)
    optimisers = [o for _, o in held(step) if isinstance(o, Optimizer)]
    rates: dict[int, list[float]] = {}
    for group in (g for o in optimisers for g in o.param_groups):
        for p in group["params"]:
            rates.setdefault(id(p), []).append(float(group.get("lr", math.nan)))
    seen = _Seen({k: [] for k in params}, {k: _Update(rates.get(id(p), []), len(optimisers)) for k, p in params.items()})
    now: dict[str, float] = {}

    def look(key: str, p: Tensor, g: Tensor) -> None:
        if key not in now:
            seen.updates[key].kept.append(p.grad is not None and bool((p.grad != 0).any()))
        now[key] = now.get(key, 0.0) + float(g.detach().double().norm())

    for key, p in params.items():
        p.register_hook(partial(look, key, p))
    try:
        for _ in range(steps):
            now.clear()
            before = {k: p.detach().clone() for k, p in params.items()}
            result = step()
            with contextlib.suppress(TypeError, ValueError, RuntimeError):
                seen.losses.append(float(result.detach() if isinstance(result, Tensor) else result))
            for key, p in params.items():
                seen.norms[key].append(now.get(key))
                update = seen.updates[key]
                update.moved.append(not torch.equal(before[key], p.detach()))
                update.cleared &= p.grad is None or not bool((p.grad != 0).any())
    except Exception as error:  # becomes a finding
        seen.error = f"{type(error).__name__}: {str(error)[:300]}"
    return seen


def _unmoved(seen: _Seen, steps: int) -> list[Finding]:
    """Report parameters that have a gradient and never change, and parameters whose gradient is never cleared between updates."""
    findings = []
    largest = max((_middle(n) for n in seen.norms.values()), default=0.0)
    for name, update in seen.updates.items():
        norm = _middle(seen.norms[name])
        if not norm > _CANCELLED * largest:
            continue
        if not any(update.moved):
            text = f"{name} has a gradient and did not change in {steps} steps: {_reason(update)}."
            advice = "Give it to the optimiser, and update between backward and zero_grad; freeze it if that is meant."
            findings.append(Finding(Category.UNMOVED, Severity.ERROR, name, text, {"norm": norm}, None, advice))
        stepped = [kept for moved, kept in zip(update.moved, update.kept[1:], strict=False) if moved]
        if len(update.kept) == steps and len(stepped) > 1 and all(stepped):
            text = f"The gradient of {name} is never cleared: every update adds the gradients of all steps before it."
            advice = "Call zero_grad() once for every update."
            findings.append(Finding(Category.ACCUMULATED, Severity.ERROR, name, text, {"updates": len(stepped)}, None, advice))
    return findings


def _reason(update: _Update) -> str:
    if update.optimisers and not update.rates:
        return "no optimiser in reach of the step holds it"
    if update.rates and not any(update.rates):
        return "its learning rate is 0"
    if update.cleared:
        return "its gradient is cleared within the step, perhaps before the update"
    return "no update came, or updates were smaller than its rounding"


def _raised(error: str) -> Finding:
    return Finding(Category.RAISES, Severity.ERROR, "step", f"The training step raises {error}", {}, None, "Make it run first.")


def _findings(gradients: dict[str, list[float | None]], steps: int) -> list[Finding]:
    findings = []
    bad = {k: [i for i, n in enumerate(v) if n is not None and not math.isfinite(n)] for k, v in gradients.items()}
    spoilt = {k: at[0] for k, at in bad.items() if at}
    start = min(spoilt.values(), default=0)
    largest = max((_middle(n) for n in gradients.values()), default=0.0)
    for name, norms in gradients.items():
        came = [n for n in norms if n is not None]
        if not came:
            text = f"{name} never got a gradient in {steps} steps."
            advice = "It is unused, detached, or hidden from backward; freeze it if that is meant."
            findings.append(Finding(Category.DETACHED, Severity.ERROR, name, text, {"steps": steps}, None, advice))
        elif spoilt.get(name) == start:
            text = f"The gradient of {name} is NaN or infinite from step {start} on."
            advice = "Audit the loss on the inputs of that step."
            findings.append(Finding(Category.NON_FINITE, Severity.ERROR, name, text, {"step": start}, None, advice))
        elif all(n == 0 for n in came):
            text = f"The gradient of {name} is exactly 0 in every step."
            advice = "Look for a clamp after it, a factor of zero, or a unit that never fires."
            findings.append(Finding(Category.COVERAGE, Severity.WARNING, name, text, {"steps": len(came)}, None, advice))
        elif name.endswith("bias") and _middle(norms) < _CANCELLED * _middle(gradients.get(f"{name[:-4]}weight", [])):
            text = f"The gradient of {name} is rounding beside its weight's: a later layer cancels it, as a normalisation does."
            advice = "Harmless; bias=False removes it."
            findings.append(Finding(Category.COVERAGE, Severity.NOTE, name, text, {"norm": _middle(norms)}, None, advice))
        elif largest > 0 and _middle(norms) < _VANISHED * largest:
            text = f"The gradient of {name} nearly vanishes: {_middle(norms):.1e}; the largest of any layer is {largest:.1e}."
            advice = "Look between the two for saturation, a factor of zero, or missing residual connections."
            findings.append(Finding(Category.COVERAGE, Severity.WARNING, name, text, {"norm": _middle(norms)}, None, advice))
    later = {k: step for k, step in spoilt.items() if step > start}
    if later:
        name, step = min(later.items(), key=lambda item: item[1])
        text = f"The gradient of {name} and of {len(later) - 1} other parameters is NaN or infinite later, from step {step} on."
        advice = "Most likely an update spread it: repair the parameter that was named first."
        findings.append(Finding(Category.NON_FINITE, Severity.ERROR, name, text, {"step": step}, None, advice))
    return findings


def _parting(first: _Seen, second: _Seen) -> int | None:
    """Return the first step at which two runs differ by more than rounding."""
    for index in range(max((len(v) for v in first.norms.values()), default=0)):
        for key, norms in first.norms.items():
            a, b = norms[index], (second.norms.get(key) or [None] * (index + 1))[index]
            if (a is None) != (b is None):
                return index
            if a is not None and b is not None and math.isfinite(a) and abs(a - b) > 1e-6 * max(abs(a), abs(b)):
                return index
    return None


def _middle(norms: list[float | None]) -> float:
    came = sorted(n for n in norms if n is not None and math.isfinite(n))
    return came[len(came) // 2] if came else 0.0


def _height(norm: float | None) -> float:
    """Map 1e-10 to 0 and 1e2 to 1."""
    if norm is None or not norm > 0:
        return 0.0
    return min(1.0, max(0.0, (math.log10(norm) + 10) / _DECADES)) if math.isfinite(norm) else 1.0


def _plot(norms: list[float | None]) -> str:
    bars = "".join(
        f'<rect x="{6 * i}" y="{24 - 24 * _height(n):.1f}" width="5" height="{24 * _height(n):.1f}"/>' for i, n in enumerate(norms)
    )
    return f'<svg width="{6 * len(norms)}" height="24" role="img">{bars}</svg>'
