"""The audit over every transform of ours: nothing above a note, and declarations that are true."""

import pytest

from pellucid.audit.finding import Severity
from tests.cases import CASES, IDS
from tests.gradient_table import TARGET, report_of, subject


# A transform is audited for seconds.
@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_audit_finds_nothing_above_a_note(case):
    report = report_of(case)
    assert not report.at_least(Severity.WARNING), str(report)


def test_the_published_table_says_what_is_declared():
    """Rows are read in the order of the cases; measurements are the machine's that wrote them."""
    lines = [line.split(" | ")[:3] for line in TARGET.read_text().splitlines() if line.startswith("|")][2:]
    published = [(name.strip("| ").strip(), argument, declared) for name, argument, declared in lines]
    expected = []
    for case in CASES:
        _, inputs, _ = subject(case)
        names = [case.name] + [""] * (len(inputs) - 1)
        expected += [(name, argument, case.transform.gradients[argument]) for name, argument in zip(names, inputs, strict=True)]
    assert published == expected, "run make tables"
