"""The noise in Triton is the reference's noise, bit for bit, and its gradients are the reference's."""

import pytest
import torch

from pellucid.kernels import dispatch
from pellucid.kernels.blend import gaussian_field, noise

from .interpreted import DEVICE, runs  # noqa: F401
from .primitives import gradients
from .test_noise import noises


@pytest.fixture(autouse=True)
def anywhere(monkeypatch):
    """Explicitly chosen, the kernels run on the tests' device."""
    monkeypatch.setattr(dispatch, "_runs_on", lambda name, device: True)


def on_device(tensors):
    return [t.to(DEVICE) for t in tensors]


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (2, 33, 34)])
def test_the_field_is_the_references_bit_for_bit(shape):
    words = torch.randint(1 << 32, (3, 2)).to(DEVICE)
    ours, theirs = (gaussian_field(words, shape, torch.float32, impl=impl) for impl in ("triton", "reference"))
    assert torch.equal(ours, theirs)
    ours, theirs = (gaussian_field(words, shape, torch.float64, impl=impl) for impl in ("triton", "reference"))
    torch.testing.assert_close(ours, theirs, rtol=5e-16, atol=0)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("rows", [1, None])
def test_noise_and_its_gradients(clip, rows):
    tensors = on_device(noises(size=(20, 31), rows=rows, dtype=torch.float32))
    ours, theirs = (gradients(noise, tensors, clip=clip, impl=impl) for impl in ("triton", "reference"))
    assert torch.equal(ours[0], theirs[0])
    assert torch.equal(ours[1], theirs[1])
    tensors = on_device(noises(size=(20, 31), rows=rows))
    for ours, theirs in zip(*(gradients(noise, tensors, clip=clip, impl=impl) for impl in ("triton", "reference")), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-15, rtol=1e-12)


def test_layouts_dtypes_parts_and_empty_batches():
    image, words, mean, sigma = on_device(noises(dtype=torch.float32))
    last = image.contiguous(memory_format=torch.channels_last)
    assert torch.equal(noise(last, words, mean, sigma, impl="triton"), noise(image, words, mean, sigma, impl="reference"))
    half = noise(image.half(), words, mean.half(), sigma.half(), impl="triton")
    assert half.dtype == torch.float16
    assert noise(image[:0], words[:0], mean[:0], sigma[:0], impl="triton").shape == (0, 3, 9, 11)
    whole = gradients(noise, (image, words, mean, sigma), clip=True, impl="triton")[1:]
    for place in (0, 2, 3):
        leaves = [t.clone().requires_grad_(i == place) if i != 1 else t for i, t in enumerate((image, words, mean, sigma))]
        weights = torch.randn(image.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(image)
        (found,) = torch.autograd.grad(noise(*leaves, clip=True, impl="triton"), leaves[place], weights)
        assert torch.equal(found, whole[max(place - 1, 0)])


def test_operators():
    tensors = on_device(noises(size=(3, 5)))
    torch.library.opcheck(torch.ops.pellucid.triton_noise.default, (*tensors, 1))
    torch.library.opcheck(torch.ops.pellucid.triton_noise_backward.default, (tensors[0], *tensors, 1, [True, False, True, True]))
    words = torch.randint(1 << 32, (2, 3, 2)).to(DEVICE)
    torch.library.opcheck(torch.ops.pellucid.triton_gaussian_field.default, (words[0], [2, 3, 5], torch.float64))
    mapped = torch.func.vmap(lambda w: gaussian_field(w, (2, 3, 5), torch.float32, impl="triton"))(words)
    assert torch.equal(mapped[1], gaussian_field(words[1], (2, 3, 5), torch.float32, impl="reference"))


def test_second_derivatives_go_through_the_reference():
    found = []
    for impl in ("triton", "reference"):
        leaves = [t.requires_grad_() if t.is_floating_point() else t for t in on_device(noises(size=(3, 4)))]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        first = torch.autograd.grad(noise(*leaves, impl=impl).square().sum(), wanted, create_graph=True)
        found.append(torch.autograd.grad(sum(f.sin().sum() for f in first), wanted, materialize_grads=True))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
