"""One finding of an audit: its category, its severity, and the measurements beside it.

Owns: the vocabulary (categories, severities) and the plain values that checks emit and reports render.
Must not: run anything, or know how a finding was reached or how it will be drawn.
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
    """How bad: an error is a wrong or lost gradient, a warning will become one, a note is worth knowing."""

    NOTE = 0
    WARNING = 1
    ERROR = 2

    @property
    def label(self) -> str:
        """The word users see.

        Example:
            >>> from pellucid.audit import Severity
            >>> Severity.ERROR.label
            'error'
        """
        return self.name.lower()


class Category(StrEnum):
    """The kind of a finding. The strings are public: ``allow=`` and the JSON use them."""

    COVERAGE = "coverage"  # elements without gradient
    DETACHED = "detached"  # takes part, no autograd path (or part of the path is cut)
    WRONG = "wrong"  # finite differences disagree with autograd
    UNJUDGED = "unjudged"  # nothing can be said about a gradient
    LAYOUT = "layout"  # another memory layout of input or output gradient changes the gradient
    SHAPE = "shape"  # another batch size, height or width makes it wrong
    OUTPUTS = "outputs"  # one output alone has another gradient than its share
    STATE = "state"  # a second call before backward changes the gradient
    KINK = "kink"  # one-sided derivatives differ at the given point
    JUMP = "jump"  # the function is discontinuous or a staircase
    SURROGATE = "surrogate"  # a staircase with a non-zero gradient
    NON_FINITE = "non-finite"  # NaN or inf in backward
    GAIN = "gain"  # gradient explodes on flat inputs
    NO_EFFECT = "no-effect"  # an input or output without influence
    UNREGISTERED = "unregistered"  # a leaf that a module reads and no optimiser is given
    UNMOVED = "unmoved"  # a parameter with a gradient that no step of a training moves
    ACCUMULATED = "accumulated"  # a gradient that a training never clears
    STALE = "stale"  # a parameter whose update does not change the output
    IN_PLACE = "in-place"  # writes to an input, a parameter, or a saved tensor
    STRIDE_0 = "stride-0"  # writes through an expanded view
    ALIAS = "alias"  # the output shares memory with an input
    DATA_WRITE = "data-write"  # writes behind autograd's back
    RNG_RECOMPUTE = "rng-recompute"  # random numbers drawn again in backward
    NONDETERMINISM = "nondeterminism"  # two identical runs differ
    RANDOM = "random"  # draws from the global generator
    PRECISION = "precision"  # half or bfloat16 inside a call of more digits
    DRIFT = "drift"  # dtype or device of the output is not the input's
    HOST_READ = "host-read"  # a tensor's value decides what Python does next
    RAISES = "raises"  # forward or backward raises
    CRASH = "crash"  # the process died, or was stopped
    PRINTED = "printed"  # the call prints more than is shown
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
        severity: How bad.
        subject: Which input, parameter or whole callable it is about.
        message: The observation, in one sentence.
        evidence: The numbers behind the message.
        place: ``file:line`` of the operation, where it could be told.
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
        kind: input or parameter.
        shape: of it.
        gradient: the verdict in the words of a declaration: ``exact``, ``almost_everywhere``, ``surrogate``, ``none``, or ``wrong``
            where finite differences disagree, ``unverified`` where they agree to fewer digits than float64 has, ``unknown`` where
            nothing can be said.
        coverage: the share of its elements that take part, in [0, 1].
        seen, reachable, antialiased: of a picture, how many elements have a gradient, lie in the footprint of some sample, also
            where a weight happens to be zero, and would have a gradient with ``antialias=``; None where that is not known.
        error: the largest relative difference between gradient and finite differences.
        precision, tolerance: to which digits it was compared.
        modes: the other modes that were tried (forward mode, vmap, ...), and how each went.
        pairs: (gradient, finite difference) of single elements.
        magnitude: of the gradient, one number per element.
        state: a class per element: 0 does not take part, 1 plateau (takes part, locally flat), 2 live, 3 defect.

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
        """Of all elements: seen, reachable, antialiased.

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
    """Collects the findings of the checks; the isolated run streams the same calls through a pipe."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.measures: dict[str, Measure] = {}
        self.tried: dict[str, float] = {}  # further conditions, with the processor seconds that each took
        self.progress = ""

    def emit(self, finding: Finding) -> None:
        """Keep a finding, once."""
        if finding not in self.findings:
            self.findings.append(finding)

    def measure(self, name: str, measure: Measure) -> None:
        """Keep the measurements of one leaf."""
        self.measures[name] = measure

    def mark(self, what: str) -> None:
        """Announce the next check, so that a crash can be blamed on it."""
        self.progress = what


def _plain(value: Evidence) -> Evidence:
    """Spell out the floats that JSON has no literal for."""
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value
