"""BatchNorm1d/2d/3d against torch.nn's, and each gradient policy against its closed form."""

import copy

import pytest
import torch
from torch import nn

from pellucid.errors import InvalidArgument
from pellucid.nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, PatchNorm
from tests.refusals import refused

POLICIES = ["full", "detached", "mean_only", "var_only"]
PAIRS = [
    (BatchNorm1d, nn.BatchNorm1d, (6, 3)),
    (BatchNorm1d, nn.BatchNorm1d, (6, 3, 5)),
    (BatchNorm2d, nn.BatchNorm2d, (6, 3, 5, 4)),
    (BatchNorm3d, nn.BatchNorm3d, (6, 3, 2, 3, 4)),
]
OPTIONS = [
    {},
    {"momentum": None},
    {"momentum": 0.37, "eps": 1e-3},
    {"affine": False},
    {"track_running_stats": False},
    {"momentum": None, "affine": False},
]


def twins(ours, theirs, options):
    oracle = theirs(3, dtype=torch.float64, **options)
    if oracle.affine:
        with torch.no_grad():
            oracle.weight.normal_()
            oracle.bias.normal_()
    mine = ours(3, dtype=torch.float64, **options)
    mine.load_state_dict(oracle.state_dict())
    return mine, oracle


def run(module, x, g, **kwargs):
    x = x.clone().requires_grad_()
    leaves = [x, *module.parameters()]
    out = module(x, **kwargs)
    return out.detach(), torch.autograd.grad(out, leaves, g)


def close(a, b, atol=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("ours", "theirs", "shape"), PAIRS)
def test_torch_in_value_gradient_and_state(ours, theirs, shape, options, policy):
    """Every policy has torch's forward pass and state; "full" also has its gradients."""
    mine, oracle = twins(ours, theirs, options)
    mine.statistics_grad = policy
    for step in range(3):
        x, g = 2 * torch.randn(shape, dtype=torch.float64) + step, torch.randn(shape, dtype=torch.float64)
        (a, da), (b, db) = run(mine, x, g), run(oracle, x, g)
        close(a, b)
        # scale and shift never depend on the policy, the input only under "full"
        for p, q in list(zip(da, db, strict=True))[0 if policy == "full" else 1 :]:
            close(p, q)
        for (name, p), (other, q) in zip(mine.state_dict().items(), oracle.state_dict().items(), strict=True):
            assert name == other
            assert p.dtype == q.dtype
            close(p, q)
    mine.eval()
    oracle.eval()
    x, g = torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)
    if not oracle.track_running_stats and policy != "full":
        return  # normalises with the batch in eval, too: the policy shows
    for p, q in zip((run(mine, x, g)[0], *run(mine, x, g)[1]), (run(oracle, x, g)[0], *run(oracle, x, g)[1]), strict=True):
        close(p, q)


@pytest.mark.parametrize("policy", POLICIES)
def test_gradient_of_each_policy(policy):
    norm = BatchNorm2d(3, dtype=torch.float64, statistics_grad=policy)
    with torch.no_grad():
        norm.weight.normal_()
    x, g = torch.randn(5, 3, 4, 4, dtype=torch.float64), torch.randn(5, 3, 4, 4, dtype=torch.float64)
    dims = (0, 2, 3)
    sigma = (x.var(dims, correction=0, keepdim=True) + norm.eps).sqrt()
    xhat = (x - x.mean(dims, keepdim=True)) / sigma
    gy = g * norm.weight.detach().reshape(1, 3, 1, 1)
    expected = gy
    if policy in ("full", "mean_only"):
        expected = expected - gy.mean(dims, keepdim=True)
    if policy in ("full", "var_only"):
        expected = expected - xhat * (gy * xhat).mean(dims, keepdim=True)
    close(run(norm, x, g)[1][0], expected / sigma, atol=1e-11)


@pytest.mark.parametrize(
    "norm", [BatchNorm2d(3, statistics_grad="detached").double(), PatchNorm(), PatchNorm(fused=False)], ids=repr
)
def test_second_derivative_of_a_detached_norm_is_that_of_its_surrogate(norm):
    """Finite differences cannot show it; a graph with explicit constants can."""
    x = torch.rand(5, 3, 4, 4, dtype=torch.float64, requires_grad=True)
    patch = isinstance(norm, PatchNorm)
    dims, correction, eps = ((1, 2, 3), 1, norm.floor**2) if patch else ((0, 2, 3), 0, norm.eps)
    constant = x.detach()
    sigma = (constant.var(dims, correction=correction, keepdim=True) + eps).sqrt()
    explicit = (x - constant.mean(dims, keepdim=True)) / sigma
    seconds = []
    for out in (norm(x), explicit):
        (first,) = torch.autograd.grad(out.pow(3).sum(), x, create_graph=True)
        seconds.append((first, torch.autograd.grad(first.square().sum(), x)[0]))
    torch.testing.assert_close(*seconds, rtol=1e-10, atol=1e-10)


def test_discussion_example():
    """A batch of 10x3x4x4 and |y|.sum(): undetached gradients are torch's, detached ones are far away."""
    x = torch.randn(10, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    grads = {}
    for name, norm in {"torch": nn.BatchNorm2d(3), **{p: BatchNorm2d(3, statistics_grad=p) for p in POLICIES}}.items():
        leaf = x.clone().requires_grad_()
        norm(leaf).abs().sum().backward()
        grads[name] = leaf.grad
    assert (grads["full"] - grads["torch"]).abs().max() < 1e-6
    assert (grads["detached"] - grads["torch"]).abs().max() > 1


@pytest.mark.parametrize("policy", POLICIES)
def test_statistics_from_another_tensor(policy):
    """Values and running statistics are the source's; gradients reach the source as the policy says."""
    norm, oracle = twins(BatchNorm2d, nn.BatchNorm2d, {})
    norm.statistics_grad = policy
    x = torch.randn(4, 3, 5, 5, dtype=torch.float64, requires_grad=True)
    source = (2 * torch.randn(7, 3, 2, 2, dtype=torch.float64) + 1).requires_grad_()
    out = norm(x, statistics_from=source)
    oracle(source)
    close(norm.running_mean, oracle.running_mean)
    close(norm.running_var, oracle.running_var)
    dims = (0, 2, 3)
    mean, var = source.mean(dims, keepdim=True), source.var(dims, correction=0, keepdim=True)
    mean = mean if policy in ("full", "mean_only") else mean.detach()
    var = var if policy in ("full", "var_only") else var.detach()
    expected = (x - mean) / (var + norm.eps).sqrt() * oracle.weight.reshape(1, 3, 1, 1) + oracle.bias.reshape(1, 3, 1, 1)
    close(out, expected)
    g = torch.randn_like(out)
    got = torch.autograd.grad(out, [x, source], g, allow_unused=True)
    wanted = torch.autograd.grad(expected, [x, source], g, allow_unused=True)
    assert (got[1] is None) == (wanted[1] is None) == (policy == "detached")
    for p, q in zip(got, wanted, strict=True):
        if p is not None:
            close(p, q, atol=1e-11)


def test_masked_batch_equals_the_batch_without_padding():
    norm, oracle = twins(BatchNorm1d, nn.BatchNorm1d, {})
    x = torch.randn(6, 3, dtype=torch.float64)
    padded = torch.cat([x, torch.full((5, 3), float("nan"), dtype=torch.float64)])
    mask = (torch.arange(11) < 6)[:, None]
    out = norm(padded, mask=mask)
    close(out[:6], oracle(x))
    assert (out[6:] == 0).all()
    for p, q in zip(norm.state_dict().values(), oracle.state_dict().values(), strict=True):
        close(p, q)
    norm.eval()
    oracle.eval()
    close(norm(padded, mask=mask)[:6], oracle(x))


def test_a_batch_of_padding_leaves_the_running_statistics_alone():
    norm = BatchNorm1d(3)
    norm(torch.randn(8, 3))
    before = norm.running_mean.clone(), norm.running_var.clone()
    norm(torch.full((8, 3), float("nan")), mask=torch.zeros(8, 1, dtype=torch.bool))
    assert torch.equal(norm.running_mean, before[0])
    assert torch.equal(norm.running_var, before[1])


@pytest.mark.parametrize("policy", POLICIES)
def test_half_and_bfloat16(policy):
    for dtype in (torch.float16, torch.bfloat16):
        norm = BatchNorm2d(3, statistics_grad=policy)
        flat = torch.full((4, 3, 2, 2), 3.0, dtype=dtype, requires_grad=True)
        out = norm(flat)
        out.sum().backward()
        assert out.dtype == dtype
        assert out.isfinite().all()
        assert flat.grad.isfinite().all()
        assert norm.running_mean.dtype == torch.float32


def test_is_found_as_a_batch_norm_and_copies():
    norm = BatchNorm2d(3, statistics_grad="detached")
    assert isinstance(norm, nn.BatchNorm2d)
    assert "statistics_grad='detached'" in repr(norm)
    assert copy.deepcopy(norm).statistics_grad == "detached"
    loader = [torch.randn(8, 3, 2, 2) for _ in range(3)]
    torch.optim.swa_utils.update_bn(loader, norm)
    close(norm.running_mean, torch.stack([b.mean((0, 2, 3)) for b in loader]).mean(0), atol=1e-6)


def test_errors():
    refused(InvalidArgument, "4 dimensions", BatchNorm2d(3), torch.zeros(2, 3, 4))
    refused(InvalidArgument, "more than one value per channel", BatchNorm1d(3), torch.zeros(1, 3))
    refused(InvalidArgument, "3 channels", BatchNorm2d(3), torch.zeros(2, 4, 4, 4))
    refused(InvalidArgument, "statistics_from", BatchNorm2d(3), torch.zeros(2, 3, 4, 4), statistics_from=torch.zeros(2, 4, 4, 4))
    refused(InvalidArgument, "statistics_grad", BatchNorm2d, 3, statistics_grad="none")
