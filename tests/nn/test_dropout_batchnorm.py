"""DropoutBatchNorm: one variance in training and evaluation, where dropout-then-BatchNorm has two."""

import pytest
import torch
from torch import nn

from pellucid.errors import InvalidArgument
from pellucid.nn import DropoutBatchNorm
from tests.refusals import refused

MEAN, STD, P = 1.5, 2.0, 0.5
Q = 1 - P
SHIFTED = (STD**2 + MEAN**2) / Q - MEAN**2  # what a batch norm behind the dropout sees in training


def train(module, batches=40):
    for _ in range(batches):
        module(MEAN + STD * torch.randn(20_000, 1, dtype=torch.float64))
    return module


def evaluated_variance(module):
    x = MEAN + STD * torch.randn(200_000, 1, dtype=torch.float64)
    return module.eval()(x).var().item()


def test_train_and_test_variances_agree_within_one_percent():
    norm = train(DropoutBatchNorm(1, p=P, momentum=None, affine=False, dtype=torch.float64))
    assert norm.running_var.item() == pytest.approx(STD**2, rel=0.01)
    assert norm.running_mean.item() == pytest.approx(MEAN, rel=0.01)
    assert evaluated_variance(norm) == pytest.approx(1.0, rel=0.01)


def test_dropout_then_batchnorm_is_off_by_the_closed_form():
    """The oracle's own failure: were it within 1 %, the class would have no purpose."""
    pair = nn.Sequential(nn.Dropout(P), nn.BatchNorm1d(1, momentum=None, affine=False, dtype=torch.float64))
    train(pair)
    assert pair[1].running_var.item() == pytest.approx(SHIFTED, rel=0.01)
    assert evaluated_variance(pair) == pytest.approx(STD**2 / SHIFTED, rel=0.01)
    assert STD**2 / SHIFTED < 0.5


def test_noise_in_training_is_dropouts_own():
    norm = DropoutBatchNorm(1, p=P, affine=False, dtype=torch.float64)
    out = norm(MEAN + STD * torch.randn(400_000, 1, dtype=torch.float64))
    assert out.mean().item() == pytest.approx(0, abs=0.01)
    assert out.var().item() == pytest.approx(SHIFTED / STD**2, rel=0.01)


@pytest.mark.parametrize("policy", ["full", "detached", "mean_only", "var_only"])
def test_given_mask_and_gradient(policy):
    norm = DropoutBatchNorm(3, p=0.25, affine=False, dtype=torch.float64, statistics_grad=policy)
    x = torch.randn(6, 3, 4, dtype=torch.float64, requires_grad=True)
    keep = torch.rand(6, 3, 1) < 0.75
    out = norm(x, keep=keep)
    mean, var = x.mean((0, 2), keepdim=True), x.var((0, 2), correction=0, keepdim=True)
    mean = mean if policy in ("full", "mean_only") else mean.detach()
    var = var if policy in ("full", "var_only") else var.detach()
    expected = (x * keep / 0.75 - mean) / (var + norm.eps).sqrt()
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    g = torch.randn_like(out)
    got, wanted = (torch.autograd.grad(o, x, g)[0] for o in (out, expected))
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-11)


def test_no_dropout_is_batchnorm_and_eval_is_torchs():
    norm, oracle = DropoutBatchNorm(3, p=0.0, dtype=torch.float64), nn.BatchNorm1d(3, dtype=torch.float64)
    x = torch.randn(8, 3, dtype=torch.float64)
    torch.testing.assert_close(norm(x), oracle(x), rtol=0, atol=1e-12)
    torch.testing.assert_close(norm.eval()(x), oracle.eval()(x), rtol=0, atol=1e-12)


def test_errors():
    refused(InvalidArgument, "probability", DropoutBatchNorm, 3, p=1.0)
    refused(InvalidArgument, "keep", DropoutBatchNorm(3), torch.zeros(4, 3), keep=torch.ones(4, dtype=torch.bool))
