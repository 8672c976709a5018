"""The audit's acceptance corpus: planted bugs with the category and line expected, and clean functions.

Owns: the two lists, and the command that counts: ``python tests/audit/corpus.py``.
Must not: contain the functions themselves.
Read next: ``planted_*.py``, ``clean_functions.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import planted_gradients as g
import planted_hazards as h
import planted_singular as p
import second_batch as s
import torch
from clean_functions import CLEAN

from pellucid.audit import AuditReport, Severity, audit

X, GRID = g.X, torch.rand(2, 8, 8, 2, generator=torch.Generator().manual_seed(4)) * 2 - 1
P = torch.tensor(0.4)


@dataclass(frozen=True)
class Bug:
    """A callable with one defect.

    ``category`` may list several with "|"; ``line`` says whether the culprit's line can be told, ``culprit`` what marks it.
    """

    name: str
    make: Callable[[], object]
    inputs: object
    category: str
    subject: str | None = None
    line: bool = True
    options: dict = field(default_factory=dict)
    culprit: str | None = None

    def audit(self) -> AuditReport:
        return audit(self.make(), self.inputs, name=self.name, **self.options)

    def found(self, report: AuditReport, *, line: bool = True) -> bool:
        """Whether a warning or error names the category, the subject and (unless told otherwise) the line."""
        hits = [f for f in report.at_least(Severity.WARNING) if str(f.category) in self.category.split("|")]
        hits = [f for f in hits if self.subject in (None, f.subject)]
        return any(not (line and self.line) or (f.place or "").endswith(place_of(self.culprit or self.name)) for f in hits)


def place_of(name: str) -> str:
    """Return ``file.py:line`` of the line that carries ``# bug: name``."""
    folder = Path(__file__).parent
    for path in (Path(g.__file__), Path(p.__file__), Path(h.__file__), Path(s.__file__), *sorted(folder.glob("edition_*.py"))):
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if text.split("  # noqa")[0].rstrip().endswith(f"# bug: {name}"):
                return f"{path.name}:{number}"
    raise KeyError(name)


def _g(name: str, inputs: object, category: str, subject: str | None = None, **more: object) -> Bug:
    return Bug(name, lambda: getattr(g, name), inputs, category, subject, **more)


def _p(name: str, inputs: object, category: str, subject: str | None = None, **more: object) -> Bug:
    return Bug(name, lambda: getattr(p, name), inputs, category, subject, **more)


def _h(name: str, inputs: object, category: str, subject: str | None = None, **more: object) -> Bug:
    return Bug(name, lambda: getattr(h, name), inputs, category, subject, **more)


COMPILE = {"compile": True}

BUGS = [
    _g("detached_matrix", (X, g.ANGLE), "detached", "angle"),
    _g("rebuilt_matrix", (X, g.ANGLE), "detached", "angle"),
    _g("item_angle", (X, g.ANGLE), "detached", "angle"),
    _g("numpy_round_trip", X, "detached", "x"),
    _g("no_grad_gain", (X, g.GAIN), "detached", "gain"),
    _g("long_index", (X, torch.rand(20, 2) * 15), "detached", "coords"),
    _g("hard_sampled_probability", (X, P), "detached", "p"),
    _g("bernoulli_gate", (X, P), "detached", "p"),
    _g("posterize_by_cast", X, "detached", "x"),
    _g("detached_statistics", X, "detached", "x"),
    _g("straight_through_none", X, "detached"),
    _g("wrong_sign", X, "wrong"),
    _g("transposed_matrix", (X, torch.rand(3, 3)), "wrong", "x"),
    _g("zero_backward", X, "coverage"),
    _g("lost_factor", X, "wrong"),
    _g("wrong_in_hidden_float32", X, "wrong"),
    _g("mean_for_sum", (X, g.GAIN), "wrong", "gain"),
    _g("registered_wrong_sign", X, "wrong", "x"),
    _g("masked_by_hook", X, "coverage", "x", line=False),
    _g("frozen_double_backward", X, "double-backward"),
    _g("wrong_tangent", X, "forward-mode"),
    _g("silent_zero_tangent", X, "forward-mode", "x"),
    _p("gamma_at_black", X, "non-finite", "x"),
    _p("distance_to_itself", X, "non-finite", "x"),
    _p("whitening_by_eigh", X, "non-finite", "x"),
    _p("hue_at_grey", X, "non-finite", "x"),
    _p("stretch_guarded_output", X, "non-finite", "x"),
    _p("angle_at_saturation", X, "non-finite", "x"),
    _p("tiny_eps_in_half", X, "non-finite", "x"),
    _p("flat_patch_std", X, "gain", "x"),
    _p("flat_patch_rsqrt", X, "gain", "x"),
    Bug("stale_range", p.StaleRange, X, "stale", "high", line=False),
    Bug("stale_kernel", p.StaleKernel, X, "stale", "sigma", line=False),
    Bug("unused_parameter", h.UnusedParameter, X, "stale", "forgotten", line=False),
    _h("clamps_its_input", X, "in-place", "x"),
    _h("writes_through_numpy", X, "in-place", "x"),
    _h("normalizes_in_place", X, "in-place", "x"),
    _h("overwrites_saved_output", X, "in-place"),
    _h("scales_unbound_rows", X, "in-place"),
    _h("data_clamp", X, "data-write", "x"),
    _h("detached_alias_write", X, "data-write", "x"),
    Bug("clamped_parameter", h.ClampedParameter, X, "data-write", "strength"),
    _h("expand_then_write", X, "stride-0", "x"),
    _h("generator_in_checkpoint", X, "rng-recompute"),
    _h("numpy_in_checkpoint", X, "rng-recompute"),
    _h("unpreserved_state", X, "rng-recompute"),
    _h("hidden_generator", X, "checkpoint", line=False),
    _h("fresh_generator", X, "nondeterminism"),
    Bug("counts_calls", h.CountsCalls, X, "nondeterminism", line=False),
    _h("hard_coded_float32", X, "drift"),
    _h("numpy_constant_float64", X, "drift"),
    _h("branch_on_value", X, "host-read", "x"),
    _h("nan_grid_with_border", (X, GRID), "crash"),
    Bug("branch_on_value", lambda: h.branch_on_value, X, "graph-break", options=COMPILE),
    _h("steps_from_value", X, "graph-break", options=COMPILE),
    _h("prints", X, "graph-break", options=COMPILE),
    _h("loops_over_batch", X, "recompile", line=False, options=COMPILE),
]


SECOND = [Bug(name, make, inputs, category, line=line) for name, make, inputs, category, line in s.SECOND_BUGS]


def score(bugs: list[Bug], clean: list) -> str:
    """Return the two numbers as a sentence."""
    missed = [bug.name for bug in bugs if not bug.found(bug.audit())]
    alarms = [one.name for one in clean if audit(one.make(), one.inputs, name=one.name, **one.options).exit_code > 0]
    found = f"planted bugs found: {len(bugs) - len(missed)} of {len(bugs)}"
    return "; ".join([found, f"clean functions with a false alarm: {len(alarms)} of {len(clean)}", *missed, *alarms])


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("corpus:", score(BUGS, CLEAN))
    print("second batch:", score(SECOND, s.SECOND_CLEAN))
