"""GroupWhitening: a batch norm at group size one, an exact whitening otherwise, and what few iterations leave out."""

import pytest
import torch
from torch import nn

from pellucid.errors import InvalidArgument
from pellucid.nn import GroupWhitening, matrix_roots, newton_schulz_inverse_root
from tests.refusals import refused


def close(a, b, atol=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


def correlated(b=8, c=6, space=(5, 5)):
    mix = torch.randn(c, c, dtype=torch.float64) / c**0.5 + torch.eye(c, dtype=torch.float64)
    return torch.einsum("dc,bc...->bd...", mix, torch.randn(b, c, *space, dtype=torch.float64)) + 1


def covariance(y, group_size):
    values = y.transpose(0, 1).reshape(-1, group_size, y.numel() // y.shape[1])
    values = values - values.mean(2, keepdim=True)
    return values @ values.mT / values.shape[2]


@pytest.mark.parametrize("iterations", [1, 5, None])
def test_group_size_one_is_torchs_batch_norm(iterations):
    layer, oracle = (
        GroupWhitening(3, group_size=1, iterations=iterations, dtype=torch.float64),
        nn.BatchNorm2d(3, dtype=torch.float64),
    )
    with torch.no_grad():
        oracle.weight.normal_()
        oracle.bias.normal_()
        layer.weight.copy_(oracle.weight)
        layer.bias.copy_(oracle.bias)
    x, g = (2 * torch.randn(4, 3, 5, 5, dtype=torch.float64) + 1).requires_grad_(), torch.randn(4, 3, 5, 5, dtype=torch.float64)
    for _ in range(2):
        out, expected = layer(x), oracle(x)
        close(out, expected)
        close(torch.autograd.grad(out, x, g)[0], torch.autograd.grad(expected, x, g)[0])
    close(layer.running_mean, oracle.running_mean)
    close(layer.running_cov.flatten(), oracle.running_var)
    close(layer.eval()(x), oracle.eval()(x))


@pytest.mark.parametrize("group_size", [2, 3, 6])
@pytest.mark.parametrize("iterations", [None, 25])
def test_removes_correlations_within_groups(group_size, iterations):
    x = correlated()
    y = GroupWhitening(6, group_size=group_size, iterations=iterations, eps=1e-10, affine=False, dtype=torch.float64)(x)
    close(covariance(y, group_size), torch.eye(group_size, dtype=torch.float64).expand(6 // group_size, -1, -1), atol=1e-7)


def test_iteration_converges_to_the_exact_root_as_its_documentation_says():
    basis = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64))[0]
    matrix = (basis * torch.logspace(0, -6, 4, dtype=torch.float64)) @ basis.T
    exact = matrix_roots(matrix, eps=1e-15)[1]
    error = {k: ((newton_schulz_inverse_root(matrix, iterations=k) - exact).norm() / exact.norm()).item() for k in (5, 17, 25)}
    assert error[5] > 0.9
    assert error[17] < 0.5
    assert error[25] < 1e-6


def test_evaluation_uses_the_running_statistics():
    layer = GroupWhitening(6, group_size=3, iterations=None, momentum=1.0, dtype=torch.float64)
    x = correlated(b=16)
    trained = layer(x)
    n = x.numel() // 6
    evaluated = layer.eval()(x)
    assert (evaluated - trained).abs().max() < 1.0 / n * trained.abs().max()  # n against n - 1 is all that differs
    assert int(layer.num_batches_tracked) == 1


@pytest.mark.parametrize("iterations", [5, None])
def test_gradient_of_detached_statistics(iterations):
    x = correlated(b=3, c=4, space=(2,)).requires_grad_()
    layer = GroupWhitening(4, group_size=2, iterations=iterations, statistics_grad="detached", eps=1e-2, dtype=torch.float64)
    g = torch.randn_like(x)
    (grad,) = torch.autograd.grad(layer(x), x, g)
    cov = covariance(x.detach(), 2) + 1e-2 * torch.eye(2, dtype=torch.float64)
    white = matrix_roots(cov, eps=1e-15)[1] if iterations is None else newton_schulz_inverse_root(cov, iterations=5)
    grouped = g.transpose(0, 1).reshape(2, 2, -1)
    close(grad, (white.mT @ grouped).reshape(4, 3, 2).transpose(0, 1), atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("iterations", [5, None])
def test_degenerate_inputs_stay_finite(dtype, iterations):
    layer = GroupWhitening(4, group_size=2, iterations=iterations)
    for x in (torch.zeros(2, 4, 3), torch.full((2, 4, 3), 9.0), torch.ones(1, 4, 1), torch.zeros(0, 4, 3)):
        x = x.to(dtype).requires_grad_()
        out = layer(x)
        (grad,) = torch.autograd.grad(out.float().square().sum(), x)
        assert out.dtype == dtype
        assert out.isfinite().all()
        assert grad.isfinite().all()
    assert layer.running_cov.isfinite().all()


def test_errors():
    refused(InvalidArgument, "divisor", GroupWhitening, 6, group_size=4)
    refused(InvalidArgument, "'detached'", GroupWhitening, 6, group_size=2, statistics_grad="mean_only")
    refused(InvalidArgument, "iterations", GroupWhitening, 6, group_size=2, iterations=0)
    refused(InvalidArgument, "6 channels", GroupWhitening(6, group_size=2), torch.zeros(2, 4))
