"""HardNet against kornia's, its weights' names, its gradients and its edges."""

import pickle

import pytest
import torch
import torch.nn.functional as F

from pellucid import InvalidArgument, InvalidType
from pellucid.features import HardNet
from tests.refusals import refused

kornia_feature = pytest.importorskip("kornia.feature")


def trained_a_little(net):
    """Give the running statistics values of their own, so that a confusion between layers shows."""
    net.train()
    for step in range(3):
        net(torch.rand(16, 1, 32, 32, generator=torch.Generator().manual_seed(step)))
    return net.eval()


@pytest.mark.parametrize("train", [False, True])
def test_equals_kornia_with_its_weights(train):
    theirs = trained_a_little(kornia_feature.HardNet(pretrained=False))
    ours = HardNet(floor=1e-6, dropout=0.0, seed=3)
    ours.load_state_dict(theirs.state_dict())
    theirs.features[18].p = 0.0
    patches = torch.rand(20, 1, 32, 32)
    assert torch.allclose(ours.train(train)(patches), theirs.train(train)(patches), atol=1e-5)


def test_kornia_loads_ours_and_the_default_floor_changes_little():
    ours = trained_a_little(HardNet())
    theirs = kornia_feature.HardNet(pretrained=False).eval()
    theirs.load_state_dict(ours.state_dict())
    patches = torch.rand(20, 1, 32, 32)
    assert torch.allclose(ours(patches), theirs(patches), atol=1e-4)


def test_a_checkpoint_of_the_original_repository_loads():
    # Saved before torch counted batches: no num_batches_tracked, and the weights inside an entry of the file.
    saved = {k: v for k, v in HardNet(seed=1).state_dict().items() if not k.endswith("num_batches_tracked")}
    ours = HardNet(seed=2)
    ours.load_state_dict(saved)
    assert torch.equal(ours.features[19].weight, saved["features.19.weight"])


def test_initial_weights_are_orthogonal_seeded_and_leave_the_global_generator_alone():
    before = torch.get_rng_state()
    first, again, other = HardNet(seed=5), HardNet(seed=5), HardNet(seed=6)
    assert torch.equal(before, torch.get_rng_state())
    weight = first.features[19].weight.detach().flatten(1)
    assert torch.allclose(weight @ weight.T, 0.36 * torch.eye(128), atol=1e-5)
    assert torch.equal(first.features[3].weight, again.features[3].weight)
    assert not torch.equal(first.features[3].weight, other.features[3].weight)


def test_width():
    assert sum(p.numel() for p in HardNet(width=0.5).parameters()) == 595_856
    assert HardNet(width=1 / 32)(torch.rand(4, 1, 32, 32)).shape == (4, 128)
    refused(InvalidArgument, "width", HardNet, width=0.01)


def gradients(statistics, patches):
    net = HardNet(width=0.25, statistics=statistics, dropout=0.0).double()
    patches = patches.clone().requires_grad_()
    out = net(patches)
    target = F.normalize(torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=out.dtype), dim=1)
    loss = (out * target).sum()
    weights = list(net.parameters())
    return out, torch.autograd.grad(loss, [patches, *weights])


def test_statistics_change_the_gradient_of_the_patches_and_nothing_else():
    patches = torch.rand(6, 1, 32, 32, dtype=torch.float64)
    out, (patch_grad, *weight_grads) = gradients("detached", patches)
    same, (full_grad, *same_grads) = gradients("full", patches)
    assert torch.allclose(out, same, atol=1e-12)
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(weight_grads, same_grads, strict=True))
    # The full gradient is orthogonal to brightness and (with this small floor) contrast; the detached one is not.
    centred = patches - patches.mean((1, 2, 3), keepdim=True)
    assert full_grad.sum((1, 2, 3)).abs().max() < 1e-10
    assert (full_grad * centred).sum((1, 2, 3)).abs().max() < 1e-4 * (patch_grad * centred).sum((1, 2, 3)).abs().max()
    assert patch_grad.sum((1, 2, 3)).abs().max() > 1e-3


def test_full_statistics_agree_with_finite_differences():
    net = trained_a_little(HardNet(width=0.125, statistics="full")).double()
    target = torch.randn(2, 128, dtype=torch.float64)
    patches = torch.rand(2, 1, 32, 32, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad((net(patches) * target).sum(), patches)
    direction, h = torch.randn_like(patches), 1e-6
    with torch.no_grad():
        change = ((net(patches + h * direction) - net(patches - h * direction)) * target).sum() / (2 * h)
    assert torch.isclose((grad * direction).sum(), change, rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0, 255.0])
def test_flat_patches_are_finite(value):
    patches = torch.full((3, 1, 32, 32), value, requires_grad=True)
    for train in (False, True):
        out = HardNet(width=0.25).train(train)(patches)
        (grad,) = torch.autograd.grad(out.sum(), patches)
        assert bool(out.isfinite().all())
        assert bool(grad.isfinite().all())


def test_half_precision_gives_unit_descriptors():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = HardNet(width=0.25).eval()(torch.rand(4, 1, 32, 32))
    assert out.dtype == torch.float32
    assert torch.allclose(out.norm(dim=1), torch.ones(4), atol=1e-6)


def test_memory_layout_changes_nothing_but_rounding():
    net, patches = HardNet(width=0.25).eval(), torch.rand(4, 1, 32, 32)
    expected = net(patches)
    assert torch.allclose(net.to(memory_format=torch.channels_last)(patches), expected, atol=1e-6)
    assert torch.allclose(pickle.loads(pickle.dumps(net))(patches), expected, atol=1e-6)


def test_wrong_patches():
    refused(InvalidArgument, "32", HardNet(width=0.25), torch.rand(2, 3, 32, 32))
    refused(InvalidType, "patches", HardNet(width=0.25), torch.zeros(2, 1, 32, 32, dtype=torch.uint8))


def test_no_patches():
    assert HardNet(width=0.25).eval()(torch.rand(0, 1, 32, 32)).shape == (0, 128)


@pytest.mark.slow
def test_compiles_as_one_graph():
    net, patches = HardNet(width=0.25).eval(), torch.rand(4, 1, 32, 32)
    assert torch.allclose(torch.compile(net, fullgraph=True)(patches), net(patches), atol=1e-5)
