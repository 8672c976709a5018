"""Antialiased warps by the Triton kernels: values, and gradients to picture, colours and places, against the reference."""

import pytest
import torch

from pellucid.kernels import dispatch
from pellucid.kernels import warp as warps
from pellucid.segments.chain import ClipStage, HueStage

from .interpreted import DEVICE, runs  # noqa: F401
from .test_footprint import turned
from .warps import reference
from .warps import triton as kernels

BEND = [[[0.009, -0.013, 1.0]]]
CASES = {
    "affine": {},
    "affine, border": {"padding_mode": "reflect_101"},
    "homography": {"bend": True},
    "field": {"field": True},
    "hue and clip": {"stages": True},
}
MORE = {
    "affine, bicubic": {"interpolation": "bicubic"},
    "homography, bicubic, wrap": {"bend": True, "interpolation": "bicubic", "padding_mode": "wrap"},
    "five channels": {"channels": 5},
}


PLACES = {
    "affine": {},
    "affine, border, hue and clip": {"padding_mode": "reflect_101", "stages": True},
    "homography": {"bend": True},
    "field": {"field": True},
    "homography and field, hue and clip": {"bend": True, "field": True, "stages": True},
}
MORE_PLACES = {
    "affine, bicubic": {"interpolation": "bicubic"},
    "affine, five channels, wrap": {"channels": 5, "matrix": None, "padding_mode": "wrap"},
    "affine": {},
    "affine, border, hue and clip": {"padding_mode": "reflect_101", "stages": True},
    "homography, border": {"bend": True, "padding_mode": "reflect_101"},
    "field, bicubic": {"field": True, "interpolation": "bicubic"},
    "homography, bicubic, wrap": {"bend": True, "interpolation": "bicubic", "padding_mode": "wrap"},
    "field, five channels": {"field": True, "channels": 5, "matrix": None},
}


def results(by, dtype, bend=False, field=False, stages=False, channels=3, places=False, **options):
    """The result, and the gradients to picture and colours, or to the map and the field."""
    random = torch.Generator().manual_seed(2)
    draw = lambda *shape: torch.rand(shape, generator=random, dtype=torch.float64)  # noqa: E731
    maps = torch.cat([turned(2.3, 1.4, 25.0, (9, 10), (3, 4)), turned(0.9, 1.2, -70.0, (9, 10), (3, 4), (2.0, -3.0))])
    maps = torch.cat((maps, torch.tensor(BEND, dtype=torch.float64).expand(2, 1, 3)), 1) if bend else maps
    leaves = [draw(2, channels, 9, 10), draw(2, channels, channels), draw(1, channels), draw(2, channels)]
    leaves = [leaf.to(DEVICE, dtype).requires_grad_() for leaf in leaves]
    options = dict(zip(("matrix", "offset", "fill"), leaves[1:], strict=True)) | options
    maps, shifts = maps.to(DEVICE, dtype), (draw(2, 2, 3, 4) * 2).to(DEVICE, dtype)
    options |= {"field": shifts} if field else {}
    if places:
        leaves = [at.requires_grad_() for at in (maps, *([shifts] if field else []))]
        picture = draw(2, channels, 9, 10).to(DEVICE, dtype)
    else:
        picture = leaves[0]
    if stages:
        options |= {"epilogue": [HueStage(torch.tensor([0.1, -0.2], device=DEVICE, dtype=dtype)), ClipStage()]}
    out = by.warp(picture, maps, size=(3, 4), footprint=(3, 3), **options)
    upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(out)
    return out.detach(), *torch.autograd.grad(out, leaves, upstream)


@pytest.mark.parametrize("name", [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)])
def test_values_and_gradients_are_the_references(name):
    found, truth = (results(by, torch.float64, **(CASES | MORE)[name]) for by in (kernels, reference))
    for mine, theirs in zip(found, truth, strict=True):
        assert (mine - theirs).abs().max() <= 1e-11 * (1 + theirs.abs().max())


@pytest.mark.parametrize("name", [*PLACES, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE_PLACES)])
def test_gradients_to_places_are_the_references(name):
    found, truth = (results(by, torch.float64, places=True, **(PLACES | MORE_PLACES)[name]) for by in (kernels, reference))
    for mine, theirs in zip(found, truth, strict=True):
        assert theirs.any()
        assert (mine - theirs).abs().max() <= 1e-10 * (1 + theirs.abs().max())


def test_single_precision_is_as_precise_as_the_reference():
    truth = results(reference, torch.float64)
    single, found = (results(by, torch.float32) for by in (reference, kernels))
    for mine, theirs, exact in zip(found, single, truth, strict=True):
        assert (mine - exact).abs().max() <= 3 * (theirs - exact).abs().max() + 1e-6


def test_gradients_to_places_are_as_precise_as_the_references():
    truth = results(reference, torch.float64, places=True)
    single, found = (results(by, torch.float32, places=True) for by in (reference, kernels))
    for mine, theirs, exact in zip(found, single, truth, strict=True):
        assert (mine - exact).abs().max() <= 3 * (theirs - exact).abs().max() + 1e-6 * (1 + exact.abs().max())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16])
def test_one_affine_map_of_a_batch_gets_the_gradient_of_all(dtype):
    """Narrow pictures, read as they are."""
    random = torch.Generator().manual_seed(3)
    image = (torch.rand(2, 3, 9, 10, generator=random) * 255).to(torch.uint8)
    image = image.to(DEVICE) if dtype == torch.uint8 else (image / 255).to(DEVICE, dtype)
    upstream, found = torch.randn(2, 3, 3, 4, generator=random).to(DEVICE), []
    maps = turned(1.7, 1.4, 25.0, (9, 10), (3, 4))
    for by, work in ((reference, torch.float64), (reference, torch.float32), (kernels, torch.float32)):
        leaf = maps.to(DEVICE, work).requires_grad_()
        out = by.warp(image, leaf, size=(3, 4), footprint=(2, 2), dtype=work)
        found.append(torch.autograd.grad(out, leaf, upstream.to(out.dtype))[0].double())
    exact, single, mine = found
    assert (mine - exact).norm() <= 3 * (single - exact).norm() + 1e-5 * exact.norm()


def test_affine_gradients_that_are_not_finite_stay_with_their_sample():
    image, found = torch.rand(2, 1, 9, 10).to(DEVICE), []
    maps = torch.cat([turned(2.3, 1.4, 25.0, (9, 10), (3, 4))] * 2).float().to(DEVICE)
    for value in (0.0, torch.nan):
        leaf = maps.clone().requires_grad_()
        upstream = torch.ones(2, 1, 3, 4, device=DEVICE)
        upstream[0, 0, 1, 1] = value
        out = kernels.warp(image, leaf, size=(3, 4), footprint=(3, 3))
        found.append(torch.autograd.grad(out, leaf, upstream)[0])
    assert torch.isnan(found[1][0]).all()
    assert torch.equal(found[0][1], found[1][1])


def test_second_derivatives_by_affine_places_go_through_the_reference():
    image, found = torch.rand(1, 1, 9, 10, dtype=torch.float64).to(DEVICE), []
    for by in (kernels, reference):
        leaf = turned(2.3, 1.4, 25.0, (9, 10), (3, 4)).to(DEVICE).requires_grad_()
        out = by.warp(image, leaf, size=(3, 4), footprint=(3, 3)).square().sum()
        (first,) = torch.autograd.grad(out, leaf, create_graph=True)
        found.append(torch.autograd.grad(first.sin().sum(), leaf)[0])
    torch.testing.assert_close(*found)


def test_gradients_to_places_are_not_left_to_the_reference(monkeypatch):
    monkeypatch.setattr(dispatch, "_runs_on", lambda impl, device: impl != "cpu")
    image = torch.rand(1, 1, 9, 10).to("meta")
    moving = turned(2.3, 1.4, 25.0, (9, 10), (3, 4)).float().to("meta").requires_grad_()
    bent = torch.cat((moving, torch.tensor(BEND, device="meta")), 1)
    field = torch.zeros(1, 2, 3, 4, device="meta", requires_grad=True)
    for at, by in ((moving, None), (bent, None), (moving, field)):
        packed = warps.pack(at, size=(3, 4), footprint=(3, 3), field=by)
        assert warps.implementation("auto", image, packed) == "triton"
