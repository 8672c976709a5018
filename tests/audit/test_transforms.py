"""The audit over every transform of ours: nothing above a note, and declarations that are true."""

import pytest
from tests.cases import CASES, IDS
from tests.gradient_table import TARGET, report_of

from pellucid.audit.finding import Severity


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_audit_finds_nothing_above_a_note(case):
    report = report_of(case)
    assert not report.at_least(Severity.WARNING), str(report)


def test_the_published_table_names_every_transform():
    text = TARGET.read_text()
    for case in CASES:
        assert f"| {case.name} | image |" in text, f"{case.name} is missing: run python -m tests.gradient_table"
