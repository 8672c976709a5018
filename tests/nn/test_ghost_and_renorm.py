"""Ghost batches against a loop over torch's batch norm; batch renormalisation against its definition."""

import pytest
import torch
from torch import nn

from pellucid.errors import InvalidArgument
from pellucid.nn import BatchRenorm, GhostBatchNorm
from tests.refusals import refused

POLICIES = ["full", "detached", "mean_only", "var_only"]


def close(a, b, atol=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize(("batch", "sizes"), [(12, [4, 4, 4]), (14, [5, 5, 4]), (3, [3])])
def test_ghosts_are_a_loop_over_torch(momentum, batch, sizes):
    ghost, oracle = (m(3, momentum=momentum, dtype=torch.float64) for m in (GhostBatchNorm, nn.BatchNorm2d))
    ghost.ghost_size = 4
    x = torch.randn(batch, 3, 2, 2, dtype=torch.float64, requires_grad=True)
    out, expected = ghost(x), torch.cat([oracle(part) for part in x.split(sizes)])
    close(out, expected)
    g = torch.randn_like(out)
    close(torch.autograd.grad(out, x, g)[0], torch.autograd.grad(expected, x, g)[0])
    for p, q in zip(ghost.state_dict().values(), oracle.state_dict().values(), strict=True):
        close(p, q)
    close(ghost.eval()(x), oracle.eval()(x))


def test_masked_ghosts_are_the_ghosts_without_padding():
    ghost = GhostBatchNorm(2, ghost_size=3, dtype=torch.float64)
    x = torch.randn(6, 2, 5, dtype=torch.float64)
    mask = torch.rand(6, 1, 5) < 0.7
    out = ghost(torch.where(mask, x, float("nan")), mask=mask)
    for part, m, o in zip(x.split(3), mask.split(3), out.split(3), strict=True):
        for c in range(2):
            kept = part[:, c][m[:, 0]]
            close(o[:, c][m[:, 0]], (kept - kept.mean()) / (kept.var(correction=0) + ghost.eps).sqrt())


def test_renorm_without_corrections_is_torch():
    norm, oracle = BatchRenorm(3, 1.0, 0.0, momentum=0.1, dtype=torch.float64), nn.BatchNorm2d(3, dtype=torch.float64)
    for _ in range(3):
        x = 2 * torch.randn(4, 3, 5, 5, dtype=torch.float64) + 1
        x.requires_grad_()
        out, expected, g = norm(x), oracle(x), torch.randn(4, 3, 5, 5, dtype=torch.float64)
        close(out, expected)
        close(torch.autograd.grad(out, x, g)[0], torch.autograd.grad(expected, x, g)[0])
    close(norm.running_mean, oracle.running_mean)
    close(norm.running_var, oracle.running_var)


def test_renorm_within_its_bounds_trains_on_what_evaluation_uses():
    norm = BatchRenorm(3, 1e6, 1e6, dtype=torch.float64)
    with torch.no_grad():
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
        norm.weight.normal_()
        norm.bias.normal_()
    x = 2 * torch.randn(4, 3, 5, 5, dtype=torch.float64) + 1
    evaluated = norm.eval()(x)
    close(norm.train()(x), evaluated)


@pytest.mark.parametrize("policy", POLICIES)
def test_renorm_definition_with_both_bounds_met(policy):
    norm = BatchRenorm(3, 1.2, 0.3, dtype=torch.float64, statistics_grad=policy)
    x = 2 * torch.randn(4, 3, 5, 5, dtype=torch.float64) + torch.tensor([1.0, 0.1, -1.0]).reshape(3, 1, 1)
    x.requires_grad_()
    out = norm(x)
    dims = (0, 2, 3)
    mean, var = x.mean(dims, keepdim=True), x.var(dims, correction=0, keepdim=True)
    gain = (1 + norm.eps) ** -0.5  # of the running statistics, 0 and 1
    r = ((var + norm.eps).sqrt() * gain).detach().clamp(1 / 1.2, 1.2)
    d = (mean * gain).detach().clamp(-0.3, 0.3)
    assert set(r.flatten().tolist()) == {1.2}
    mean = mean if policy in ("full", "mean_only") else mean.detach()
    var = var if policy in ("full", "var_only") else var.detach()
    expected = (x - mean) / (var + norm.eps).sqrt() * r + d
    close(out, expected)
    g = torch.randn_like(out)
    close(torch.autograd.grad(out, x, g)[0], torch.autograd.grad(expected, x, g)[0], atol=1e-11)


def test_errors():
    refused(InvalidArgument, "ghost_size", GhostBatchNorm, 3, 0)
    refused(InvalidArgument, "r_max", BatchRenorm, 3, r_max=0.5)
    refused(InvalidArgument, "d_max", BatchRenorm, 3, d_max=-1.0)
