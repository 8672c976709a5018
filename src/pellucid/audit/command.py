"""What the command line runs: resolve a target, audit it, print or write the report, return the exit code.

Owns: the plain function behind ``pellucid audit``.
Must not: parse ``sys.argv`` or depend on a command-line library.
Read next: ``spec.py``, ``run.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from json import dumps
from pathlib import Path

from pellucid.audit.finding import Severity
from pellucid.audit.run import audit
from pellucid.audit.spec import parse_inputs, resolve
from pellucid.errors import invalid

__all__ = ["run_audit", "run_watch"]


def run_audit(
    target: str,
    inputs: str | None = None,
    output: Path | None = None,
    json: bool = False,
    *,
    compile: bool = False,  # noqa: A002 - the name users know
    backend: str = "aot_eager",
    declared: str | None = None,
    allow: Sequence[str] = (),
    level: str = "note",
    isolate: bool = True,
    seed: int = 0,
    quick: bool = False,
    budget: float = 10.0,
    waiting: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> int:
    """Audit ``module:function`` and return 0 (clean), 1 (warnings) or 2 (errors).

    Args:
        target: ``module:function``, ``module:Class(literal arguments)`` or ``file.py:function``.
        inputs: A specification such as ``2x3x16x16`` or ``x=2x3x16x16,angle=scalar``
            (:func:`~pellucid.audit.spec.parse_inputs`).
        output: Where to write the report: ``.html`` or ``.json`` by its suffix.
        json: Print JSON instead of the tables.
        compile: Also compile (seconds instead of tenths).
        backend: The compiler backend.
        declared: What the author promises: ``x=exact,p=surrogate``.
        allow: Findings to leave out: ``category`` or ``category:subject``.
        level: The mildest severity to show.
        isolate: Run in a child process.
        seed: For inputs and for every generator.
        quick: Leave out other layouts, shapes, signs, modes and further conditions.
        budget: Processor seconds for further conditions.
        waiting: Entered while the audit runs, with what is being done.
    """
    words = {s.label: s for s in Severity}
    if level not in words:
        raise invalid("level", expected=f"one of {', '.join(words)}", got=repr(level))
    _check(output)
    promises = {k.strip(): v.strip() for k, _, v in (item.partition("=") for item in (declared or "").split(",") if item.strip())}
    subject, values = resolve(target), parse_inputs(inputs, seed)
    with waiting(f"Auditing {target}"):
        report = audit(
            subject,
            values,
            name=target,
            compile=compile,
            backend=backend,
            declared=promises,
            isolate=isolate,
            seed=seed,
            quick=quick,
            budget=budget,
        )
    report.findings = [f for f in report.without(allow) if f.severity >= words[level]]
    if output is not None and output.suffix == ".json":
        report.to_json(output)
    elif output is not None:
        report.to_html(output)
    if json:
        print(report.to_json())
    else:
        from pellucid.audit.terminal import show

        show(report)
    return report.exit_code


def run_watch(target: str, steps: int = 10, output: Path | None = None, json: bool = False) -> int:
    """Watch some steps of ``file.py:train_step`` and return 0 (all parameters learn), 1 (warnings) or 2 (errors)."""
    from pellucid.audit.watch import watch_training

    _check(output)
    report = watch_training(resolve(target), steps, name=target)
    if output is not None and output.suffix == ".json":
        report.to_json(output)
    elif output is not None:
        report.to_html(output)
    print(dumps(report.to_dict(), indent=2) if json else report)
    return report.exit_code


def _check(output: Path | None) -> None:
    if output is not None and output.suffix not in {".html", ".json"}:
        raise invalid("output", expected="a path that ends in .html or .json", got=str(output))
