"""One finding of an audit: its category, its severity, and the measurements beside it.

Owns: the vocabulary (categories, severities) and the plain values that checks emit and reports render.
Must not: run anything, or know how findings are made or displayed.
Read next: ``report.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np

__all__ = ["Category", "Evidence", "Finding", "Measure", "Severity", "Sink"]

Evidence = float | int | str | bool


class Severity(IntEnum):
    """How bad a finding is: an error is a wrong or lost gradient, a warning may become one, a note is for information."""

    NOTE = 0
    WARNING = 1
    ERROR = 2

    @property
    def label(self) -> str:
        """The severity in lower case, as reports print it.

        Example:
            >>> from pellucid.audit import Severity
            >>> Severity.ERROR.label
            'error'
        """
        return self.name.lower()


class Category(StrEnum):
    """The kind of a finding. The strings are public: ``allow=`` and the JSON use them."""

    COVERAGE = "coverage"  # elements without gradient
    DETACHED = "detached"  # affects the output, but autograd has no path (or part of the path is cut)
    WRONG = "wrong"  # finite differences disagree with autograd
    UNJUDGED = "unjudged"  # a gradient could not be checked
    LAYOUT = "layout"  # another memory layout of input or output gradient changes the gradient
    SHAPE = "shape"  # another batch size, height or width makes the gradient wrong
    OUTPUTS = "outputs"  # gradients of single outputs do not add up to the gradient of all
    STATE = "state"  # a second call before backward changes the gradient
    KINK = "kink"  # one-sided derivatives differ at the given point
    JUMP = "jump"  # the function is discontinuous or a staircase
    SURROGATE = "surrogate"  # a staircase with a non-zero gradient
    NON_FINITE = "non-finite"  # NaN or inf in backward
    GAIN = "gain"  # gradient explodes on flat inputs
    NO_EFFECT = "no-effect"  # an input or output without influence
    UNREGISTERED = "unregistered"  # a leaf that a module reads and does not own as a parameter
    UNMOVED = "unmoved"  # a parameter that has a gradient and that training never changes
    ACCUMULATED = "accumulated"  # a gradient that training never clears
    STALE = "stale"  # a parameter whose update does not change the output
    IN_PLACE = "in-place"  # writes to an input, a parameter, or a saved tensor
    STRIDE_0 = "stride-0"  # writes through an expanded view
    ALIAS = "alias"  # the output shares memory with an input
    DATA_WRITE = "data-write"  # writes behind autograd's back
    RNG_RECOMPUTE = "rng-recompute"  # random numbers drawn again in backward
    NONDETERMINISM = "nondeterminism"  # two identical runs differ
    RANDOM = "random"  # draws from the global generator
    PRECISION = "precision"  # half or bfloat16 inside a call of higher precision
    DRIFT = "drift"  # the output's dtype or device is not the input's
    HOST_READ = "host-read"  # a tensor's value decides what Python does next
    RAISES = "raises"  # forward or backward raises
    CRASH = "crash"  # the process died, or was stopped
    PRINTED = "printed"  # the call prints more than the audit passes on
    GRAPH_BREAK = "graph-break"
    RECOMPILE = "recompile"
    COMPILED_GRADIENT = "compiled-gradient"
    CHECKPOINT = "checkpoint"
    DOUBLE_BACKWARD = "double-backward"
    VMAP = "vmap"
    FORWARD_MODE = "forward-mode"
    DECLARATION = "declaration"  # declared and measured gradients differ


@dataclass(frozen=True)
class Finding:
    """One thing the audit found.

    Args:
        category: The kind of defect.
        severity: How bad it is.
        subject: The input or parameter that it is about, or the whole callable.
        message: The observation, in one sentence.
        evidence: The numbers behind the message.
        place: ``file:line`` of the operation, if it is known.
        advice: The remedy, in one sentence.

    Example:
        >>> from pellucid.audit import Category, Finding, Severity
        >>> finding = Finding(list(Category)[0], Severity.WARNING, "x", "No gradient arrives.")
        >>> finding.to_dict()["severity"], finding.severity.label
        ('warning', 'warning')
    """

    category: Category
    severity: Severity
    subject: str
    message: str
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    place: str | None = None
    advice: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that ``json`` accepts."""
        return {
            "category": str(self.category),
            "severity": self.severity.label,
            "subject": self.subject,
            "message": self.message,
            "evidence": {k: _plain(v) for k, v in self.evidence.items()},
            "place": self.place,
            "advice": self.advice,
        }


@dataclass
class Measure:
    """The measurements of one input or parameter, whatever the findings.

    Args:
        kind: ``input`` or ``parameter``.
        shape: its shape.
        gradient: the verdict: ``exact``, ``almost_everywhere``, ``surrogate`` or ``none`` as in a declaration; ``wrong`` if finite
            differences disagree, ``unverified`` if they agree to fewer digits than float64 has, ``unknown`` if it was not judged.
        coverage: the share of its elements that have a gradient, in [0, 1].
        seen, reachable, antialiased: for a picture, how many elements have a gradient; how many lie in the footprint of a sample,
            even with a weight of zero; how many would have a gradient with ``antialias=``. None where that is not known.
        error: the largest relative difference between gradient and finite differences.
        precision, tolerance: the precision of the comparison, and the relative difference that it accepts.
        modes: the other modes that were tried (forward mode, vmap, ...), and the outcome of each.
        pairs: (gradient, finite difference) along single directions.
        magnitude: the gradient's magnitude, one number per element.
        state: a class per element: 0 no effect, 1 plateau (has an effect, but is locally flat), 2 live, 3 defect.

    Example:
        >>> from pellucid.audit import Measure
        >>> Measure("input", (2, 3)).to_dict()["gradient"]
        'unknown'
    """

    kind: str
    shape: tuple[int, ...]
    gradient: str = "unknown"
    coverage: float = 0.0
    seen: int = 0
    reachable: int | None = None
    antialiased: int | None = None
    error: float = float("nan")
    precision: str = ""
    tolerance: float = float("nan")
    modes: dict[str, str] = field(default_factory=dict)
    pairs: list[tuple[float, float]] = field(default_factory=list)
    magnitude: np.ndarray[Any, Any] | None = None
    state: np.ndarray[Any, Any] | None = None

    @property
    def shares(self) -> tuple[float, float | None, float | None]:
        """The shares of all elements that are seen, reachable and antialiased.

        Example:
            >>> from pellucid.audit import Measure
            >>> Measure("input", (2, 4), coverage=0.5, seen=4, reachable=6).shares
            (0.5, 0.75, None)
        """
        count = max(1, math.prod(self.shape))
        near, far = (None if figure is None else figure / count for figure in (self.reachable, self.antialiased))
        return self.coverage, near, far

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that ``json`` accepts; pictures are left to the HTML report."""
        return {
            "kind": self.kind,
            "shape": list(self.shape),
            "gradient": self.gradient,
            "coverage": self.coverage,
            "seen": self.seen,
            "reachable": self.reachable,
            "antialiased": self.antialiased,
            "error": _plain(self.error),
            "precision": self.precision,
            "tolerance": _plain(self.tolerance),
            "modes": dict(self.modes),
            "pairs": [[_plain(a), _plain(d)] for a, d in self.pairs],
        }


class Sink:
    """Collects the findings of the checks; in an isolated run, a subclass sends them through a pipe."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.measures: dict[str, Measure] = {}
        self.tried: dict[str, float] = {}  # further conditions, with the processor seconds that each took
        self.progress = ""

    def emit(self, finding: Finding) -> None:
        """Keep a finding, unless an equal one was kept before."""
        if finding not in self.findings:
            self.findings.append(finding)

    def measure(self, name: str, measure: Measure) -> None:
        """Keep the measurements of one leaf."""
        self.measures[name] = measure

    def mark(self, what: str) -> None:
        """Announce the next check, so that a crash can be blamed on it."""
        self.progress = what


def _plain(value: Evidence) -> Evidence:
    """Turn NaN and infinity, which JSON has no literals for, into text."""
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value
