"""convert_batchnorm: same function, same parameters, another gradient."""

import pytest
import torch
from torch import nn

from pellucid.errors import InvalidArgument
from pellucid.nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm, convert_batchnorm


def model():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.Sequential(nn.ReLU(), nn.BatchNorm2d(4, affine=False, momentum=None)),
        nn.Flatten(),
    ).double()


def test_full_policy_changes_nothing_detached_changes_the_input_gradient():
    x = torch.randn(4, 3, 6, 6, dtype=torch.float64)
    runs = {}
    for policy in (None, "full", "detached"):
        net = model()
        names = list(net.state_dict())
        if policy:
            assert convert_batchnorm(net, statistics_grad=policy) is net
        assert list(net.state_dict()) == names
        leaf = x.clone().requires_grad_()
        out = net(leaf)
        runs[policy] = out.detach(), torch.autograd.grad(out.square().sum(), leaf)[0], net.state_dict()
    for policy in ("full", "detached"):
        torch.testing.assert_close(runs[policy][0], runs[None][0], rtol=0, atol=1e-12)
        for p, q in zip(runs[policy][2].values(), runs[None][2].values(), strict=True):
            torch.testing.assert_close(p, q, rtol=0, atol=1e-12)
    torch.testing.assert_close(runs["full"][1], runs[None][1], rtol=0, atol=1e-11)
    assert (runs["detached"][1] - runs[None][1]).abs().max() > 0.1


def test_shares_tensors_and_keeps_options():
    old = nn.BatchNorm2d(4, eps=0.1, momentum=0.3).eval()
    old.weight.requires_grad_(False)
    new = convert_batchnorm(old, statistics_grad="var_only")
    assert isinstance(new, BatchNorm2d)
    assert new.weight is old.weight
    assert new.running_var is old.running_var
    assert new.num_batches_tracked is old.num_batches_tracked
    assert (new.eps, new.momentum, new.training, new.statistics_grad) == (0.1, 0.3, False, "var_only")
    assert not new.weight.requires_grad


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(nn.BatchNorm1d, BatchNorm1d), (nn.BatchNorm3d, BatchNorm3d), (nn.SyncBatchNorm, SyncBatchNorm)],
)
def test_every_class(theirs, ours):
    assert type(convert_batchnorm(theirs(2))) is ours


def test_a_norm_used_twice_stays_one_and_ours_take_the_policy():
    shared = nn.BatchNorm1d(2)
    net = convert_batchnorm(nn.ModuleList([shared, nn.ModuleList([shared]), BatchNorm1d(2)]), statistics_grad="mean_only")
    assert net[0] is net[1][0]
    assert net[2].statistics_grad == "mean_only"


def test_unknown_norms_are_named_before_anything_is_touched():
    class Custom(nn.BatchNorm2d):
        pass

    net = nn.Sequential(nn.BatchNorm2d(2), Custom(2))
    with pytest.raises(InvalidArgument, match=r"module '1'.*Custom.*skip"):
        convert_batchnorm(net)
    assert type(net[0]) is nn.BatchNorm2d
    convert_batchnorm(net, skip=(Custom,))
    assert type(net[0]) is BatchNorm2d
    assert type(net[1]) is Custom
