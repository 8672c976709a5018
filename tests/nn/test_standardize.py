"""standardize against torch's kernels, numpy's weighted moments and the closed forms of its gradient."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.errors import InvalidArgument, InvalidType
from pellucid.nn import standardize
from pellucid.nn.moments import moments, unbiased_var
from tests.refusals import refused

POLICIES = ["full", "detached", "mean_only", "var_only"]
EPS = 1e-5


def data(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def gradient(f, x, g):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(f(x), x, g)[0]


def closed_form(policy, x, g, dims, eps=EPS):
    mean = x.mean(dims, keepdim=True)
    sigma = (x.var(dims, correction=0, keepdim=True) + eps).sqrt()
    xhat = (x - mean) / sigma
    through_mean = g.mean(dims, keepdim=True) if policy in ("full", "mean_only") else 0
    through_var = xhat * (g * xhat).mean(dims, keepdim=True) if policy in ("full", "var_only") else 0
    return (g - through_mean - through_var) / sigma


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dims", [(0, 2, 3), (1, 2, 3), (2, 3), (0,), (1,), (0, 1), (-1, 0), (0, 1, 2, 3)])
def test_every_policy_has_its_closed_form(policy, dims):
    x, g = 3 * data(4, 3, 5, 6) + 1, data(4, 3, 5, 6, seed=1)
    out = standardize(x, dims, statistics=policy)
    expected = (x - x.mean(dims, keepdim=True)) / (x.var(dims, correction=0, keepdim=True) + EPS).sqrt()
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    got = gradient(lambda t: standardize(t, dims, statistics=policy), x, g)
    torch.testing.assert_close(got, closed_form(policy, x, g, dims), rtol=0, atol=1e-11)


@pytest.mark.parametrize("policy", POLICIES)
def test_unbiased_divides_by_n_minus_one(policy):
    x = data(4, 3, 2, 2)
    for dims in [(0, 2, 3), (1, 2, 3)]:
        expected = (x - x.mean(dims, keepdim=True)) / (x.var(dims, correction=1, keepdim=True) + EPS).sqrt()
        torch.testing.assert_close(standardize(x, dims, statistics=policy, unbiased=True), expected, rtol=0, atol=1e-12)


def test_sum_of_gradient_is_zero_only_through_the_mean():
    x, g = data(6, 3), data(6, 3, seed=1)
    sums = {p: gradient(lambda t, p=p: standardize(t, 0, statistics=p), x, g).sum(0).abs().max().item() for p in POLICIES}
    assert sums["full"] < 1e-12
    assert sums["mean_only"] < 1e-12
    assert sums["detached"] > 0.1
    assert sums["var_only"] > 0.1


def test_weights_agree_with_numpy():
    x, w = data(7, 3), data(7, 3, seed=1).abs()
    mean, var, samples = moments(x, 0, weight=w)
    for c in range(3):
        xs, ws = x[:, c].numpy(), w[:, c].numpy()
        np.testing.assert_allclose(mean[0, c], np.average(xs, weights=ws), rtol=1e-12)
        np.testing.assert_allclose(var[0, c], np.cov(xs, aweights=ws, ddof=0), rtol=1e-12)
        np.testing.assert_allclose(unbiased_var(var, samples)[0, c], np.cov(xs, aweights=ws, ddof=1), rtol=1e-12)


def test_weighted_gradient_has_its_closed_form():
    x, g, w = data(9, 2), data(9, 2, seed=1), data(9, 1, seed=2).abs()
    w[3] = 0
    w = w / w.sum()
    mean = (w * x).sum(0)
    sigma = ((w * (x - mean) ** 2).sum(0) + EPS).sqrt()
    xhat = (x - mean) / sigma
    expected = (g - w * g.sum(0) - w * xhat * (g * xhat).sum(0)) / sigma
    got = gradient(lambda t: standardize(t, 0, weight=5 * w), x, g)  # only ratios count
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_lies_under_the_mask_is_never_read(policy):
    x = data(4, 3, 8)
    mask = torch.arange(8) < torch.tensor([8, 5, 1, 3])[:, None]
    mask = mask[:, None, :]
    g = data(4, 3, 8, seed=1)
    runs = []
    for filler in (0.0, 1e300, float("nan"), float("inf")):
        filled = torch.where(mask, x, filler).requires_grad_()
        out = standardize(filled, (0, 2), mask=mask, statistics=policy)
        runs.append((out.detach(), torch.autograd.grad(out, filled, g)[0]))
    for out, grad in runs:
        assert torch.equal(out, runs[0][0])
        assert torch.equal(grad, runs[0][1])
        assert (grad[~mask.expand_as(grad)] == 0).all()
        assert (out[~mask.expand_as(out)] == 0).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_masked_equals_the_values_alone(policy):
    x, g = data(10, 3), data(10, 3, seed=1)
    mask = torch.zeros(10, 1, dtype=torch.bool)
    mask[[1, 4, 5, 9]] = True
    keep = mask[:, 0]
    torch.testing.assert_close(standardize(x, 0, mask=mask)[keep], standardize(x[keep], 0), rtol=0, atol=1e-12)
    got = gradient(lambda t: standardize(t, 0, mask=mask, statistics=policy), x, g)[keep]
    torch.testing.assert_close(got, closed_form(policy, x[keep], g[keep], 0), rtol=0, atol=1e-11)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 40))
def test_padding_and_order_do_not_show_in_float32(seed, padding):
    x = (10 * data(23, 4, seed=seed) + 100).float()
    order = torch.randperm(23 + padding, generator=torch.Generator().manual_seed(seed))
    padded = torch.cat([x, torch.full((padding, 4), float("nan"))])[order]
    mask = (order < 23)[:, None]
    out = standardize(padded, 0, mask=mask)
    plain = standardize(x, 0, mask=torch.ones(23, 1, dtype=torch.bool))
    assert torch.equal(out[torch.argsort(order)[:23]], plain)


def test_given_statistics_are_used_and_get_their_gradient():
    x, mean, var = data(4, 3, 5), data(3, seed=1), data(3, seed=2).abs()
    out = standardize(x, (0, 2), statistics=(mean, var))
    torch.testing.assert_close(out, F.batch_norm(x, mean, var, eps=EPS), rtol=0, atol=1e-12)
    assert torch.autograd.gradcheck(
        lambda *a: standardize(a[0], (0, 2), statistics=a[1:]), [t.requires_grad_() for t in (x, mean, var)]
    )
    as_kept = standardize(x, (0, 2), statistics=(mean.reshape(1, 3, 1), var.reshape(1, 3, 1)))
    assert torch.equal(as_kept, out)


def test_own_statistics_handed_in_equal_full():
    x, g = data(8, 3), data(8, 3, seed=1)
    given_ = gradient(lambda t: standardize(t, 0, statistics=moments(t, 0)[:2]), x, g)
    torch.testing.assert_close(given_, closed_form("full", x, g, 0), rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("masked", [False, True])
def test_degenerate_inputs_stay_finite(dtype, policy, masked):
    # The largest float16; elsewhere as large as values can be while their squares fit.
    top = 65504.0 if dtype == torch.float16 else torch.finfo(dtype).max ** 0.5 / 1024
    flat = [
        torch.zeros(4, 3),
        torch.full((4, 3), 7.0),
        torch.full((4, 3), top, dtype=torch.float64),
        torch.full((1, 3), 2.0),
    ]
    for x in flat:
        for dims in (0, 1, (0, 1)):
            x = x.to(dtype).detach().requires_grad_()
            mask = torch.zeros(x.shape, dtype=torch.bool) if masked else None
            out = standardize(x, dims, statistics=policy, mask=mask)
            (grad,) = torch.autograd.grad(out, x, torch.ones_like(out))
            assert out.dtype == dtype
            assert out.isfinite().all()
            assert grad.isfinite().all()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dims", [(0, 2, 3), (1, 2, 3)])
def test_empty_batch(policy, dims):
    assert standardize(torch.zeros(0, 3, 4, 4), dims, statistics=policy).shape == (0, 3, 4, 4)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dims", [(0, 2), (1, 2)])
def test_half_precision_computes_statistics_in_float32(policy, dims):
    # In bfloat16 the mean of 1000 + noise is off by up to 4; the statistics must not be.
    x = (1000 + 30 * data(64, 2, 64)).to(torch.bfloat16)
    out = standardize(x, dims, statistics=policy).double()
    exact = standardize(x.double(), dims, statistics=policy)
    assert (out - exact).abs().max() <= 2**-8 * exact.abs().max()


def test_both_reductions_agree():
    x = data(5, 4, 6) + 3
    for policy in POLICIES:
        one, two = (moments(x, (0, 2), policy=policy, fused=f) for f in (True, False))
        torch.testing.assert_close(one.mean, two.mean, rtol=0, atol=1e-13)
        torch.testing.assert_close(one.var, two.var, rtol=0, atol=1e-13)


def test_errors_say_what_to_do():
    x = data(4, 3)
    refused(InvalidType, r"x\.float\(\)", standardize, torch.ones(3, dtype=torch.int64), 0)
    refused(InvalidArgument, "'var_only'", standardize, x, 0, statistics="half")
    refused(InvalidArgument, "dims", standardize, x, 2)
    refused(InvalidArgument, "distinct", standardize, x, (0, -2))
    refused(InvalidArgument, r"mask\.reshape", standardize, x, 0, mask=torch.ones(4, dtype=torch.bool))
    refused(InvalidType, "weight=", standardize, x, 0, mask=torch.ones(4, 1))
    refused(InvalidArgument, "mean", standardize, x, 0, statistics=(torch.zeros(4), torch.ones(3)))
