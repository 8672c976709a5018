"""The separable filter in Triton: the reference's sums, its adjoint, and its kernels' gradients."""

import pytest
import torch

from pellucid.kernels import dispatch
from pellucid.kernels.convolve import separable

from .interpreted import DEVICE, runs  # noqa: F401
from .primitives import gradients


@pytest.fixture(autouse=True)
def anywhere(monkeypatch):
    """Explicitly chosen, the kernels run on the tests' device."""
    monkeypatch.setattr(dispatch, "_runs_on", lambda name, device: True)


def example(size, taps, rows=2, dtype=torch.float64):
    kernels = (torch.randn(rows, count, dtype=dtype) for count in taps)
    return [t.to(DEVICE) for t in (torch.randn(2, 3, *size, dtype=dtype), *kernels)]


SIZES = (((9, 11), (3, 5)), ((10, 35), (7, 1)), ((2, 3), (5, 7)), ((1, 4), (9, 3)), ((4, 1), (3, 11)))


@pytest.mark.parametrize(("size", "taps"), SIZES)
@pytest.mark.parametrize("rows", [1, 2])
def test_equals_the_reference_in_double(size, taps, rows):
    tensors = example(size, taps, rows)
    found = (gradients(separable, tensors, impl=impl) for impl in ("triton", "reference"))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-12)


def test_the_bits_of_the_reference_in_single_precision():
    tensors = example((20, 41), (5, 7), dtype=torch.float32)
    tensors[0] = tensors[0].contiguous(memory_format=torch.channels_last)
    assert torch.equal(separable(*tensors, impl="triton"), separable(*tensors, impl="reference"))
    half = separable(tensors[0].half(), tensors[1].half(), tensors[2].half(), impl="triton")
    assert half.dtype == torch.float16
    assert separable(tensors[0][:0], tensors[1][:0], tensors[2][:0], impl="triton").shape == (0, 3, 20, 41)


def test_adjoint_and_same_bits():
    x, vertical, horizontal = example((7, 9), (5, 5))
    x.requires_grad_()
    out = separable(x, vertical, horizontal, impl="triton")
    y = torch.randn_like(out)
    back = [torch.autograd.grad(out, x, y, retain_graph=True)[0] for _ in range(3)]
    assert abs((out * y).sum() - (x * back[0]).sum()) <= 1e-11 * out.abs().sum()
    assert torch.equal(back[0], back[1])
    assert torch.equal(back[0], back[2])


def test_operators():
    tensors = example((3, 5), (3, 3))
    torch.library.opcheck(torch.ops.pellucid.triton_separable.default, tuple(tensors))
    backward = torch.ops.pellucid.triton_separable_backward.default
    for needs in ([True, True, True], [True, False, False], [False, True, False]):
        torch.library.opcheck(backward, (tensors[0], *tensors, needs))


def test_maps_and_second_derivatives():
    tensors = example((3, 4), (3, 3), rows=1)
    stacked = [torch.stack((t, t * 1.5)) for t in tensors]
    grad = torch.func.grad(lambda *t: separable(*t, impl="triton").square().sum(), argnums=(0, 1, 2))
    mapped = torch.func.vmap(grad)(*stacked)
    for lane in range(2):
        for many, one in zip(mapped, grad(*[t[lane] for t in stacked]), strict=True):
            torch.testing.assert_close(many[lane], one)
    found = []
    for impl in ("triton", "reference"):
        leaves = [t.detach().requires_grad_() for t in tensors]
        first = torch.autograd.grad(separable(*leaves, impl=impl).square().sum(), leaves, create_graph=True)
        found.append(torch.autograd.grad(sum(f.sin().sum() for f in first), leaves))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
