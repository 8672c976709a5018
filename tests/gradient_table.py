"""The table of declared and measured gradients: ``python -m tests.gradient_table`` writes docs/gradients.md.

Owns: every transform as a case for the audit.
Must not: declare anything; the transforms do.
Read next: ``audit/test_transforms.py``.
"""

from pathlib import Path

import torch

from pellucid.audit import AuditReport, audit
from pellucid.audit.table import table
from tests.cases import CASES, Case, images, pipeline, smooth_record

TARGET = Path(__file__).parent.parent / "docs" / "gradients.md"
INTRO = """# Gradients, declared and measured

Look up which gradient a transform has. Each declares, as data (`transform.gradients`), the gradient to the image and to each drawn
value: `exact`, `almost_everywhere` (one-sided at kinks), `surrogate: <name>` or `none`. The gradient audit measured all of them, on
2 x 3 x 8 x 8 images in float64: *measured* is its verdict, *coverage* the share of elements with a gradient (crops and
half-open flips leave pixels out), *error* the largest relative difference from finite differences. The audit calls a surrogate
`surrogate` (the output is a staircase) or `wrong` (it is not the derivative of the function), as declared.
A test fails if a declaration and its measurement differ, or if any finding is above a note.

Written by `python -m tests.gradient_table`.

"""


def subject(case: Case):
    """A function of the image and every continuous drawn value, its inputs, and what is declared of them."""
    x = images(case, batch=2)
    x = x if case.size is not None else x[..., :8, :8].clone()
    augment = pipeline(case)
    record = smooth_record(case, x)
    names = [name for name, value in record.params[0].items() if value.is_floating_point()]

    def apply(image, **values):
        replayed = record
        for name, value in values.items():
            replayed = replayed.with_param(0, name, value.to(torch.float64))
        return augment.apply(image, replayed)

    inputs = {"image": x, **{name: record.params[0][name].detach().clone() for name in names}}
    declared = {name: kind.split(":")[0] for name, kind in case.transform.gradients.items() if name in inputs}
    return apply, inputs, declared


def report_of(case: Case) -> AuditReport:
    apply, inputs, declared = subject(case)
    return audit(apply, inputs, name=case.name, declared=declared, quick=True)  # shapes and modes have contract tests


def main() -> None:
    promises = [case.transform.gradients for case in CASES]
    TARGET.write_text(INTRO + table([report_of(case) for case in CASES], promises) + "\n")


if __name__ == "__main__":
    main()
