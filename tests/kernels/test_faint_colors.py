"""Colours that are nearly black, as a blur leaves them around a picture: hue turns them as it turns bright ones."""

import pytest
import torch

from pellucid import HueSaturationValue, Key, Pipeline
from pellucid import functional as PF
from pellucid.kernels import warp as kernel
from pellucid.segments.chain import HueStage

from .interpreted import runs  # noqa: F401

SCALES = [1e-10, 1e-19, 1e-25, 1e-36]


def turned(image, impl, upstream):
    leaf, shift = image.clone().requires_grad_(), torch.tensor([0.13], dtype=image.dtype, requires_grad=True)
    recipe = kernel.pack(torch.eye(2, 3, dtype=image.dtype)[None], size=image.shape[-2:], epilogue=[HueStage(shift)])
    out = kernel.compute(impl, leaf, recipe)
    return out.detach(), *torch.autograd.grad(out, (leaf, shift), upstream)


@pytest.mark.parametrize("impl", ["reference", "cpu", "triton"])
@pytest.mark.parametrize("scale", SCALES)
def test_faint_colors_are_turned_like_bright_ones(impl, scale):
    """A hue rotation of s x is s times that of x, and its derivative is the same."""
    image, upstream = torch.rand(1, 3, 6, 7), torch.randn(1, 3, 6, 7)
    out, to_image, to_shift = turned(image, impl, upstream)
    faint, to_faint, faint_shift = turned(image * scale, impl, upstream)
    torch.testing.assert_close(faint / scale, out, rtol=0, atol=1e-5)
    torch.testing.assert_close(to_faint, to_image, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(faint_shift / scale, to_shift, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("impl", ["reference", "cpu", "triton"])
@pytest.mark.parametrize("scale", [1e-38, 1e-39, 1e-42, 1e-45])
def test_what_no_number_can_tell_from_grey_stays_finite(impl, scale):
    for found in turned(torch.rand(1, 3, 6, 7) * scale, impl, torch.randn(1, 3, 6, 7)):
        assert torch.isfinite(found).all()


@pytest.mark.parametrize("scale", [*SCALES, 1e-38, 1e-42, 1e-45])
@pytest.mark.parametrize("call", [PF.rgb_to_hsv, lambda x: HueSaturationValue(p=1.0)(x, key=Key(3))], ids=["rgb_to_hsv", "shift"])
def test_saturation_stays_finite(call, scale):
    image = (torch.rand(1, 3, 6, 7) * scale).requires_grad_()
    out = call(image)
    assert torch.isfinite(out).all()
    if scale > 1e-30:  # below, the derivative of a hue is itself too large a number
        assert torch.isfinite(torch.autograd.grad(out.sum(), image)[0]).all()


def test_hue_after_a_turn_and_a_blur_has_a_gradient():
    from pellucid import ColorJitter, RandomAffine, RandomGaussianBlur

    image = torch.rand(4, 3, 40, 48, requires_grad=True)
    steps = [RandomAffine(40, scale=(0.4, 0.6)), RandomGaussianBlur(9, sigma=(0.4, 0.6), p=1.0), ColorJitter(hue=0.3)]
    for impl in ("auto", "reference"):
        out = Pipeline(steps, seed=0, impl=impl)(image)
        assert torch.isfinite(torch.autograd.grad(out.square().sum(), image)[0]).all()
