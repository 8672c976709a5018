"""The corners of batch normalisation: narrow dtypes, nothing to normalise, one norm in two places, torch's own conversions."""

import copy

import pytest
import torch
from torch import nn

from pellucid.errors import InvalidArgument
from pellucid.nn import (
    BagNorm,
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    BatchRenorm,
    DropoutBatchNorm,
    GhostBatchNorm,
    SyncBatchNorm,
    convert_batchnorm,
)

POLICIES = ("full", "detached", "mean_only", "var_only")
NORMS = {
    "BatchNorm2d": BatchNorm2d,
    "SyncBatchNorm": SyncBatchNorm,
    "GhostBatchNorm": lambda c, **kw: GhostBatchNorm(c, ghost_size=8, **kw),
    "BatchRenorm": BatchRenorm,
    "DropoutBatchNorm": lambda c, **kw: DropoutBatchNorm(c, p=0.0, **kw),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_precision_module_trains_like_its_float64_twin(name, policy, dtype):
    torch.manual_seed(0)
    norm = NORMS[name](3, statistics_grad=policy)
    nn.init.uniform_(norm.weight, 0.5, 2.0)
    nn.init.uniform_(norm.bias, -1.0, 1.0)
    norm.to(dtype)
    twin = copy.deepcopy(norm).double()
    x = torch.randn(32, 3, 4, 4).to(dtype).requires_grad_()
    wide = x.detach().double().requires_grad_()
    g = torch.randn(32, 3, 4, 4).to(dtype)
    out, expected = norm(x), twin(wide)
    assert out.dtype == dtype
    grads = torch.autograd.grad(out, (x, norm.weight, norm.bias), g)
    wanted = torch.autograd.grad(expected, (wide, twin.weight, twin.bias), g.double())
    eps = torch.finfo(dtype).eps
    for got, want in zip((out, *grads), (expected, *wanted), strict=True):
        assert got.dtype == dtype
        assert (got.double() - want).abs().max() <= 2 * eps * want.abs().max()
    for got, want in ((norm.running_mean, twin.running_mean), (norm.running_var, twin.running_var)):
        torch.testing.assert_close(got.double(), want, rtol=2 * eps, atol=2 * eps)
    norm.eval()
    assert norm(x).dtype == dtype


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", NORMS)
def test_an_empty_batch_leaves_running_statistics_alone_as_in_torch(name, policy, momentum):
    theirs = nn.BatchNorm2d(2, momentum=momentum)
    ours = NORMS[name](2, momentum=momentum, statistics_grad=policy)
    batch = torch.randn(4, 2, 3, 3) + 3
    for norm in (theirs, ours):
        for part in (batch, batch[:0], batch + 1):
            leaf = part.clone().requires_grad_()
            out = norm(leaf)
            assert out.shape == part.shape
            out.sum().backward()
    for key, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[key], value)


@pytest.mark.parametrize("dims", [(), (5,), (0,)])
def test_a_bag_norm_of_no_instances_gives_none(dims):
    norm = BagNorm(4)
    x = torch.zeros(0, 4, *dims, requires_grad=True)
    for num_bags in (None, 0, 2):
        out = norm(x, torch.zeros(0, dtype=torch.int64), num_bags=num_bags)
        assert out.shape == x.shape
        out.sum().backward()
    assert norm(x, torch.zeros(0, dtype=torch.int32), mask=torch.zeros(0, dtype=torch.bool)).shape == x.shape


def test_a_norm_shared_under_one_parent_is_converted_in_both_places():
    shared = nn.BatchNorm2d(3)
    net = convert_batchnorm(nn.Sequential(shared, nn.ReLU(), shared))
    assert type(net[0]) is BatchNorm2d
    assert net[2] is net[0]


def test_a_ghost_norm_in_evaluation_exports_with_a_dynamic_batch():
    norm = GhostBatchNorm(3, ghost_size=4)
    norm(torch.randn(8, 3, 4, 4))
    norm.eval()
    program = torch.export.export(norm, (torch.randn(6, 3, 4, 4),), dynamic_shapes=({0: torch.export.Dim("b")},))
    x = torch.randn(11, 3, 4, 4)
    torch.testing.assert_close(program.module()(x), norm(x))


@pytest.mark.parametrize(
    "norm",
    [BatchNorm1d(2), BatchNorm2d(2), BatchNorm3d(2), SyncBatchNorm(2), GhostBatchNorm(2), BatchRenorm(2), DropoutBatchNorm(2)],
)
def test_torch_does_not_turn_ours_into_its_own_sync_norm(norm):
    with pytest.raises(InvalidArgument, match=rf"{type(norm).__name__}.*convert_batchnorm"):
        nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(norm))
    assert not hasattr(norm, "qconfig")  # quantisation asks for it, too, and may set it
    norm.qconfig = "mine"
    assert copy.deepcopy(norm).qconfig == "mine"


def test_the_way_to_synchronised_statistics_that_the_error_names():
    net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2d(2)))
    assert type(convert_batchnorm(net, statistics_grad="var_only")[0]) is SyncBatchNorm
