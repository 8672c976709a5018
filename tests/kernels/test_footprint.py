"""Antialiased warps: against integration, against each other, and their gradients."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

import pellucid
from pellucid.kernels.warp.footprint import longer_axis, shares, weight_table
from tests.compare import grads_close, within_budget
from tests.kernels.warps import PADDINGS, cpu, laid_out, reference, warp

MODES = {"reflection": "reflect", "reflect_101": "mirror", "wrap": "grid-wrap"}


def turned(across: float, down: float, degrees: float, size=(48, 56), out=(12, 11), shift=(0.0, 0.0)):
    """A map that steps ``across`` and ``down`` input pixels, turned, from middle to middle."""
    angle = math.radians(degrees)
    linear = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64)
    linear = linear * torch.tensor([across, down], dtype=torch.float64)
    middle = torch.tensor([(size[1] - 1) / 2 + 0.13 + shift[0], (size[0] - 1) / 2 - 0.21 + shift[1]], dtype=torch.float64)
    offset = middle - linear @ torch.tensor([(out[1] - 1) / 2, (out[0] - 1) / 2], dtype=torch.float64)
    return torch.cat((linear, offset[:, None]), 1)[None]


def integrated(image, src_from_dst, out, mode, n=16):
    """The mean of n x n points under a tent over twice every output pixel's steps, by scipy, of a smooth picture."""
    total = sum_of = 0.0
    v, u = torch.meshgrid(*(torch.arange(length, dtype=torch.float64) for length in out), indexing="ij")
    for i in range(n):
        for j in range(n):
            right, below = (2.0 * ((k + 0.5) / n - 0.5) for k in (i, j))
            weight = (1.0 - abs(right)) * (1.0 - abs(below))
            x, y, *w = torch.einsum("rk,khw->rhw", src_from_dst[0], torch.stack((u + right, v + below, torch.ones_like(u))))
            places = (torch.stack((y, x)) / (w[0] if w else 1.0)).numpy()
            read = [torch.from_numpy(ndimage.map_coordinates(c.numpy(), places, order=3, mode=MODES[mode])) for c in image[0]]
            total, sum_of = total + weight * torch.stack(read), sum_of + weight
    return total[None] / sum_of


def smooth(size=(48, 56), channels=2, sigma=1.0):
    """Pictures with as much detail as photographs have."""
    noise = torch.randn(1, channels, *size, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    soft = torch.stack([torch.from_numpy(ndimage.gaussian_filter(c.numpy(), sigma)) for c in noise[0]])[None]
    return 0.5 + 0.15 * soft / soft.std()


def decibels(found, wanted):
    return -10 * torch.log10((found - wanted).square().mean())


STEPS = [(1.35, 1.35, 20.0), (2.4, 1.5, -40.0), (4.0, 4.0, 30.0), (6.0, 1.0, 35.0)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("steps", STEPS[1:])
def test_a_tent_is_the_weighted_mean_over_twice_its_steps(steps, mode):
    image, src_from_dst = smooth(sigma=1.5), turned(*steps)
    bound = (math.ceil(max(steps[:2])),) * 2
    found = warp(image, src_from_dst, size=(12, 11), footprint=bound, padding_mode=mode, impl="reference")
    assert decibels(found, integrated(image, src_from_dst, (12, 11), mode)) > 55.0


def test_a_homography_is_the_weighted_mean_over_all_that_it_spans():
    image, bend = smooth(sigma=1.5), torch.tensor([[[0.012, 0.007, 1.0]]], dtype=torch.float64)
    src_from_dst = torch.cat((turned(3.0, 2.5, 12.0), bend), 1)
    found = warp(image, src_from_dst, size=(12, 11), footprint=(4, 4), padding_mode="reflection")
    assert decibels(found, integrated(image, src_from_dst, (12, 11), "reflection")) > 55.0


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("step", "least"), [(1.1, 65.0), (2.0, 250.0), (2.4, 65.0), (4.0, 250.0)])
@pytest.mark.parametrize("turns", [0, 1])
def test_where_nothing_is_turned_it_is_a_resize(step, least, turns, interpolation):
    image, out = smooth((120, 120)), int(120 / step)
    size = round(out * step)
    src_from_dst = torch.tensor([[[step, 0.0, (step - 1) / 2], [0.0, step, (step - 1) / 2]]], dtype=torch.float64)
    options = {"mode": interpolation, "antialias": True, "recompute_scale_factor": False}
    wanted = F.interpolate(image[..., :size, :size], scale_factor=1 / step, **options)
    if turns:
        src_from_dst = src_from_dst[:, [1, 0]]
        wanted = wanted.mT
    found = warp(image, src_from_dst, size=(out, out), footprint=(math.ceil(step),) * 2, interpolation=interpolation, impl="cpu")
    assert decibels(found[..., 9:-9, 9:-9], wanted[..., 9:-9, 9:-9]) > least


@pytest.mark.parametrize("steps", STEPS)
def test_an_affine_map_as_a_homography_gives_the_same(steps):
    image, src_from_dst = smooth(), turned(*steps)
    last = torch.tensor([[[0.0, 0.0, 1.0]]], dtype=torch.float64)
    options = {"size": (12, 11), "footprint": (math.ceil(max(steps[:2])),) * 2}
    assert decibels(warp(image, torch.cat((src_from_dst, last), 1), **options), warp(image, src_from_dst, **options)) > 65.0


@pytest.mark.parametrize("steps", [(1.0, 1.0, 0.0), (0.7, 0.9, 30.0), (1.0, 1.0, 45.0), (-1.0, 1.0, 0.0)])
@pytest.mark.parametrize("impl", ["reference", "cpu"])
def test_what_does_not_shrink_is_the_plain_warp(steps, impl):
    image, src_from_dst = smooth(), turned(*steps)
    plain = warp(image, src_from_dst, size=(40, 30), impl="reference")
    assert (warp(image, src_from_dst, size=(40, 30), footprint=(3, 3), impl=impl) - plain).abs().max() < 1e-14


def test_nothing_moves_bit_for_bit():
    image = smooth().float()
    assert torch.equal(warp(image, torch.eye(3)[None, :2], size=(48, 56), footprint=(4, 4)), image)


def test_the_footprint_grows_from_nothing_without_a_jump():
    steps = torch.tensor([1.0, 1.0 + 1e-9, 1.1, 1.25, 3.0], dtype=torch.float64)
    maps = torch.zeros(5, 2, 2, dtype=torch.float64)
    maps[:, 1, 0], maps[:, 0, 1] = steps, 0.5
    assert shares(longer_axis(maps)).tolist() == pytest.approx([0.0, 5e-9, 5 - 5 / 1.1, 1.0, 1.0], abs=1e-10)
    assert longer_axis(maps).tolist() == pytest.approx(torch.linalg.matrix_norm(maps, 2).tolist())


def test_weights_sum_to_one_wherever_a_point_lies():
    tables = weight_table(torch.cat([turned(2.2, 1.7, 25.0), turned(3.9, 3.9, 45.0), turned(30.0, 2.0, 10.0)]), (4, 4))
    assert (tables.sum((2, 4)) - 1.0).abs().max() < 1e-14
    assert tables.min() >= 0.0


def calls():
    """Off the kinks, where a slope may be either side's."""

    def between(low, high):
        return st.integers(int(low * 16), int(high * 16)).map(lambda n: n / 16 + 0.0137)

    return st.tuples(
        between(0.5, 5.0),
        between(0.5, 5.0),
        between(-180.0, 180.0),
        between(-40.0, 40.0),
        between(-40.0, 40.0),
        st.sampled_from(PADDINGS),
        st.sampled_from([1, 2, 3, 5]),
        st.sampled_from(["bilinear", "bicubic"]),
        st.booleans(),
    )


def call(across, down, degrees, x, y, mode, channels, interpolation, homography):
    """Two samples and their colours, in float64."""
    image = torch.randn(2, channels, 23, 29, dtype=torch.float64, generator=torch.Generator().manual_seed(channels))
    maps = torch.cat([turned(across, down, degrees, (23, 29), (9, 14), (x, y)), turned(down, 1.3, -degrees, (23, 29), (9, 14))])
    fill = torch.linspace(-1.0, 1.0, channels, dtype=torch.float64)[None]
    matrix = (torch.eye(channels, dtype=torch.float64) * 0.7 + 0.1)[None]
    tensors = {"image": image, "src_from_dst": maps, "fill": fill, "matrix": matrix, "offset": fill * 0.3}
    if homography:
        last = torch.tensor([[[0.009, -0.013, 1.0]], [[0.0, 0.011, 1.0]]], dtype=torch.float64)
        tensors["src_from_dst"] = torch.cat((maps, last), 1)
    options = {"size": (9, 14), "footprint": (3, 3), "padding_mode": mode, "interpolation": interpolation}
    return tensors, options


@settings(max_examples=25, deadline=None)
@given(calls())
def test_compiled_and_reference_agree(drawn):
    tensors, options = call(*drawn)
    truth = reference.warp(**tensors, **options)
    assert (cpu.warp(**tensors, **options) - truth).abs().max() < 1e-12
    single = {name: tensor.float() for name, tensor in tensors.items()}
    assert within_budget(cpu.warp(**single, **options), reference.warp(**single, **options), truth)


@settings(max_examples=25, deadline=None)
@given(calls())
def test_their_gradients_agree(drawn):
    tensors, options = call(*drawn)
    tensors = {name: tensor.requires_grad_() for name, tensor in tensors.items()}
    grad = torch.randn(2, drawn[6], 9, 14, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    results = [function(**tensors, **options) for function in (cpu.warp, reference.warp)]
    left, right = (torch.autograd.grad(result, list(tensors.values()), grad) for result in results)
    for name, a, b in zip(tensors, left, right, strict=True):
        assert grads_close(a, b, 1e-9) or (a - b).abs().max() < 1e-9, name


@pytest.mark.parametrize(("impl", "mode"), [("cpu", "zeros"), ("cpu", "reflect_101"), ("reference", "zeros")])
def test_slow_gradcheck(impl, mode):
    maps = torch.cat([turned(1.13, 0.9, 17.0, (6, 5), (2, 3)), turned(2.3, 1.6, -31.0, (6, 5), (2, 3))]).requires_grad_()
    image = torch.randn(2, 1, 6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2), requires_grad=True)
    fill = torch.tensor([[0.3]], dtype=torch.float64, requires_grad=True)

    def function(*tensors):
        image, maps, fill = tensors
        return warp(image, maps, fill=fill, size=(2, 3), footprint=(3, 3), padding_mode=mode, impl=impl)

    assert torch.autograd.gradcheck(function, (image, maps, fill))


@pytest.mark.parametrize("impl", ["cpu", "reference"])
def test_slow_gradcheck_of_a_homography(impl):
    bend = torch.tensor([[[0.02, 0.013, 1.0]]], dtype=torch.float64)
    maps = torch.cat((turned(2.1, 1.4, 21.0, (6, 5), (2, 3)), bend), 1).requires_grad_()
    image = torch.randn(1, 1, 6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2), requires_grad=True)

    def function(image, maps):
        return warp(image, maps, size=(2, 3), footprint=(2, 2), impl=impl)

    assert torch.autograd.gradcheck(function, (image, maps))


@settings(max_examples=15, deadline=None)
@given(calls())
def test_the_way_back_is_the_adjoint(drawn):
    tensors, options = call(*drawn)
    image, maps = tensors["image"].requires_grad_(), tensors["src_from_dst"]
    out = cpu.warp(image, maps, **options)
    grad = torch.randn(out.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    (back,) = torch.autograd.grad(out, image, grad)
    assert (out * grad).sum().item() == pytest.approx((image * back).sum().item(), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.bfloat16])
def test_narrow_images_are_read_and_written_as_they_are(dtype):
    image = (smooth(channels=3) * 255).clamp(0, 255).to(torch.uint8)
    image = image if dtype == torch.uint8 else (image / 255).to(dtype)
    options = {"size": (12, 11), "footprint": (3, 3), "dtype": dtype}
    found = warp(image, turned(2.2, 1.9, 25.0).float(), **options, impl="cpu")
    exact = warp(image, turned(2.2, 1.9, 25.0).float(), **options, impl="reference")
    assert found.dtype == dtype
    assert (found.float() - exact.float()).abs().max() <= (1.0 if dtype == torch.uint8 else torch.finfo(dtype).eps)


@pytest.mark.parametrize("layout", ["channels_last", "transposed", "expanded"])
def test_any_layout(layout):
    image = smooth(channels=3).float().expand(2, -1, -1, -1).contiguous()
    given = laid_out(image, layout).requires_grad_()
    plain, options = image.clone().requires_grad_(), {"size": (12, 11), "footprint": (3, 3), "impl": "cpu"}
    maps = turned(2.2, 1.9, 25.0).float()
    results = [warp(each, maps, **options) for each in (given, plain)]
    assert torch.equal(*results)
    grads = [torch.autograd.grad(result.square().sum(), each)[0] for result, each in zip(results, (given, plain), strict=True)]
    assert torch.equal(*grads)


def test_points_that_are_not_numbers_show_the_fill_and_harm_nobody():
    image = smooth(channels=3).float().expand(2, -1, -1, -1).contiguous().requires_grad_()
    maps = torch.cat([turned(2.0, 2.0, 10.0), torch.full((1, 2, 3), math.nan, dtype=torch.float64)]).float().requires_grad_()
    for impl in ("cpu", "reference"):
        out = warp(image, maps, size=(12, 11), footprint=(3, 3), fill=torch.full((1, 3), 0.25), impl=impl)
        assert (out[1] == 0.25).all()
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(out.sum(), (image, maps)))


@pytest.mark.parametrize("impl", ["cpu", "reference"])
def test_slopes_of_a_blurred_picture(impl):
    image, maps = smooth(), turned(2.3, 1.6, -31.0).requires_grad_()
    blurred = torch.stack([torch.from_numpy(ndimage.gaussian_filter(c.numpy(), 3.0, mode="mirror")) for c in image[0]])[None]
    options = {"size": (12, 11), "footprint": (3, 3), "impl": impl}
    soft = warp(image, maps, slopes=torch.tensor([3.0], dtype=torch.float64), **options)
    assert torch.equal(soft, warp(image, maps, **options))
    grad = torch.randn(soft.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    left, right = (torch.autograd.grad(out, maps, grad)[0] for out in (soft, warp(blurred, maps, **options)))
    assert grads_close(left, right, 1e-9)


def test_the_plan_says_who_computes_each_pass():
    turned = pellucid.Pipeline(
        [pellucid.RandomPerspective(p=1.0), pellucid.RandomScale((0.3, 0.5), antialias=True)], canvas="image"
    )
    lines = turned.explain(size=(64, 64)).splitlines()
    assert lines[2] == "impl   auto -> cpu on cpu"
    assert "homography" in lines[3]
    assert "antialiased, by cpu" in lines[3]
    mixed = pellucid.Pipeline([pellucid.RandomAffine(10), pellucid.ShotNoise((20, 60)), pellucid.RandomGaussianBlur(5)])
    assert mixed.explain(size=(64, 64)).splitlines()[2] == "impl   auto -> cpu (pass 1 3), reference (pass 2) on cpu"
