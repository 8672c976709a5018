"""The acceptance test: every planted bug is found with its category and line, no clean function raises an alarm."""

import pytest
from clean_functions import CLEAN
from corpus import BUGS, SECOND
from second_batch import SECOND_CLEAN

from pellucid.audit import audit

EVERY = 6


def slow(second):
    """The second batch, for the long run."""
    return [pytest.param(one, marks=pytest.mark.slow) for one in second]


@pytest.mark.sampled(EVERY)
@pytest.mark.parametrize("bug", [*BUGS, *slow(SECOND)], ids=lambda bug: f"{bug.name}-{bug.category}")
def test_planted_bug_is_found(bug):
    report = bug.audit()
    assert bug.found(report), f"expected {bug.category}:\n{report}"


@pytest.mark.sampled(EVERY)
@pytest.mark.parametrize("clean", [*CLEAN, *slow(SECOND_CLEAN)], ids=lambda clean: clean.name)
def test_clean_function_raises_no_alarm(clean):
    report = audit(clean.make(), clean.inputs, name=clean.name)
    assert report.exit_code == 0, str(report)


# torch.compile refuses LSTM layers unless told otherwise: that finding is true.
@pytest.mark.parametrize("clean", [c for c in CLEAN if c.name != "lstm"], ids=lambda c: c.name)
@pytest.mark.slow
def test_clean_function_compiles_without_alarm(clean):
    report = audit(clean.make(), clean.inputs, name=clean.name, compile=True)
    assert report.exit_code == 0, str(report)


def test_the_corpus_is_as_large_as_promised():
    assert len(BUGS) >= 25
    assert len(CLEAN) >= 50
    assert len({c.name for c in CLEAN}) == len(CLEAN)
