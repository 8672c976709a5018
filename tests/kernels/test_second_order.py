"""Second derivatives with respect to the picture: the reference's, without a call of it where the pass is linear in the picture."""

import pytest
import torch

from pellucid import CenterCrop, Key, Normalize, Pad, Pipeline, RandomAffine, RandomGaussianNoise, RandomPerspective, RandomRotation
from pellucid.kernels import blend, convolve, warp
from pellucid.policy.adversarial import AdaBands, AdaColors, AdaGeometry, AdaNoise
from tests.cases import CASES, IDS, images, pipeline

F64 = torch.float64
LINEAR = {
    "ADA's geometry": [AdaGeometry(0.9, 0.9)],
    "ADA's colours": [AdaColors(0.9)],
    "ADA's bands": [AdaBands(0.9)],
    "ADA's noise": [AdaNoise(0.9)],
    "noise": [RandomGaussianNoise(0.1, clip="none", p=1.0)],
    "antialiasing": [RandomAffine(30, fill=0.7, scale=(0.5, 2.0), antialias=True)],
    "perspective": [RandomPerspective(0.5, p=1.0, fill=0.3)],
    "canvases": [Pad(2, fill=0.4), RandomRotation(30), CenterCrop(9), RandomRotation(30, fill=0.2), Normalize(0.5, 0.2)],
}


def second(augment, x, key):
    """The gradient of a penalty on the gradient."""
    x = x.detach().requires_grad_()
    direction = torch.rand(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(1))
    (slope,) = torch.autograd.grad(augment(x, key=key).square().sum(), x, create_graph=True)
    if not slope.requires_grad:
        return slope
    (found,) = torch.autograd.grad((slope * direction).sum(), x, materialize_grads=True)
    return found


def refuse(*_, **__):
    raise AssertionError("the reference was asked")


@pytest.mark.parametrize("name", LINEAR)
def test_linear_passes_do_without_the_reference(name, monkeypatch):
    x, key = torch.rand(3, 3, 10, 12, dtype=F64, generator=torch.Generator().manual_seed(0)), Key(3, 4)
    wanted = second(Pipeline(LINEAR[name], impl="reference"), x, key)
    for table in (warp._PRIMITIVES, convolve._SEPARABLE, blend._NOISE):
        monkeypatch.setitem(table, "cpu", table["cpu"]._replace(reference=refuse))
    found = second(Pipeline(LINEAR[name], impl="cpu"), x, key)
    assert wanted.abs().max() > 0
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9 * float(wanted.abs().max()))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_transform_has_the_references_second_derivative(case):
    if case.transform.gradients["image"] not in ("exact", "almost_everywhere"):
        pytest.skip("a surrogate")
    x = images(case, batch=2)[..., :12, :12].clone() if case.size is None else images(case, batch=2)
    wanted = second(pipeline(case, impl="reference"), x, Key(3, 4))
    found = second(pipeline(case), x, Key(3, 4))
    torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-7 * (1.0 + float(wanted.abs().max())))


def test_small_slopes_are_not_lost_beside_large_fills():
    """What is added does not take part, so that nothing of it is left by rounding."""
    x = torch.rand(2, 3, 16, 16)
    augment = Pipeline([RandomAffine(30, fill=0.9)], impl="cpu")
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(augment(leaf, key=Key(0, 1)).square().sum(), leaf, create_graph=True)
    (large,) = torch.autograd.grad(slope.sum(), leaf, retain_graph=True)
    (small,) = torch.autograd.grad((1e-20 * slope).sum(), leaf)
    torch.testing.assert_close(small * 1e20, large, rtol=1e-5, atol=1e-5)


def test_third_derivatives_go_on():
    x = torch.rand(1, 1, 5, 5, dtype=F64, requires_grad=True)
    augment = Pipeline([AdaGeometry(0.9, 0.9)], impl="cpu")

    def slope(x):
        (found,) = torch.autograd.grad(augment(x, key=Key(5, 6)).pow(3).sum(), x, create_graph=True)
        return found

    assert torch.autograd.gradgradcheck(slope, x, fast_mode=True)
