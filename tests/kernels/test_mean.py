"""The mean colour's gradient joins the pass's where it lies, and nothing else is written to."""

import pytest
import torch

from pellucid import ColorJitter, Key, Pipeline, RandomAffine, RandomResizedCrop
from pellucid.kernels.color import with_mean

TRANSFORMS = {
    "warp": [RandomAffine(30), ColorJitter(contrast=0.5)],
    "colour alone": [ColorJitter(contrast=0.5)],
    "more than one pass of colour": [ColorJitter(contrast=0.5), RandomAffine(30), ColorJitter(hue=0.2)],
    "crop": [RandomResizedCrop((13, 9), antialias=True), ColorJitter(contrast=0.5)],
    "clipped": [ColorJitter(0.5, 0.5, 0.5, 0.2, clip="end")],
}


def photos(dtype=torch.float32, batch=3):
    return torch.rand(batch, 3, 17, 12, dtype=dtype, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_gradients_are_those_of_the_reference(name, layout):
    found = []
    for impl in ("cpu", "reference"):
        x = photos(torch.float64).contiguous(memory_format=layout).requires_grad_()
        out = Pipeline(TRANSFORMS[name], impl=impl)(x, key=Key(1, 2))
        found += torch.autograd.grad(out, x, torch.arange(out.numel(), dtype=torch.float64).reshape(out.shape).sin())
    torch.testing.assert_close(*found, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_what_others_hold_is_left_alone(name):
    x = photos().requires_grad_()
    before = 2 * x
    before.retain_grad()
    out = Pipeline(TRANSFORMS[name])(before, key=Key(1, 2))
    grad = torch.randn(out.shape)
    kept = grad.clone()
    out.backward(grad, retain_graph=True)
    first, held = x.grad.clone(), before.grad
    seen = held.clone()
    out.backward(grad)
    assert torch.equal(grad, kept)
    assert torch.equal(x.grad, 2 * first)
    assert torch.equal(before.grad, 2 * seen)


def test_either_result_may_go_unused():
    x = photos(torch.float64).requires_grad_()
    (to_mean,) = torch.autograd.grad(with_mean(x)[1].sum(), x)
    torch.testing.assert_close(to_mean, torch.full_like(x, 1 / (17 * 12)))
    (to_image,) = torch.autograd.grad((with_mean(x)[0] ** 2).sum(), x)
    assert torch.equal(to_image, 2 * x)


def test_second_derivatives():
    x = photos(torch.float64, 1)[:, :, :4, :3].clone().requires_grad_()
    pipeline = Pipeline(TRANSFORMS["warp"], impl="cpu")
    assert torch.autograd.gradgradcheck(lambda image: pipeline(image, key=Key(1, 2)).sin(), x)


def test_batched_gradients():
    x = photos(torch.float64).requires_grad_()
    out = Pipeline(TRANSFORMS["warp"])(x, key=Key(1, 2))
    grads = torch.randn(2, *out.shape, dtype=torch.float64)
    (together,) = torch.autograd.grad(out, x, grads, is_grads_batched=True, retain_graph=True)
    for grad, found in zip(grads, together, strict=True):
        torch.testing.assert_close(found, *torch.autograd.grad(out, x, grad, retain_graph=True), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_gives_the_same_bits(threads):
    x = torch.rand(2, 3, 300, 260, generator=torch.Generator().manual_seed(1)).requires_grad_()
    before = torch.get_num_threads()
    found = []
    try:
        for count in (1, threads):
            torch.set_num_threads(count)
            out = Pipeline(TRANSFORMS["warp"])(x, key=Key(1, 2))
            found += torch.autograd.grad(out.square().sum(), x)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)
