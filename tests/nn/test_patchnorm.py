"""PatchNorm against torch.mean and torch.std, its floor, its gradient policies and its two-step fallback."""

import sys

import pytest
import torch

from pellucid.errors import InvalidArgument
from pellucid.nn import PatchNorm
from pellucid.nn.moments import native_is_safe, uses_fused
from tests.refusals import refused

POLICIES = ["full", "detached", "mean_only", "var_only"]


def patches(*shape):
    return torch.rand(*shape, dtype=torch.float64)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("fused", [None, True, False])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("shape", [(6, 1, 8, 8), (6, 3, 8, 8), (2, 4, 1, 8, 8), (1, 8, 8)])
def test_value_and_gradient(policy, fused, per_channel, shape):
    x = patches(*shape).requires_grad_()
    dims = (-2, -1) if per_channel else (-3, -2, -1)
    mean, std = x.mean(dims, keepdim=True), x.std(dims, keepdim=True)
    mean = mean if policy in ("full", "mean_only") else mean.detach()
    std = std if policy in ("full", "var_only") else std.detach()
    expected = (x - mean) / torch.sqrt(std**2 + 0.05**2)
    out = PatchNorm(statistics=policy, floor=0.05, per_channel=per_channel, fused=fused)(x)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    g = torch.randn_like(out)
    got, wanted = (torch.autograd.grad(o, x, g)[0] for o in (out, expected))
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-11)


def test_close_to_the_published_input_norm_on_textured_patches():
    x = patches(16, 1, 32, 32)
    flat = x.flatten(1)
    published = (flat - flat.mean(1, keepdim=True)) / (flat.std(1, keepdim=True) + 1e-7)
    assert (PatchNorm(floor=1e-3)(x).flatten(1) - published).abs().max() < 1e-4


def test_fallback_never_calls_the_fused_reduction(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("fused reduction called")

    for name in ("var_mean", "std_mean", "var", "std", "layer_norm", "batch_norm"):
        monkeypatch.setattr(torch, name, refuse)
    out = PatchNorm(fused=False)(patches(4, 1, 8, 8))
    assert out.isfinite().all()
    refused(AssertionError, "fused", PatchNorm(fused=True), patches(4, 1, 8, 8))


def test_mps_takes_the_two_step_form_by_itself(monkeypatch):
    x = patches(4, 1, 8, 8)
    wanted = PatchNorm()(x)
    for name in ("var_mean", "native_layer_norm", "native_batch_norm"):
        monkeypatch.delattr(torch, name)
    monkeypatch.setattr(sys.modules["pellucid.nn.standardize"], "native_is_safe", lambda device: device.type != "cpu")
    torch.testing.assert_close(PatchNorm()(x), wanted, rtol=0, atol=1e-12)
    assert not native_is_safe(torch.device("mps"))
    assert native_is_safe(torch.device("cuda"))


@pytest.mark.parametrize(("device", "fused"), [("cpu", False), ("mps", False), ("cuda", True), ("xpu", True), ("meta", False)])
def test_device_chooses_the_reduction(device, fused):
    assert uses_fused(torch.device(device)) is fused
    assert uses_fused(torch.device(device), True) is True
    assert uses_fused(torch.device(device), False) is False


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_flat_patches_are_smooth(policy, dtype):
    for value in (0.0, 0.5, 1.0):
        x = torch.full((2, 1, 8, 8), value, dtype=dtype, requires_grad=True)
        out = PatchNorm(statistics=policy)(x)
        (grad,) = torch.autograd.grad(out, x, torch.randn(2, 1, 8, 8).to(dtype))
        assert (out == 0).all()
        assert grad.isfinite().all()
        assert grad.abs().max() < 4.5 / 1e-2  # the gain is 1 / floor


def test_gain_of_noise_is_bounded_by_the_floor():
    noise = 1e-6 * torch.randn(4, 1, 16, 16, dtype=torch.float64)
    assert PatchNorm(floor=1e-2)(0.5 + noise).abs().max() < 1e-3
    flat = (0.5 + noise).flatten(1)
    assert ((flat - flat.mean(1, keepdim=True)) / (flat.std(1, keepdim=True) + 1e-7)).abs().max() > 1


def test_masked_pixels():
    x = patches(3, 1, 8, 8)
    mask = torch.rand(3, 1, 8, 8) < 0.6
    out = PatchNorm()(torch.where(mask, x, float("nan")), mask=mask)
    kept = x[1][mask[1]]
    torch.testing.assert_close(out[1][mask[1]], (kept - kept.mean()) / (kept.var() + 1e-4).sqrt(), rtol=0, atol=1e-12)
    assert (out[~mask] == 0).all()


def test_weight_gradients_of_what_follows_do_not_depend_on_the_policy():
    x = patches(4, 1, 8, 8)
    weight = torch.randn(2, 1, 3, 3, dtype=torch.float64, requires_grad=True)
    grads = [
        torch.autograd.grad(torch.conv2d(PatchNorm(statistics=p, fused=False)(x), weight).square().sum(), weight)[0]
        for p in ("full", "detached")
    ]
    assert torch.equal(*grads)


def test_errors_and_repr():
    refused(InvalidArgument, "floor", PatchNorm, floor=0.0)
    refused(InvalidArgument, "channels, height, width", PatchNorm(), torch.zeros(4, 64))
    assert "floor=0.01" in repr(PatchNorm())
