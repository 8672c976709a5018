"""What is played for a run and for its draws is what the tensor code computes, for every transform and some pipelines."""

import pytest
import torch

import pellucid as P
from pellucid.core.tape import TapeError, cached_recording, recording
from pellucid.engine.drawing import draw_params, draw_uniforms, params_of
from pellucid.engine.lowering import Lowered, Replayed
from pellucid.engine.lowering.lowered import _resample
from pellucid.engine.plan import Run
from pellucid.policy import TrivialAugmentWide
from tests.cases import CASES, IDS, MEAN, STD, images

CPU = torch.device("cpu")
PIPELINES = {
    **{name: [case.transform] for name, case in zip(IDS, CASES, strict=True)},
    "flagship": [
        P.RandomAffine(15, translate=(0.1, 0.1), scale=(0.9, 1.1), shear=5),
        P.RandomHorizontalFlip(),
        P.ColorJitter(0.2, 0.2, saturation=0.2, hue=0.05),
        P.Normalize(MEAN, STD),
    ],
    "three warps": [P.RandomResizedCrop((11, 13), antialias=False), P.RandomAffine(15, fill=0.4), P.RandomPerspective(0.3, p=1.0)],
    "colour before a filled warp": [
        P.ColorJitter(0.3, 0.3, saturation=0.3, hue=0.1),
        P.RandomAffine(30, fill=(0.1, 0.2, 0.3)),
        P.RandomGrayscale(0.5),
    ],
    "window behind flips": [P.RandomHorizontalFlip(), P.RandomVerticalFlip(), P.RandomResizedCrop((7, 7), antialias=False)],
    "policy": [TrivialAugmentWide(bins=3)],
    "nearest behind flips": [P.RandomHorizontalFlip(), P.RandomAffine(15, interpolation="nearest")],
    "shared": [P.RandomAffine(15, same_on_batch=True), P.RandomHorizontalFlip()],
    "a field": [
        P.RandomElastic(4),
        P.RandomAffine(15, fill=0.4),
        P.RandomResizedCrop((11, 13), antialias=False),
        P.ColorJitter(0.2, 0.2, saturation=0.2),
    ],
    "a chosen field": [P.OneOf([P.GridDistortion(3), P.RandomAffine(15)]), P.RandomHorizontalFlip()],
}
TAPED = {"flagship", "policy", "nearest behind flips"}
every = pytest.mark.parametrize("name", PIPELINES)


def plan_and_params(name):
    case = next((case for label, case in zip(IDS, CASES, strict=True) if label == name), CASES[3])
    x = images(case, batch=11)
    pipeline = P.Pipeline(PIPELINES[name], seed=4)
    record = pipeline.draw(x, key=P.Key(7, 3))
    return x, record.plan, record.params


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, tuple) else []


@every
def test_draws_have_the_same_bits(name):
    _, plan, params = plan_and_params(name)
    index = torch.arange(11)
    expected = params_of(plan, draw_uniforms(plan, torch.tensor(7), torch.tensor(3), index), {}) if plan.draws else params
    assert not plan.draws or cached_recording(plan.owner, "draw", lambda: None) is not None or name not in TAPED
    assert [list(values) for values in params] == [list(values) for values in expected]
    for ours, theirs in zip(params, expected, strict=True):
        for key, value in theirs.items():
            assert ours[key].dtype == value.dtype
            assert torch.equal(ours[key], value), key


@every
def test_a_draw_that_nobody_looks_at_moves_pixels_alike(name):
    """Straight from random words to the kernel's numbers, without the values in between: the same bits."""
    x, plan, _ = plan_and_params(name)
    pipeline, key = P.Pipeline(PIPELINES[name], seed=4), P.Key(7, 3)
    drawn = draw_params(plan, torch.tensor(7), torch.tensor(3), torch.arange(11), {})
    assert isinstance(drawn, Replayed) == (bool(plan.draws) and cached_recording(plan.owner, "draw", lambda: None) is not None)
    shown, _ = pipeline(x, key=key, return_record=True)
    assert torch.equal(pipeline(x, key=key), shown)


@every
def test_runs_are_composed_alike(name):
    x, plan, params = plan_and_params(name)
    taped, plain = Lowered(plan, params, CPU), Lowered(plan, params, CPU)
    assert taped.taped
    plain.taped = False
    mean = x.mean((-2, -1))
    for run in (group for group in plan.groups if isinstance(group, Run)):
        m = mean if run.pivot else None
        pairs = [
            (taped.geometry(run), plain.geometry(run)),
            (taped.resample(run, m, 255.0, torch.float64), plain.resample(run, m, 255.0, torch.float64)),
        ]
        for ours, theirs in pairs:
            assert len(flat(ours)) == len(flat(theirs))
            for a, b in zip(flat(ours), flat(theirs), strict=True):
                torch.testing.assert_close(a, b.expand_as(a), rtol=1e-12, atol=1e-12)
        if not any(isinstance(transform, P.RandomLieAffine) for transform in plan.transforms):  # the matrix exponential has no rule
            made = [made for key, made in recording._recordings[id(plan.owner)].items() if key[1] is _resample]
            assert all(tape is not None for tape in made), "not taped"
            assert made or not any(run.bends for run in plan.groups if isinstance(run, Run)), "a run with a field is taped, too"


@every
def test_images_agree(name, monkeypatch):
    x = plan_and_params(name)[0]
    pipeline = P.Pipeline(PIPELINES[name], seed=4)
    ours, record = pipeline(x, return_record=True)
    played = len(recording._recordings.get(id(record.plan.owner), {}))
    monkeypatch.setattr("pellucid.engine.lowering.lowered.is_plain_eager", lambda: False)
    theirs = pipeline.apply(x, record)
    assert played or not record.plan.draws
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


@every
def test_gradients_to_images_agree(name, monkeypatch):
    """Also where the colours lean on the image's mean, which the tape knows by its slopes."""
    x = plan_and_params(name)[0].double().requires_grad_()
    pipeline = P.Pipeline(PIPELINES[name], seed=4)
    ours, record = pipeline(x, return_record=True)
    monkeypatch.setattr("pellucid.engine.lowering.lowered.is_plain_eager", lambda: False)
    theirs = pipeline.apply(x, record)
    grad = torch.rand(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    gradients = [torch.autograd.grad(out, x, grad)[0] for out in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


def test_a_mean_is_followed_wherever_it_is_used():
    """The derivative of the packed colours to the mean, against that of the tensor code."""
    transforms = [
        P.RandomBrightness(0.4),
        P.RandomContrast(0.5),
        P.RandomAffine(20, fill=0.3),
        P.RandomSaturation(0.5),
        P.RandomContrast(0.5),
    ]
    pipeline, x = P.Pipeline(transforms, seed=1), torch.rand(3, 3, 6, 5, dtype=torch.float64)
    record = pipeline.draw(x)
    (run,) = record.plan.groups
    mean = x.mean((-2, -1)).requires_grad_()
    taped, plain = Lowered(record.plan, record.params, CPU), Lowered(record.plan, record.params, CPU)
    plain.taped = False
    found = []
    for lowered in (taped, plain):
        packed = lowered.resample(run, mean, 1.0, torch.float64)
        weights = torch.rand(packed.params.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        found += torch.autograd.grad((packed.params * weights).sum(), mean)
    assert found[1].abs().min() > 1e-3
    torch.testing.assert_close(*found, rtol=1e-13, atol=1e-13)


def test_gradients_go_through_the_code():
    x = torch.rand(2, 3, 8, 8)
    pipeline = P.Pipeline([P.RandomAffine(P.Learnable(10.0)), P.ColorJitter(contrast=0.5), P.Normalize(MEAN, STD)])
    out = pipeline(x.requires_grad_())
    out.square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs() > 0 for parameter in pipeline.parameters())
    assert x.grad.abs().sum() > 0
    record = P.Pipeline([P.RandomAffine(10)]).draw(x.detach()).requires_grad_()
    assert record.matrix.requires_grad


def test_an_image_gradient_alone_needs_no_code():
    x = torch.rand(2, 3, 8, 8, requires_grad=True)
    pipeline = P.Pipeline(PIPELINES["three warps"], seed=1)
    record = pipeline.draw(x)
    (gradient,) = torch.autograd.grad(pipeline.apply(x, record).square().sum(), x)
    leaves = record.requires_grad_()
    (expected,) = torch.autograd.grad(pipeline.apply(x, leaves).square().sum(), x)
    torch.testing.assert_close(gradient, expected)


def test_a_transform_that_cannot_be_taped_runs_its_code(monkeypatch):
    def awkward(self, values, spec, like):
        if float(values["degrees"].sum()) < -1e9:  # reads a value: no tape
            raise AssertionError
        return lower(self, values, spec, like)

    lower = P.RandomAffine.lower
    x = torch.rand(3, 3, 9, 9)
    expected = P.Pipeline([P.RandomAffine(20)], seed=0)(x)
    monkeypatch.setattr(P.RandomAffine, "lower", awkward)
    torch.testing.assert_close(P.Pipeline([P.RandomAffine(20)], seed=0)(x), expected)


def test_errors_of_the_code_are_not_swallowed(monkeypatch):
    def broken(self, values, spec, like):
        raise ZeroDivisionError

    monkeypatch.setattr(P.RandomAffine, "lower", broken)
    with pytest.raises(ZeroDivisionError):
        P.Pipeline([P.RandomAffine(20)])(torch.rand(1, 3, 4, 4))
    assert not issubclass(ZeroDivisionError, TapeError)
