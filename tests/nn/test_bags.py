"""Bag statistics against a loop over bags, and their invariance to order and padding."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from pellucid.errors import InvalidArgument, InvalidType
from pellucid.nn import BagNorm, bag_moments, standardize_bags
from tests.refusals import refused

POLICIES = ["full", "detached", "mean_only", "var_only"]
BAGS = torch.tensor([2, 0, 2, 4, 0, 2, 2, 4, 0])  # bags 1 and 3 are empty


def data(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("space", [(), (5,), (2, 3)])
def test_equals_torch_batchnorm_on_each_bag_alone(space):
    x, g = 2 * data(9, 3, *space) + 1, data(9, 3, *space, seed=1)
    norm = BagNorm(3, dtype=torch.float64)
    oracle = [nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d][len(space)](3, track_running_stats=False, dtype=torch.float64)
    with torch.no_grad():
        oracle.weight.normal_()
        oracle.bias.normal_()
    norm.load_state_dict(oracle.state_dict())
    x.requires_grad_()
    for mode in (True, False):
        out = norm.train(mode)(x, BAGS, num_bags=5)
        parts = torch.zeros_like(out)
        for bag in BAGS.unique():
            parts = parts.index_copy(0, (bag == BAGS).nonzero()[:, 0], oracle(x[bag == BAGS]))
        torch.testing.assert_close(out, parts, rtol=0, atol=1e-12)
        leaves = [x, *norm.parameters()], [x, *oracle.parameters()]
        for p, q in zip(torch.autograd.grad(out, leaves[0], g), torch.autograd.grad(parts, leaves[1], g), strict=True):
            torch.testing.assert_close(p, q, rtol=0, atol=1e-11)


@pytest.mark.parametrize("policy", POLICIES)
def test_gradient_of_each_policy(policy):
    x, g = data(9, 3), data(9, 3, seed=1)
    leaf = x.clone().requires_grad_()
    (got,) = torch.autograd.grad(standardize_bags(leaf, BAGS, statistics=policy), leaf, g)
    for bag in BAGS.unique():
        xs, gs = x[bag == BAGS], g[bag == BAGS]
        sigma = (xs.var(0, correction=0) + 1e-5).sqrt()
        xhat = (xs - xs.mean(0)) / sigma
        expected = gs
        if policy in ("full", "mean_only"):
            expected = expected - gs.mean(0)
        if policy in ("full", "var_only"):
            expected = expected - xhat * (gs * xhat).mean(0)
        torch.testing.assert_close(got[bag == BAGS], expected / sigma, rtol=0, atol=1e-11)


def test_weighted_bag_is_the_weighted_closed_form():
    x, w, g = data(6, 2), data(6, seed=1).abs(), data(6, 2, seed=2)
    bags = torch.zeros(6, dtype=torch.int64)
    leaf = x.clone().requires_grad_()
    (got,) = torch.autograd.grad(standardize_bags(leaf, bags, weight=w), leaf, g)
    w = (w / w.sum())[:, None]
    mean = (w * x).sum(0)
    sigma = ((w * (x - mean) ** 2).sum(0) + 1e-5).sqrt()
    xhat = (x - mean) / sigma
    torch.testing.assert_close(got, (g - w * g.sum(0) - w * xhat * (g * xhat).sum(0)) / sigma, rtol=0, atol=1e-11)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 20))
def test_order_and_padding_do_not_show_in_float32(seed, padding):
    generator = torch.Generator().manual_seed(seed)
    x = (10 * data(20, 3, 4, seed=seed) + 100).float()
    bags = torch.randint(0, 6, (20,), generator=generator)
    plain = standardize_bags(x, bags)
    order = torch.randperm(20 + padding, generator=generator)
    padded = torch.cat([x, torch.full((padding, 3, 4), float("nan"))])[order]
    ids = torch.cat([bags, torch.full((padding,), -7)])[order]  # an id that would raise if it were read
    out = standardize_bags(padded, ids, mask=order < 20, num_bags=6)
    assert torch.equal(out[torch.argsort(order)[:20]], plain)
    assert (out[order >= 20] == 0).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_padding_gets_a_gradient_of_exactly_zero(policy):
    x = torch.full((5, 2), float("nan"), dtype=torch.float64)
    x[:3] = data(3, 2)
    x.requires_grad_()
    norm = BagNorm(2, dtype=torch.float64, statistics_grad=policy)
    nn.init.ones_(norm.bias)
    out = norm(x, torch.tensor([0, 0, 0, 0, 0]), mask=torch.arange(5) < 3)
    (grad,) = torch.autograd.grad(out, x, data(5, 2, seed=1))
    assert (grad[3:] == 0).all()
    assert (out[3:] == 0).all()
    assert grad.isfinite().all()


def test_single_and_empty_bags_are_finite():
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        x = torch.full((3, 2), 3.0, dtype=dtype, requires_grad=True)
        out = standardize_bags(x, torch.tensor([0, 5, 2]), num_bags=7)
        out.sum().backward()
        assert (out == 0).all()
        assert x.grad.isfinite().all()
    stats = bag_moments(torch.ones(3, 2), torch.tensor([0, 5, 2]), num_bags=7)
    assert stats.samples[:, 0].tolist() == [1, 0, 1, 0, 0, 1, 0]


def test_gradcheck():
    x, w = data(9, 2, seed=3).requires_grad_(), (data(9, seed=4).abs() + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: standardize_bags(x, BAGS, weight=w), (x, w))
    assert torch.autograd.gradgradcheck(lambda x, w: standardize_bags(x, BAGS, weight=w), (x, w))


def test_errors():
    refused(InvalidType, "int64", standardize_bags, torch.zeros(3, 2), torch.zeros(3))
    refused(InvalidArgument, "one value per instance", standardize_bags, torch.zeros(3, 2), torch.zeros(4, dtype=torch.int64))
    refused(InvalidArgument, r"x\[:, None\]", standardize_bags, torch.zeros(3), torch.zeros(3, dtype=torch.int64))
    refused(InvalidArgument, "2 channels", BagNorm(2), torch.zeros(3, 4), torch.zeros(3, dtype=torch.int64))
