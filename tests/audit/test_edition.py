"""The second edition's corpus: every bug is found with its category and line, no clean function raises an alarm."""

import pytest
from edition import EDITION, GROUPS
from edition_clean import EDITION_CLEAN

from pellucid.audit import audit

EVERY = 24  # in the default run, one of so many: the rest takes minutes


@pytest.mark.sampled(EVERY)
@pytest.mark.parametrize("bug", EDITION, ids=lambda bug: bug.name)
def test_bug_is_found(bug):
    report = bug.audit()
    assert bug.found(report), f"expected {bug.category}:\n{report}"


@pytest.mark.sampled(EVERY)
@pytest.mark.parametrize("clean", EDITION_CLEAN, ids=lambda clean: clean.name)
def test_clean_function_raises_no_alarm(clean):
    report = audit(clean.make(), clean.inputs, name=clean.name, **clean.options)
    assert report.exit_code == 0, str(report)


def test_the_corpus_is_as_large_as_promised():
    assert len(EDITION) >= 120
    assert len(EDITION_CLEAN) >= 120
    assert len({b.name for b in EDITION}) == len(EDITION)
    assert len({c.name for c in EDITION_CLEAN}) == len(EDITION_CLEAN)
    assert min(len(bugs) for bugs in GROUPS.values()) >= 10
