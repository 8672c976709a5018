"""Rectangles that are not finite: nothing crashes, and the other samples are what they were."""

import pytest
import torch

from pellucid import ColorJitter, Pipeline, RandomAffine, RandomIoUCrop

INF = float("inf")
WINDOWS = [(INF, 1, 5, 5), (INF, INF, INF, INF), (1, 1, INF, 5), (1, -INF, 5, INF), (float("nan"), 1, 5, 5), (1e30, 1, 5, 5)]


@pytest.mark.parametrize("behind", [[], [RandomAffine(20)], [ColorJitter(contrast=0.2)]], ids=["alone", "turned", "contrast"])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_the_other_sample_is_untouched(window, antialias, behind):
    x = torch.rand(2, 3, 24, 20, generator=torch.Generator().manual_seed(0)).requires_grad_()
    pipeline = Pipeline([RandomIoUCrop((8, 8), antialias=antialias), *behind], seed=0)
    out, record = pipeline(x, return_record=True)
    (grad,) = torch.autograd.grad(out.sum(), x)
    windows = record.params[0]["window"].clone()
    windows[0] = torch.tensor(window)
    found = pipeline.apply(x, record.with_param(0, "window", windows))
    assert torch.equal(found[1], out[1])
    assert torch.equal(torch.autograd.grad(found.sum(), x)[0][1], grad[1])
