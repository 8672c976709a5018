"""A step of R1 through our warp is the step of the detour by `grid_sample`, and both are timed."""

import torch

from pellucid_bench.penalty import SUBJECTS, make_critic, measure_penalty, penalty, penalty_table, subjects
from tests.refusals import refused


def test_the_detour_has_our_gradients_of_both_orders():
    images = torch.rand(3, 2, 16, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    calls, critic = subjects(images), make_critic(2).double()
    first, second = ([*penalty(calls[name], critic, images)] for name in SUBJECTS[:2])
    assert (calls[SUBJECTS[0]](images) - images).abs().max() > 0.1
    for ours, theirs in zip(first, second, strict=True):
        if ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8 * float(theirs.abs().max()))
    assert torch.autograd.gradgradcheck(lambda x: calls[SUBJECTS[1]](x).square(), images.requires_grad_(), fast_mode=True)


def test_every_subject_has_its_row():
    rows = measure_penalty(batch=2, size=16, budget=0.01)
    assert [row["subject"] for row in rows] == list(SUBJECTS)
    timed = {row["subject"] for row in rows if row["status"] == "ok"}
    assert timed >= set(SUBJECTS) - {"grid_sample"}
    assert penalty_table(rows).count("\n") == 1 + len(SUBJECTS)


def test_gradients_that_differ_are_not_timed(monkeypatch):
    def wrong(images):
        found = subjects(images)
        return found | {SUBJECTS[1]: lambda x: found[SUBJECTS[1]](x) * 1.01}

    monkeypatch.setattr("pellucid_bench.penalty.subjects", wrong)
    refused(RuntimeError, "differ", measure_penalty, batch=2, size=16, budget=0.01)
