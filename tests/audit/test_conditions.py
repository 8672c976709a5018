"""What is wrong under one condition only is found; functions that switch on the same conditions, rightly, raise no alarm."""

import pytest
import torch
from conditions import CLEAN_CONDITIONS, CONDITIONS, GROUPS
from conditions_wrong import faulty, in_dtype

from pellucid.audit import audit
from pellucid.audit.rounding import differences, representable
from pellucid.audit.subject import Subject
from pellucid.errors import InvalidArgument

EVERY = 15  # in the default run, one of so many of each


@pytest.mark.sampled(EVERY)
@pytest.mark.parametrize("bug", CONDITIONS, ids=lambda b: b.name)
def test_what_is_wrong_under_one_condition_is_found(bug):
    report = bug.audit()
    assert bug.found(report), f"expected {bug.category}:\n{report}"


@pytest.mark.sampled(EVERY)
@pytest.mark.parametrize("clean", CLEAN_CONDITIONS, ids=lambda c: c.name)
def test_clean_function_raises_no_alarm(clean):
    report = audit(clean.make(), clean.inputs, name=clean.name)
    assert report.exit_code == 0, str(report)


def test_the_corpus_is_as_large_as_promised():
    assert len(CONDITIONS) == len({b.name for b in CONDITIONS}) == 60
    assert len(CLEAN_CONDITIONS) >= 30
    assert min(len(bugs) for bugs in GROUPS.values()) >= 14


def test_the_report_tells_the_conditions_their_time_and_the_budget():
    report = audit(torch.tanh, torch.rand(2, 8), modes=False, degenerate=False)
    assert {"float32", "float16", "33 columns", "9 samples", "input times 4"} <= set(report.tried)
    assert report.conditions in report.to_html()
    assert report.to_dict()["budget"] == 10.0
    assert report.measures["input"].modes["float32"] == "agrees"


def test_what_the_budget_leaves_out_is_told():
    report = audit(torch.tanh, torch.rand(2, 8), budget=0, modes=False, degenerate=False)
    assert not report.tried
    (note, *_) = [f for f in report.findings if f.subject == "conditions"]
    assert "float32" in note.message
    assert note.severity == 0
    with pytest.raises(InvalidArgument, match="budget"):
        audit(torch.tanh, torch.rand(2, 8), budget=-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_what_rounding_explains_is_little_and_more_is_told(dtype):
    point = representable({"x": torch.linspace(0.1, 1, 60).reshape(1, 1, 3, 20)}, dtype)
    for when, wrong in (((), False), ((dtype,), True)):
        subject = Subject(faulty("curve", "halved", in_dtype(*when)), point["x"].to(dtype))
        gap, explained = differences(subject, point, dtype, subject.gradient(point)[1])["x"]
        assert explained < 0.3
        assert (gap > explained) == wrong
