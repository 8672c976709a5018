"""Passes of their own leave out the samples whose gate is closed: the same numbers and gradients as passes over all of them."""

import pytest
import torch

import pellucid
from pellucid import Key, Pipeline
from pellucid.engine import passes

CASES = [
    pellucid.RandomEqualize(p=0.5),
    pellucid.RandomAutoContrast(p=0.5),
    pellucid.RandomPosterize(p=0.5),
    pellucid.RandomSolarize(p=0.5),
    pellucid.RandomCLAHE(p=0.5),
    pellucid.RandomMedianBlur(p=0.5),
    pellucid.HueSaturationValue(p=0.5),
    pellucid.SaltAndPepper(p=0.5),
    pellucid.ShotNoise(p=0.5),
    pellucid.PoissonGaussianNoise(p=0.5),
    pellucid.RandomRain(p=0.5),
    pellucid.RandomJPEG(p=0.5),
    pellucid.RandomErasing(p=0.5),
    pellucid.RandomErasing(p=0.5, fill="random"),
    pellucid.RandomGaussianNoise(p=0.5, clip="none"),
    pellucid.RandomGaussianBlur(5, p=0.5),
]


def run(pipeline, image, key):
    leaf = image.clone().requires_grad_()
    result = pipeline(leaf, key=key)
    (gradient,) = torch.autograd.grad(result, leaf, torch.linspace(-1, 1, result.numel()).reshape(result.shape))
    return result.detach(), gradient


@pytest.mark.parametrize("transform", CASES, ids=lambda t: type(t).__name__)
@pytest.mark.parametrize("batch", [1, 9])
def test_closed_samples_are_left_out_and_nothing_changes(transform, batch, monkeypatch):
    pipeline, image = Pipeline([transform], seed=3), torch.rand(batch, 3, 20, 24, generator=torch.Generator().manual_seed(0))
    for step in range(4):
        ours = run(pipeline, image, Key(1, step))
        with monkeypatch.context() as patch:
            patch.setattr(passes, "is_plain_eager", lambda: False)
            theirs = run(pipeline, image, Key(1, step))
        for a, b in zip(ours, theirs, strict=True):
            assert torch.equal(a, b)


def test_the_operation_sees_open_samples_alone(monkeypatch):
    seen = []
    clahe = passes.curve.tone
    monkeypatch.setattr(
        passes.curve, "tone", lambda image, *rest, **options: seen.append(len(image)) or clahe(image, *rest, **options)
    )
    pipeline = Pipeline([pellucid.RandomCLAHE(tiles=1, p=0.3)], seed=3)
    image = torch.rand(16, 3, 8, 8)
    _, record = pipeline(image, return_record=True)
    assert seen == [int(record.params[0]["gate"].sum())]
    assert 0 < seen[0] < 16


def test_where_all_are_closed_the_result_is_not_the_input_itself():
    image = torch.rand(2, 3, 8, 8)
    result = Pipeline([pellucid.RandomEqualize(p=0.0)], seed=3)(image)
    assert torch.equal(result, image)
    assert result.data_ptr() != image.data_ptr()
