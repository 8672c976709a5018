"""Nearest warps learn: whole pixels forward, the secant over one pixel backward."""

import pytest
import torch

import pellucid as P
from pellucid import Key, Pipeline
from tests.kernels.warps import warp

F64 = torch.float64


def bumps(size=24):
    axis = torch.linspace(-1.0, 1.0, size, dtype=F64)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    return torch.exp(-8.0 * ((x - 0.2) ** 2 + y**2))[None, None]


def test_values_and_image_gradients_are_the_nearest_warps():
    x = torch.rand(2, 3, 12, 12, dtype=F64, requires_grad=True)
    augment = Pipeline([P.RandomRotation(30, interpolation="nearest")])
    record = augment.draw(x).requires_grad_()
    out = augment.apply(x, record)
    plain = warp(x, record.src_from_dst[:, :2], size=(12, 12), interpolation="nearest")
    assert torch.equal(out, plain)
    weights = torch.rand_like(out)
    (ours,) = torch.autograd.grad((out * weights).sum(), x, retain_graph=True)
    (theirs,) = torch.autograd.grad((plain * weights).sum(), x)
    assert torch.equal(ours, theirs)


def test_the_slope_to_a_shift_is_the_mean_difference_over_half_a_pixel():
    """The shift jittered over one pixel, nearest each time: its mean moves as the surrogate says."""
    x = bumps().requires_grad_(False)
    weights = torch.rand(x.shape, generator=torch.Generator().manual_seed(0), dtype=F64)
    augment = Pipeline([P.RandomTranslate((0.3, 0.0), interpolation="nearest", padding_mode="border")])
    record = augment.draw(x, key=Key(3, 0))
    base = torch.tensor([0.11], dtype=F64)

    def loss(shift):
        return (augment.apply(x, record.with_param(0, "translate_x", shift)) * weights).sum()

    leaf = base.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(leaf), leaf)
    half = 0.5 / 24
    secant = (loss(base + half) - loss(base - half)) / (2 * half)
    assert gradient.item() == pytest.approx(secant.item(), rel=1e-9)
    assert gradient.abs() > 0.1


def test_a_learned_angle_of_a_nearest_warp_finds_the_rotation():
    x = bumps()
    turned = Pipeline([P.RandomRotation((20, 20), interpolation="nearest", padding_mode="border")])(x)
    angle = torch.nn.Parameter(torch.tensor(2.0, dtype=F64))
    augment = Pipeline([P.RandomRotation(P.Constant(angle), interpolation="nearest", padding_mode="border")])
    optimiser = torch.optim.Adam([angle], lr=1.0)
    for _ in range(60):
        optimiser.zero_grad()
        (augment(x) - turned).pow(2).sum().backward()
        optimiser.step()
    assert angle.item() == pytest.approx(20.0, abs=3.0)


@pytest.mark.parametrize("impl", ["cpu", "reference"])
def test_masks_learn_as_nearest_images_do(impl):
    """One rule for both: a floating-point mask passes its loss on to a learned range by the same secant, and no value changes."""
    picture = bumps().expand(2, 1, 24, 24)
    weights = torch.rand(picture.shape, generator=torch.Generator().manual_seed(0), dtype=F64)
    found = []
    for key in ("mask", "image"):
        degrees = P.Learnable(20.0, low=0.0, high=90.0)
        augment = Pipeline([P.RandomRotation(degrees, interpolation="nearest")], seed=3, impl=impl)
        out = augment({"image": torch.zeros_like(picture), key: picture}, key=Key(1, 3))[key]
        (out * weights).sum().backward()
        found.append((out.detach(), next(augment.parameters()).grad))
    (mask, to_mask), (image, to_image) = found
    assert torch.equal(mask, image)
    assert to_mask.abs() > 1e-3
    torch.testing.assert_close(to_mask, to_image, rtol=1e-12, atol=0)


def test_masks_of_integers_carry_no_gradient():
    augment = Pipeline([P.RandomRotation(P.Learnable(20.0))])
    out = augment({"image": torch.rand(2, 3, 8, 8), "mask": torch.ones(2, 8, 8, dtype=torch.int64)})
    assert out["image"].requires_grad
    assert not out["mask"].requires_grad


@pytest.mark.parametrize("steps", [[P.RandomRotation(20.0)], [P.RandomRotation(20.0), P.RandomTranslate((0.2, 0.2))]])
def test_undoing_a_mask_has_the_slope_of_undoing_a_picture(steps):
    """The secant of a nearest read is the slope of a bilinear one, and an image is undone by bilinear reads."""
    picture = bumps().expand(2, 1, 24, 24)
    weights = torch.rand(picture.shape, generator=torch.Generator().manual_seed(0), dtype=F64)
    pipeline = Pipeline(steps, seed=3)
    found = []
    for key in ("mask", "image"):
        record = pipeline.draw(picture, key=Key(1, 3)).requires_grad_()
        field = picture.clone().requires_grad_()
        back = pipeline.inverse({"image": torch.zeros_like(picture), key: field}, record)[key]
        (back * weights).sum().backward()
        found.append((back.detach(), record.params[0]["degrees"].grad, field.grad))
    (mask, to_mask, of_mask), (_, to_image, _) = found
    plain = pipeline.inverse({"mask": picture}, pipeline.draw(picture, key=Key(1, 3)))["mask"]
    assert torch.equal(mask, plain)
    assert bool(of_mask.any())
    assert to_mask.abs().max() > 1e-3
    torch.testing.assert_close(to_mask, to_image, rtol=1e-9, atol=1e-12)
