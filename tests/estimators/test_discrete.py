"""Discrete operations: torchvision's values, and the surrogate gradients they declare."""

import pytest
import torch

import pellucid as P
from pellucid import Key, Learnable, Pipeline, Uniform
from tests.peers import torchvision_functional
from tests.refusals import refused

F64 = torch.float64


def always(transform):
    return Pipeline([transform])


def photographs(batch=3, channels=3, size=(40, 44), dtype=torch.float32):
    """Smooth pictures with many levels, some of them tied."""
    generator = torch.Generator().manual_seed(4)
    noise = torch.rand((batch, channels, 7, 8), generator=generator, dtype=F64)
    smooth = torch.nn.functional.interpolate(noise, size=size, mode="bicubic").clamp(0.02, 0.98)
    return smooth.to(dtype)


def eight_bits(**options):
    return (photographs(**options) * 255).round().to(torch.uint8)


@pytest.mark.parametrize("bits", [0, 1, 3, 4, 7, 8])
def test_posterize_is_torchvisions(bits):
    wanted = torchvision_functional().posterize
    grays = (photographs() * 255).round().to(torch.uint8)  # as floats they have levels of their own there
    assert torch.equal(always(P.RandomPosterize(bits, p=1.0))(grays / 255.0), wanted(grays, bits) / 255.0)
    every_level = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16).expand(2, 3, -1, -1)
    assert torch.equal(always(P.RandomPosterize(bits, p=1.0))(every_level), wanted(every_level, bits))


@pytest.mark.parametrize("level", [0, 1, 100, 128, 255])
def test_solarize_is_torchvisions(level):
    wanted = torchvision_functional().solarize
    x = photographs()
    assert torch.equal(always(P.RandomSolarize(level / 255, p=1.0))(x), wanted(x, level / 255))
    every_level = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16).expand(2, 3, -1, -1)
    assert torch.equal(always(P.RandomSolarize(level / 255, p=1.0))(every_level), wanted(every_level, level))


@pytest.mark.parametrize("size", [(40, 44), (9, 9), (16, 17)])
def test_equalize_is_torchvisions(size):
    wanted = torchvision_functional().equalize
    whole = eight_bits(size=size)
    assert torch.equal(always(P.RandomEqualize(p=1.0))(whole), wanted(whole))
    flat = torch.full((1, 3, *size), 77, dtype=torch.uint8)
    assert torch.equal(always(P.RandomEqualize(p=1.0))(flat), wanted(flat))
    x = photographs(size=size)
    ours, theirs = always(P.RandomEqualize(p=1.0))(x), wanted(x)
    if size == (9, 9):  # too few pixels: unchanged; torchvision still rounds to 8 bits and back
        assert torch.equal(ours, x)
        assert (ours - theirs).abs().max() < 1 / 255
    else:
        assert (ours - theirs).abs().max() < 1e-6


def test_equalize_is_pillows():
    from PIL import Image, ImageOps

    whole = eight_bits(batch=1)
    picture = Image.fromarray(whole[0].permute(1, 2, 0).numpy())
    equalized = torch.tensor(list(ImageOps.equalize(picture).tobytes()), dtype=torch.uint8).reshape(40, 44, 3)
    assert torch.equal(always(P.RandomEqualize(p=1.0))(whole)[0].permute(1, 2, 0), equalized)


def test_autocontrast_is_torchvisions():
    wanted = torchvision_functional().autocontrast
    x = 0.2 + 0.5 * photographs()
    x[1, 2] = 0.4  # a flat channel
    assert (always(P.RandomAutoContrast(p=1.0))(x) - wanted(x)).abs().max() < 1e-6
    whole = eight_bits() // 2 + 30
    ours = always(P.RandomAutoContrast(p=1.0))(whole)
    assert (ours.int() - wanted(whole).int()).abs().max() <= 1


def image_gradient(transform, x):
    leaf = x.clone().requires_grad_()
    weights = torch.rand(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    (gradient,) = torch.autograd.grad((always(transform)(leaf, key=Key(0, 0)) * weights).sum(), leaf)
    return gradient, weights


@pytest.mark.parametrize("kind", [P.RandomPosterize, P.RandomEqualize])
def test_image_surrogates_are_what_they_are_called(kind):
    x = photographs(dtype=F64)
    gradient, weights = image_gradient(kind(p=1.0), x)
    assert torch.equal(gradient, weights)
    gradient, _ = image_gradient(kind(p=1.0, image_gradient="none"), x)
    assert torch.equal(gradient, torch.zeros_like(x))
    soft, weights = image_gradient(kind(p=1.0, image_gradient="soft"), x)
    slope = soft / weights
    assert (slope >= -1e-12).all()  # both curves rise
    assert slope.std() > 0.1
    # The value is the same whatever the gradient, and with none asked for.
    plain = always(kind(p=1.0))(x)
    for image_gradient_kind in ("straight_through", "soft", "none"):
        out = always(kind(p=1.0, image_gradient=image_gradient_kind))(x.clone().requires_grad_())
        assert torch.equal(out.detach(), plain)


def test_the_soft_slope_of_equalize_is_its_curves():
    """Averaged over a patch, the slope is the finite difference of the curve with the histogram held."""
    from pellucid.kernels.curve.reference import equalize

    ramp = torch.arange(256, dtype=F64).repeat_interleave(8)[None, None, None] / 255  # a flat histogram: the curve is the identity
    _, slope = equalize(ramp, 255.0)
    assert slope[..., 8:-8].sub(1.0).abs().max() < 1e-12


def test_the_soft_slope_of_posterize_integrates_to_the_staircase():
    x = torch.linspace(0, 1, 255 * 80 + 1, dtype=F64)[None, None, None]
    leaf = x.clone().requires_grad_()
    out = always(P.RandomPosterize(3, p=1.0, image_gradient="soft"))(leaf)
    (slope,) = torch.autograd.grad(out.sum(), leaf)
    smooth = slope.cumsum(-1) / (255 * 80)
    assert (smooth - 1 / 16 - out).abs().max() < 1 / 16 + 1e-3  # never more than half a step from it
    assert slope[0, 0, 0, 80 * 32].item() == pytest.approx(2.0)  # at a jump: the byte 32
    assert slope[0, 0, 0, 80 * 16].item() == pytest.approx(0.0, abs=1e-12)  # between two


@pytest.mark.parametrize(
    ("build", "name", "h"),
    [
        (lambda **o: P.RandomPosterize(4, p=1.0, **o), "bits", 1.0),
        (lambda **o: P.RandomSolarize(0.5, p=1.0, **o), "threshold", 0.07),
    ],
)
def test_surrogates_are_what_they_are_called(build, name, h):
    x = photographs(dtype=F64)
    weights = torch.rand(x.shape, generator=torch.Generator().manual_seed(1), dtype=F64)

    def at(value, **options):
        augment = always(build(**options))
        record = augment.draw(x)
        return augment.apply(x, record.with_param(0, name, value))

    middle = torch.full((3,), {"bits": 4.0, "threshold": 0.5}[name], dtype=F64)

    def gradient(**options):
        leaf = middle.clone().requires_grad_()
        (found,) = torch.autograd.grad((at(leaf, **options) * weights).sum(), leaf)
        return found

    secant = ((at(middle + h) - at(middle - h)) * weights).sum((1, 2, 3)) / (2 * h)
    assert torch.allclose(gradient(surrogate="secant", h=h), secant, rtol=1e-12)
    assert torch.allclose(gradient(surrogate="straight_through"), weights.sum((1, 2, 3)), rtol=1e-12)
    assert torch.equal(gradient(surrogate="none"), torch.zeros(3, dtype=F64))


def test_a_learned_magnitude_that_is_declared_none_still_has_a_gradient_of_zero():
    augment = Pipeline([P.RandomPosterize(Learnable(4.0), p=1.0, surrogate="none")])
    augment(photographs()).sum().backward()
    assert all(parameter.grad is not None and parameter.grad == 0 for parameter in augment.parameters())


@pytest.mark.parametrize("loss_weight", [1.0, -1.0])
def test_the_boundary_is_right_for_a_threshold(loss_weight):
    """U(low, high) thresholds: finite differences of the expected loss over a fine grid of draws."""
    x = photographs(batch=1, channels=1, dtype=F64)

    def loss(out):
        return loss_weight * (out**2).mean((1, 2, 3))

    grid = (torch.arange(4000, dtype=F64) + 0.5) / 4000

    def expectation(low, high):
        plain = always(P.RandomSolarize(0.5, p=1.0))
        record = plain.draw(x.expand(4000, -1, -1, -1))
        values = low + (high - low) * grid
        return loss(plain.apply(x.expand(4000, -1, -1, -1), record.with_param(0, "threshold", values))).mean().item()

    step = 1e-2
    oracle = (
        (expectation(0.3 + step, 0.8) - expectation(0.3 - step, 0.8)) / (2 * step),
        (expectation(0.3, 0.8 + step) - expectation(0.3, 0.8 - step)) / (2 * step),
    )
    low, high = (torch.nn.Parameter(torch.tensor(v, dtype=F64)) for v in (0.3, 0.8))
    augment = always(P.RandomSolarize(Uniform(low, high, estimator="boundary"), p=1.0))
    augment.expected(loss, x.expand(4000, -1, -1, -1), key=Key(1, 1)).backward()
    plain = always(P.RandomSolarize(Uniform(0.3, 0.8), p=1.0))
    error = loss(plain(x.expand(4000, -1, -1, -1))).std().item() / 0.5 / 4000**0.5  # the standard error of both
    assert low.grad.item() == pytest.approx(oracle[0], abs=3 * error)
    assert high.grad.item() == pytest.approx(oracle[1], abs=3 * error)
    assert max(map(abs, oracle)) > 10 * error
    # The default goes through the draw by secants, and is as far off as docs/estimators.md says.
    ends = [torch.nn.Parameter(torch.tensor(v, dtype=F64)) for v in (0.3, 0.8)]
    augment = always(P.RandomSolarize(Uniform(*ends), p=1.0))
    augment.expected(loss, x.expand(4000, -1, -1, -1), key=Key(1, 1)).backward()
    assert [end.grad.item() / want for end, want in zip(ends, oracle, strict=True)] == pytest.approx([0.77, 0.85], abs=0.02)


def test_bad_arguments_are_explained():
    refused(ValueError, "expected", P.RandomPosterize, 9)
    refused(ValueError, "expected", P.RandomPosterize, 4, image_gradient="soft_ish")
    refused(ValueError, "expected", P.RandomPosterize, 4, surrogate="exact")
    refused(ValueError, "expected", P.RandomPosterize, 4, h=0.0)
    refused(ValueError, "expected", P.RandomSolarize, 1.5)
    refused(ValueError, "expected", P.RandomSolarize, 0.5, h=-1.0)
    refused(ValueError, "expected", P.RandomEqualize, image_gradient="exact")
    refused(ValueError, "expected", P.RandomEqualize, p=2.0)
    refused(ValueError, "expected", P.RandomAutoContrast, p=-1.0)
