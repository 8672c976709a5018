"""Twice as many steps are twice the work, from the plan to the pixels: calls are counted, not seconds."""

import cProfile
import pstats

import pytest
import torch

import pellucid as P
from pellucid.engine.lowering import lowered, tapes
from pellucid.engine.plan import make_plan
from pellucid.types import ImageSpec

FLIP, TURN, JITTER = P.RandomHorizontalFlip(), P.RandomRotation(10), P.ColorJitter(0.2, 0.2, saturation=0.2)
MIXED = (
    TURN,
    P.ColorJitter(0.2, 0.2, saturation=0.2, hue=0.1),
    FLIP,
    P.RandomGamma(),
    P.RandomResizedCrop(16),
    P.RandomGaussianBlur(3),
    P.RandomCrop(16, padding=2),
)

ROWS = {
    "flips": lambda n: [FLIP] * n,
    "rotations": lambda n: [TURN] * n,
    "jitters": lambda n: [JITTER] * n,
    "crops": lambda n: [P.CenterCrop(16)] * n,
    "crops and jitters": lambda n: [P.CenterCrop(16), JITTER] * (n // 2),
    "blurs": lambda n: [P.RandomGaussianBlur(3)] * n,
    "curves": lambda n: [FLIP, P.RandomGamma()] * (n // 2),
    "everything": lambda n: [MIXED[i % len(MIXED)] for i in range(n)],
    "choices": lambda n: [P.OneOf([P.RandomVerticalFlip(p=1.0), TURN, P.RandomInvert(p=1.0)])] * (n // 4),
    "inside one choice": lambda n: [P.Apply([FLIP] * n)],
}


def calls(function, *arguments, **options):
    """How many functions this calls, Python's own among them."""
    counting = cProfile.Profile()
    counting.runcall(function, *arguments, **options)
    return pstats.Stats(counting).total_calls


def plan(transforms, fuse=True, canvas="each"):
    return make_plan(tuple(transforms), ImageSpec(3, 16, 16), fuse=fuse, canvas=canvas)


@pytest.mark.parametrize("canvas", ["each", "image"])
@pytest.mark.parametrize("row", ROWS)
def test_planning_is_linear(row, canvas):
    short, long = (calls(plan, ROWS[row](n), canvas=canvas) for n in (64, 128))
    assert long < 2.1 * short


def test_planning_a_shuffle_is_linear_in_the_steps_that_it_is_laid_out_in():
    short, long = (calls(plan, [P.Shuffle([FLIP] * n)]) for n in (8, 16))
    assert long < 4.8 * short


@pytest.mark.parametrize("branches", [[FLIP] * 33, [[FLIP] * 11] * 10, [P.Shuffle([FLIP] * 16)] * 4])
def test_a_shuffle_that_would_plan_for_long_is_refused(branches):
    with pytest.raises(P.InvalidArgument, match=r"1024 steps.*(1089|1100|4096) steps"):
        P.Shuffle(branches)
    P.Shuffle([FLIP] * 32)


@pytest.mark.slow
@pytest.mark.parametrize("row", ["flips", "rotations"])
def test_the_first_call_is_linear(row):
    images = torch.rand(2, 3, 16, 16)
    calls(P.Pipeline(ROWS[row](3), seed=0), images)
    short, long = (calls(P.Pipeline(ROWS[row](n), seed=0), images) for n in (64, 128))
    assert long < 2.1 * short


def test_passes_of_a_plan_too_large_to_record_them_are_computed_and_equal(monkeypatch):
    images, recorded = torch.rand(2, 3, 16, 16), []
    pipeline = P.Pipeline(MIXED)
    expected = pipeline(images, key=P.Key(seed=0))
    monkeypatch.setattr(lowered, "_MOST_RECORDED", 4 * len(MIXED) - 1)
    monkeypatch.setattr(lowered, "WordsTape", lambda *given: recorded.append(given) or tapes.WordsTape(*given))
    assert len(plan(MIXED).groups) >= 4
    found = P.Pipeline(MIXED)(images, key=P.Key(seed=0))
    assert torch.equal(found, expected)
    assert not recorded


@pytest.mark.slow
@pytest.mark.parametrize(
    "transforms",
    [
        [TURN, P.OneOf([TURN, [FLIP, P.RandomInvert(p=1.0)]]), TURN],
        [FLIP, P.OneOf([P.RandomGamma(), P.RandomInvert(p=1.0)]), P.RandomGamma()],
        [P.OneOf([TURN, FLIP], rounded=True), JITTER],
        [P.Shuffle([FLIP, TURN])],
    ],
    ids=["canvases", "curves", "rounded", "a shuffle"],
)
def test_a_plan_can_be_made_while_dynamo_traces(transforms):
    torch._dynamo.reset()
    made = torch.compile(lambda x: x + len(plan(transforms).groups), backend="eager", fullgraph=True)(torch.zeros(()))
    assert made == len(plan(transforms).groups)
