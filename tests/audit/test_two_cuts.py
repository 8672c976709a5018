"""Where two places cut the gradient, each line is named, and no other."""

import pytest
from two_cuts import CUTS

EVERY = 24


@pytest.mark.sampled(EVERY)
@pytest.mark.parametrize("two", CUTS, ids=lambda two: two.name)
def test_both_lines_are_named(two):
    report = two.audit()
    assert two.named(report) == two.lines, str(report)


def test_every_case_has_two_lines_or_two_cuts_on_one():
    assert len(CUTS) >= 100
    assert all(two.lines for two in CUTS)
