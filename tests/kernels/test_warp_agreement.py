"""The compiled warp computes what the reference computes, values and gradients, over everything both accept."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .warps import INTERPOLATIONS, PADDINGS, Call, agree_in_double, as_precise, calls, cpu, is_adjoint, reference, warp

COMMON = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], derandomize=True
)


@COMMON
@given(calls(fields=True))
def test_values_and_gradients_equal_the_reference_in_double(call):
    agree_in_double(call, cpu.warp, reference.warp)


@COMMON
@given(calls(fields=True))
def test_single_precision_is_as_precise_as_the_reference(call):
    hard = call.options["interpolation"] == "nearest" or "window" in call.tensors
    as_precise(call, cpu.warp, reference.warp, hard=hard)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_narrow_images_are_read_and_computed_in_single_precision(dtype):
    image = torch.rand(2, 3, 8, 9).to(dtype)
    src_from_dst = torch.tensor([[[0.9, 0.1, 0.5], [-0.1, 0.8, 1.0]]])
    a, b = (w(image, src_from_dst, size=(7, 7)) for w in (cpu.warp, reference.warp))
    assert a.dtype == b.dtype == torch.float32
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_whole_pixel_moves_are_bit_exact(interpolation, padding_mode):
    image = torch.rand(1, 3, 8, 9)
    options = {"size": (8, 9), "interpolation": interpolation, "padding_mode": padding_mode}
    eye = torch.eye(3)[None]
    assert torch.equal(cpu.warp(image, eye, **options), image)
    flip = torch.tensor([[[-1.0, 0.0, 8.0], [0.0, 1.0, 0.0]]])
    assert torch.equal(cpu.warp(image, flip, **options), image.flip(-1))
    shift = torch.tensor([[[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]])
    assert torch.equal(cpu.warp(image, shift, **options)[..., :-2], image[..., 2:])


@COMMON
@given(calls(fields=True), st.integers(0, 2**31))
def test_adjoint(call, seed):
    is_adjoint(call, cpu.warp, seed)


@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_what_is_nowhere_shows_fill_and_has_no_gradient(padding_mode):
    image = torch.rand(3, 3, 6, 6, requires_grad=True)
    src_from_dst = torch.eye(3).repeat(3, 1, 1)
    src_from_dst[0, 0, 2], src_from_dst[1, 1, 1] = torch.nan, torch.inf
    src_from_dst.requires_grad_()
    fill = torch.tensor([[0.25, 0.5, 0.75]])
    out = cpu.warp(image, src_from_dst, size=(6, 6), padding_mode=padding_mode, fill=fill)
    assert torch.equal(out[0], fill[0, :, None, None].expand(3, 6, 6))
    assert torch.equal(out[2], image[2])
    to_image, to_map = torch.autograd.grad(out.square().sum(), (image, src_from_dst))
    assert not to_image[0].any()
    assert torch.isfinite(to_image).all()
    assert torch.isfinite(to_map).all()


def test_a_horizon_inside_the_picture():
    image = torch.rand(1, 2, 9, 9, requires_grad=True)
    src_from_dst = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-0.25, 0.0, 1.0]]], requires_grad=True)  # w = 0 at u = 4
    a, b = (w(image, src_from_dst, size=(9, 9), padding_mode="border") for w in (cpu.warp, reference.warp))
    torch.testing.assert_close(a, b)
    for ours, theirs in zip(*(torch.autograd.grad(out.sin().sum(), (image, src_from_dst)) for out in (a, b)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_empty_batches_and_long_epilogues():
    assert warp(torch.rand(0, 3, 4, 4), torch.eye(3)[None], size=(5, 6), impl="cpu").shape == (0, 3, 5, 6)
    call = Call({"image": torch.rand(1, 3, 5, 5), "src_from_dst": torch.eye(3)[None]}, {"size": (5, 5)}, ("clip", "hue", "clip"))
    call.tensors["turns"] = torch.tensor([0.2])
    torch.testing.assert_close(*(call.run(lambda *a, w=name, **k: warp(*a, **k, impl=w)) for name in ("cpu", "reference")))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_labels_are_copied(dtype, padding_mode):
    # Coordinates on an eighth of a pixel: exact in both, so no tie is decided by rounding.
    image = torch.randint(-100, 100, (2, 2, 7, 9)).to(dtype)
    src_from_dst = (torch.randn(2, 3, 3) * torch.tensor([[0.5, 0.5, 3], [0.5, 0.5, 3], [0, 0, 0]]) * 8).round() / 8 + torch.eye(3)
    fill = torch.tensor([[3.0, 0.0]])
    window = torch.tensor([[1.0, 2.0, 5.0, 6.0]])
    for size, rest in (((6, 11), {}), ((1, 5), {"window": window}), ((3, 4), {"field": (torch.randn(2, 2, 3, 4) * 8).round() / 8})):
        options = {"size": size, "interpolation": "nearest", "padding_mode": padding_mode, "fill": fill, **rest}
        for picture in (image, image[:1].expand_as(image), image.mT.contiguous().mT):
            a, b = (w(picture, src_from_dst, **options) for w in (cpu.warp, reference.warp))
            assert a.dtype == dtype
            assert torch.equal(a, b)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(calls(interpolations=("bilinear", "bicubic")))
def test_gradcheck(call):
    ours = call.to(torch.float64, requires_grad=True)
    names = list(ours.tensors)

    def function(*leaves):
        return Call(dict(zip(names, leaves, strict=True)), ours.options, ours.stages, ours.layout).run(cpu.warp)

    assert torch.autograd.gradcheck(function, list(ours.tensors.values()), eps=1e-7, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_a_pixel_is_the_same_in_results_of_any_size(channels, dtype):
    # Sixteen pixels are interpolated at once, fewer one by one, and the last sixteen may overlap those before.
    image = torch.rand(1, channels, 40, 50, dtype=dtype, generator=torch.Generator().manual_seed(channels))
    src_from_dst = torch.tensor([[[0.81, 0.23, -1.5], [-0.17, 0.93, 6.0]]], dtype=dtype)
    large = cpu.warp(image, src_from_dst, size=(21, 61))
    for height, width in ((1, 1), (1, 15), (1, 16), (1, 17), (2, 8), (5, 7), (20, 61), (21, 33)):
        assert torch.equal(cpu.warp(image, src_from_dst, size=(height, width)), large[..., :height, :width]), (height, width)


@pytest.mark.parametrize("zoom", [40.0, 3e7])
@pytest.mark.parametrize("padding_mode", ["reflection", "reflect_101", "wrap"])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "nearest"])
def test_points_many_pictures_away_fold_back_as_in_the_reference(interpolation, padding_mode, zoom):
    """Beyond 2 ** 22 they are held, and do not move."""
    random = torch.Generator().manual_seed(3)
    results = []
    for function in (cpu.warp, reference.warp):
        image = torch.rand(1, 3, 7, 9, dtype=torch.float64, generator=random.manual_seed(3)).requires_grad_()
        maps = torch.tensor([[[0.91, -0.4, -3.1], [0.37, 0.83, -4.3]]], dtype=torch.float64).mul(zoom).requires_grad_()
        out = function(image, maps, size=(11, 8), interpolation=interpolation, padding_mode=padding_mode)
        grad = torch.rand(out.shape, dtype=torch.float64, generator=random)
        results.append((out, *torch.autograd.grad(out, (image, maps), grad, allow_unused=True)))
    for ours, theirs in zip(*results, strict=True):
        if theirs is None:
            assert ours is None or not ours.any()
        else:
            assert (ours - theirs).abs().max() <= 1e-9 * (1.0 + theirs.abs().max())
