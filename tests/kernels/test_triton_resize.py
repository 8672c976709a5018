"""Crops and resizes by the Triton kernels: values and gradients against the reference and torch."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, Phase, given, settings

from pellucid.kernels.warp import pack
from pellucid.segments.chain import ClipStage, HueStage
from tests.compare import within_budget

from .interpreted import DEVICE, at_length, runs  # noqa: F401
from .resizes import resizes
from .warps import Call, agree_in_double, laid_out, reference
from .warps import operands as of_resample
from .warps import triton as kernels

CASES = {
    "smaller, filled, all of colour": ((4, 5), 1.7, {"filled": True}, True),
    "larger, mirrored": ((7, 6), -0.6, {"filled": False}, False),
    "cubic": ((3, 4), 1.3, {"filled": False, "interpolation": "bicubic"}, False),
    "sharp": ((3, 4), 2.3, {"filled": True, "antialias": False}, False),
}


def operands(size, scale, coloured, channels=3):
    """One sample whose window cuts pixels and whose map leaves it at a side."""
    random = torch.Generator().manual_seed(3)
    draw = lambda *shape: torch.rand(shape, generator=random, dtype=torch.float64)  # noqa: E731
    shift = 0.4 if scale > 0 else 6.6
    maps = torch.tensor([[[scale, 0.0, shift], [0.0, abs(scale) * 0.9, 0.3]]], dtype=torch.float64)
    given = {"image": draw(1, channels, 7, 8), "src_from_dst": maps}
    given["window"] = torch.tensor([[0.31, 0.23, 6.63, 5.37]], dtype=torch.float64)
    if coloured:
        given |= {"matrix": draw(1, channels, channels), "offset": draw(1, channels), "fill": draw(1, channels)}
    return {name: tensor.to(DEVICE) for name, tensor in given.items()}


def results(by, tensors, options, epilogue=()):
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}
    out = by(**leaves, **options, epilogue=list(epilogue))
    upstream = torch.randn(out.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(out)
    return out.detach(), *torch.autograd.grad(out, list(leaves.values()), upstream)


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_the_references(name):
    size, scale, options, coloured = CASES[name]
    tensors, stages = operands(size, scale, coloured), ()
    if coloured:
        stages = HueStage(torch.tensor([0.15], dtype=torch.float64, device=DEVICE)), ClipStage()
    found, truth = (results(by.resize, tensors, options | {"size": size}, stages) for by in (kernels, reference))
    for what, mine, theirs in zip(("values", *tensors), found, truth, strict=True):
        assert (mine - theirs).abs().max() <= 1e-11 * (1 + theirs.abs().max()), what


def test_bytes_become_what_torch_computes():
    image = torch.randint(0, 256, (1, 3, 9, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    maps = torch.tensor([[[2.0, 0.0, 0.5], [0.0, 1.8, 0.4]]], device=DEVICE)
    window = torch.tensor([[0.0, 0.0, 9.0, 8.0]], device=DEVICE)
    options = {"size": (5, 5), "window": window, "filled": False, "dtype": torch.float32}
    found = kernels.resize(laid_out(image, "channels_last"), maps, **options)
    truth = F.interpolate(image.double() / 255, (5, 5), mode="bilinear", antialias=True)
    assert within_budget(found, reference.resize(image, maps, **options), truth)


def test_what_is_nowhere_shows_fill_and_a_bad_pixel_stays_in_its_neighbourhood():
    image = torch.rand(3, 1, 6, 6, device=DEVICE)
    image[2, 0, 5, 5] = torch.nan
    maps = torch.tensor([[[2.0, 0.0, 0.5], [0.0, 2.0, 0.5]]]).repeat(3, 1, 1).to(DEVICE)
    window = torch.tensor([[0.0, 0.0, 5.0, 5.0]]).repeat(3, 1).to(DEVICE)
    maps[0, 0, 2], window[1, 3] = torch.nan, torch.nan
    leaves = image.requires_grad_(), maps.requires_grad_(), window.requires_grad_()
    fill = torch.tensor([[0.25]], device=DEVICE)
    out = kernels.resize(*leaves[:2], window=leaves[2], size=(3, 3), filled=True, fill=fill)
    assert (out[:2] == 0.25).all()
    assert out[2].isnan().nonzero().tolist() == [[0, 2, 2]]
    grads = torch.autograd.grad(out[:2].sum(), leaves)
    assert not any(grad[:2].any() for grad in grads)


def test_more_channels_than_the_kernels_mix():
    tensors, options = operands((2, 3), 1.7, True, channels=5), {"size": (2, 3), "filled": True}
    found, truth = (by.resize(**tensors, **options) for by in (kernels, reference))
    assert (found - truth).abs().max() <= 1e-11


@pytest.mark.slow
@settings(
    max_examples=at_length(100), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True,
    phases=(Phase.explicit, Phase.generate),
)  # fmt: skip
@given(resizes())
def test_values_and_gradients_equal_the_reference_at_length(call):
    call = Call({n: t.to(DEVICE) for n, t in call.tensors.items()}, call.options, call.stages, call.layout)
    agree_in_double(call, kernels.resize, reference.resize)


@pytest.mark.slow
def test_operators():
    tensors, options = operands((2, 3), 1.7, True), {"size": (2, 3), "padding_mode": "constant"}
    packed = pack(tensors["src_from_dst"], **{k: t for k, t in tensors.items() if k not in ("image", "src_from_dst")}, **options)
    image, mapping, window, params, *_, size, kinds, cubic, dtype = of_resample(tensors["image"], packed)
    given = image, mapping, window, params, size, kinds, cubic, dtype
    torch.library.opcheck(torch.ops.pellucid.triton_resize.default, given)
    grad = torch.rand(1, 3, 2, 3, dtype=torch.float64, device=DEVICE)
    torch.library.opcheck(torch.ops.pellucid.triton_resize_backward.default, (grad, *given, [True] * 4))
