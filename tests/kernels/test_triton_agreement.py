"""The Triton warp computes what the reference computes, values and gradients, over everything both accept."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from .interpreted import DEVICE, at_length, runs  # noqa: F401
from .warps import INTERPOLATIONS, PADDINGS, STAGES, Call, agree_in_double, as_precise, calls, is_adjoint, reference
from .warps import triton as kernels

# Shrinking a failure runs hundreds of examples, minutes each by the interpreter.
COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, phases=(Phase.explicit, Phase.generate))


def on_device(call):
    return Call({n: t.to(DEVICE) for n, t in call.tensors.items()}, call.options, call.stages, call.layout)


def check_values_and_gradients(call):
    agree_in_double(on_device(call), kernels.warp, reference.warp)


@settings(COMMON, max_examples=6)
@given(calls(interpolations=("bilinear", "nearest")))
def test_values_and_gradients_equal_the_reference_in_double(call):
    check_values_and_gradients(call)


@pytest.mark.parametrize("interpolation", ["bicubic", "bicubic_opencv"])
@pytest.mark.parametrize("padding_mode", ["zeros", "reflect_101"])
@pytest.mark.parametrize("windowed", [False, True])
def test_bicubic_equals_the_reference_in_double(interpolation, padding_mode, windowed):
    src_from_dst = torch.tensor([[[1.3, 0.4, -2.0], [-0.3, 1.1, 1.0], [0.01, 0.02, 1.0]]], dtype=torch.float64)
    tensors = {"image": torch.rand(1, 1, 5, 6, dtype=torch.float64), "src_from_dst": src_from_dst}
    if windowed:  # partly outside of the image
        tensors["window"] = torch.tensor([[-1.7, 0.4, 3.1, 5.5]], dtype=torch.float64)
    check_values_and_gradients(Call(tensors, {"size": (6, 5), "interpolation": interpolation, "padding_mode": padding_mode}))


@pytest.mark.slow
@settings(COMMON, max_examples=at_length(400))
@given(calls())
def test_values_and_gradients_equal_the_reference_in_double_at_length(call):
    check_values_and_gradients(call)


@settings(COMMON, max_examples=20)
@given(calls())
def test_single_precision_is_as_precise_as_the_reference(call):
    hard = call.options["interpolation"] == "nearest" or "window" in call.tensors
    as_precise(on_device(call), kernels.warp, reference.warp, hard=hard)


def both_gradients(image, src_from_dst, **options):
    """The image's gradient by the kernels and by the reference, in single precision."""
    found = []
    for warp in (kernels.warp, reference.warp):
        leaf = image.clone().requires_grad_()
        out = warp(leaf, src_from_dst.to(DEVICE), **options)
        weights = torch.rand(out.shape, generator=torch.Generator().manual_seed(0)).to(DEVICE) + 0.5  # nothing cancels
        found.append(torch.autograd.grad(out, leaf, weights)[0])
    return found


# Each asks something else of the bound on an input pixel's readers.
EXTREME = {
    "identity": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "half a pixel": [[1, 0, 0.5], [0, 1, -0.5], [0, 0, 1]],
    "turned by 45 degrees": [[0.70710678, -0.70710678, 5], [0.70710678, 0.70710678, -3], [0, 0, 1]],
    "enlarged tenfold": [[0.1, 0, 4], [0, 0.1, 6], [0, 0, 1]],
    "shrunk fivefold": [[5, 1, -8], [-1, 5, -7], [0, 0, 1]],
    "sheared": [[1, 6, -20], [0, 1, 0], [0, 0, 1]],
    "mirrored": [[-1, 0, 13], [0, -1, 10], [0, 0, 1]],
    "one line": [[1, 1, 0], [1, 1, 0], [0, 0, 1]],
    "nearly one line": [[1, 1, 0], [1, 1.000001, 0], [0, 0, 1]],
    "one point": [[0, 0, 4.25], [0, 0, 3.5], [0, 0, 1]],
    "scaled by 1e-20": [[1e-20, 0, 2e-20], [0, 1e-20, 0], [0, 0, 1e-20]],
    "negative": [[-1, 0, -1], [0, -1, 0.5], [0, 0, -1]],
    "perspective": [[1.2, 0.1, -1], [0.05, 0.9, 1], [0.02, -0.015, 1]],
    "horizon in view": [[1, 0.2, -3], [0, 1, -2], [0.3, 0.1, -1.7]],
    "horizon through the corner": [[1, 0, 0], [0, 1, 0], [0.25, 0.25, 0]],
    "projective and singular": [[1, 0, 3], [0, 1, 2], [1, 0, 3]],
    "infinite denominator": [[1, 0, 3], [0, 1, 2], [0, 0, float("inf")]],
    "far away": [[1, 0, 1e6], [0, 1, 0], [0, 0, 1]],
    "not a number": [[1, 0, float("nan")], [0, 1, 0], [0, 0, 1]],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXTREME)
def test_the_gather_misses_no_reader(name):
    src_from_dst = torch.tensor([EXTREME[name]], dtype=torch.float32)
    image = torch.rand(1, 1, 10, 13, device=DEVICE)
    affine = EXTREME[name][2] == [0, 0, 1]
    for map_ in (src_from_dst, src_from_dst[:, :2]) if affine else (src_from_dst,):
        ours, theirs = both_gradients(image, map_, size=(9, 12))
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5 * (1 + float(theirs.abs().max())))
    if name not in ("far away", "not a number", "horizon through the corner"):
        assert theirs.any()


@pytest.mark.slow
@settings(COMMON, max_examples=at_length(150))
@given(st.integers(0, 2**31), st.sampled_from((0.1, 1.0, 5.0)), st.sampled_from((0.0, 0.05, 0.5)))
def test_the_gather_misses_no_reader_of_random_maps(seed, spread, bend):
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(1, 3, 3, generator=generator) * torch.tensor([[1, 1, 8], [1, 1, 8], [0, 0, 0.5]]) * spread
    noise[:, 2, :2] = torch.randn(1, 2, generator=generator) * bend
    src_from_dst = torch.eye(3) * spread + noise
    image = torch.rand(1, 1, 11, 14, device=DEVICE)
    src_from_dst = src_from_dst if bend else src_from_dst[:, :2]
    for interpolation in ("bilinear", "nearest"):
        ours, theirs = both_gradients(image, src_from_dst, size=(12, 9), interpolation=interpolation)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * (1 + float(theirs.abs().max())))


@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_borders_collect_what_lies_outside(padding_mode):
    src_from_dst = torch.tensor([[[2.2, 0.6, -9.0], [-0.5, 1.9, -4.0]]])
    image = torch.rand(2, 1, 6, 7, device=DEVICE)
    for window in (None, torch.tensor([[1.2, 0.0, 4.7, 8.0]], device=DEVICE)):
        ours, theirs = both_gradients(image, src_from_dst, size=(9, 11), padding_mode=padding_mode, window=window)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_several_blocks_and_chunks():
    # 17 x 33 output pixels are ten blocks in two chunks of sums; 5 channels are two groups.
    image = torch.rand(1, 5, 6, 33, dtype=torch.float64)
    src_from_dst = torch.tensor([[[0.5, 0.1, 0.0], [0.05, 0.6, -1.0], [0.001, 0.0, 1.0]]], dtype=torch.float64)
    tensors = {"image": image, "src_from_dst": src_from_dst, "fill": torch.rand(1, 5, dtype=torch.float64)}
    check_values_and_gradients(Call(tensors, {"size": (17, 33), "padding_mode": "border"}))


@pytest.mark.parametrize("stages", STAGES)
def test_every_chain_of_stages(stages):
    generator = torch.Generator().manual_seed(1)
    kwargs = {"dtype": torch.float64, "generator": generator}
    tensors = {"image": torch.rand(2, 3, 5, 6, **kwargs), "src_from_dst": torch.eye(3, dtype=torch.float64)[None] * 0.8}
    tensors |= {"fill": torch.rand(1, 3, **kwargs), "turns": torch.rand(2, **kwargs) - 0.5} if "hue" in stages else {}
    for number, stage in enumerate(stages):
        if stage == "affine":
            tensors[f"stage_matrix_{number}"] = torch.randn(2, 3, 3, **kwargs)
            tensors[f"stage_offset_{number}"] = torch.randn(1, 3, **kwargs)
        elif stage == "power":
            tensors["exponent"], tensors["gain"] = (torch.rand(2, **kwargs) + 0.5 for _ in range(2))
        elif stage == "solarize":
            tensors["numbers"] = torch.rand(2, 4, **kwargs)
    check_values_and_gradients(Call(tensors, {"size": (5, 7)}, stages))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_narrow_images_are_read_as_they_are(dtype):
    image = torch.rand(1, 3, 8, 9, device=DEVICE).to(dtype).requires_grad_()
    wide = image.detach().float().requires_grad_()
    src_from_dst = torch.tensor([[[0.9, 0.1, 0.5], [-0.1, 0.8, 1.0]]], device=DEVICE)
    a, b = kernels.warp(image, src_from_dst, size=(7, 7)), reference.warp(wide, src_from_dst, size=(7, 7))
    assert a.dtype == b.dtype == torch.float32
    torch.testing.assert_close(a, b)
    a.square().sum().backward()
    b.square().sum().backward()
    assert image.grad.dtype == dtype
    torch.testing.assert_close(image.grad, wide.grad.to(dtype))


@pytest.mark.parametrize("out", [torch.float16, torch.bfloat16, torch.float32])
def test_8_bit_channels_last_to_any_float_in_one_pass(out):
    photo = torch.randint(0, 256, (2, 8, 9, 3), dtype=torch.uint8, device=DEVICE).permute(0, 3, 1, 2)
    src_from_dst = torch.tensor([[[0.9, 0.1, 0.5], [-0.1, 0.8, 1.0]]], device=DEVICE)
    norm = torch.eye(3, device=DEVICE)[None] * 4, torch.full((1, 3), -2.0, device=DEVICE)
    found = kernels.warp(photo, src_from_dst, size=(7, 7), matrix=norm[0], offset=norm[1], dtype=out)
    expected = reference.warp(photo.float() / 255, src_from_dst, size=(7, 7), matrix=norm[0], offset=norm[1])
    assert found.dtype == out
    torch.testing.assert_close(found, expected.to(out), rtol=1e-2 if out != torch.float32 else 1e-5, atol=1e-5)


@pytest.mark.parametrize("padding_mode", ["zeros", "border"])
def test_layouts_give_the_same_bits(padding_mode):
    planes = torch.rand(2, 3, 7, 9, device=DEVICE)
    strided = torch.rand(2, 6, 14, 18, device=DEVICE)[:, ::2, ::2, ::2].copy_(planes)
    maps = torch.tensor([[[0.9, 0.1, 0.5], [-0.1, 0.8, 1.0]]], device=DEVICE)
    found = []
    for image in (planes, planes.contiguous(memory_format=torch.channels_last), planes.mT.contiguous().mT, strided):
        leaf, at = image.detach().requires_grad_(), maps.clone().requires_grad_()
        out = kernels.warp(leaf, at, size=(8, 10), padding_mode=padding_mode)
        found.append((out, *torch.autograd.grad(out.square().sum(), (leaf, at))))
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def test_offsets_beyond_32_bits():
    # Rows 2^20 elements apart: the last starts beyond 2^31. The pages between are never touched.
    flat = torch.from_numpy(np.zeros(2**31 + 64, np.uint8))
    image = torch.as_strided(flat, (1, 1, 2049, 8), (0, 0, 2**20, 1)).to(DEVICE) if DEVICE == "cpu" else None
    if image is None:
        pytest.skip("would need the memory of the whole span on the device")
    flat[-64:] = torch.arange(64)
    last = torch.tensor([[[1.0, 0, 0], [0, 1.0, 2046]]])
    found = kernels.warp(image, last, size=(4, 8), interpolation="nearest", padding_mode="border")
    assert torch.equal(found[0, 0, 2], torch.arange(8, dtype=torch.uint8))
    assert torch.equal(found[0, 0, 3], found[0, 0, 2])


@pytest.mark.skipif(DEVICE == "cuda", reason="would need the memory of the whole span on the device")
@pytest.mark.parametrize("padding_mode", ["zeros", "border"])
def test_channels_beyond_32_bits(padding_mode):
    # Planes 2^26 elements apart: the last of 33 starts at 2^31. The pages between are never touched.
    flat = torch.from_numpy(np.zeros(2**31 + 64, np.uint8))
    image = torch.as_strided(flat, (1, 33, 4, 8), (0, 2**26, 8, 1))
    image[0, 32], image[0, 31] = torch.arange(32).view(4, 8), 7
    eye = torch.eye(3)[None, :2]
    found = kernels.warp(image, eye, size=(4, 8), padding_mode=padding_mode, dtype=torch.uint8)
    assert torch.equal(found, image)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_half_way_coordinates_are_rounded_up(dtype):
    for n, m in ((48, 20), (31, 10), (45, 18), (7, 22)):
        step = n / m
        matrix = torch.tensor([[[step, 0, 0.5 * step - 0.5], [0, step, 0.5 * step - 0.5]]], dtype=torch.float64)
        matrix = matrix.to(torch.float64 if dtype == torch.float64 else torch.float32).to(DEVICE)
        image = torch.arange(n * n, device=DEVICE).reshape(1, 1, n, n).to(dtype).requires_grad_(dtype.is_floating_point)
        out = kernels.warp(image, matrix, size=(m, m), interpolation="nearest")
        places = (2 * torch.arange(m) + 1) * n // (2 * m)
        wanted = places[:, None] * n + places
        assert torch.equal(out[0, 0].cpu(), wanted.to(dtype))
        if dtype.is_floating_point:
            out.sum().backward()
            assert torch.equal(image.grad.flatten().nonzero()[:, 0].cpu(), wanted.flatten().unique())


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_whole_pixel_moves_are_bit_exact(interpolation):
    image = torch.rand(1, 3, 8, 9, device=DEVICE)
    eye = torch.eye(3, device=DEVICE)[None]
    flip = torch.tensor([[[-1.0, 0.0, 8.0], [0.0, 1.0, 0.0]]], device=DEVICE)
    for padding_mode in ("zeros", "reflection"):
        options = {"size": (8, 9), "interpolation": interpolation, "padding_mode": padding_mode}
        assert torch.equal(kernels.warp(image, eye, **options), image)
        assert torch.equal(kernels.warp(image, flip, **options), image.flip(-1))


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
def test_what_is_nowhere_shows_fill_and_has_no_gradient(padding_mode):
    image = torch.rand(3, 3, 6, 6, device=DEVICE, requires_grad=True)
    src_from_dst = torch.eye(3, device=DEVICE).repeat(3, 1, 1)
    src_from_dst[0, 0, 2], src_from_dst[1, 1, 1] = torch.nan, torch.inf
    src_from_dst.requires_grad_()
    fill = torch.tensor([[0.25, 0.5, 0.75]], device=DEVICE)
    out = kernels.warp(image, src_from_dst, size=(6, 6), padding_mode=padding_mode, fill=fill)
    assert torch.equal(out[0], fill[0, :, None, None].expand(3, 6, 6))
    assert torch.equal(out[2], image[2])
    to_image, to_map = torch.autograd.grad(out.square().sum(), (image, src_from_dst))
    assert not to_image[:2].any()
    assert torch.isfinite(to_image).all()
    assert torch.isfinite(to_map).all()


def test_a_gradient_that_is_not_finite_stays_where_it_is_read():
    image = torch.rand(2, 1, 5, 5, device=DEVICE, requires_grad=True)
    shift = torch.tensor([[[1.0, 0, -2.0], [0, 1.0, 0]]], device=DEVICE)
    out = kernels.warp(image, shift, size=(5, 5), padding_mode="border")
    upstream = torch.ones_like(out)
    upstream[0, 0, 0, 0] = torch.nan
    (found,) = torch.autograd.grad(out, image, upstream)
    assert torch.isnan(found[0, 0, 0, 0])
    assert torch.isfinite(found[0, :, :, 1:]).all()  # no tap outside the image ends there
    assert torch.isfinite(found[1]).all()


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.int64])
@pytest.mark.parametrize("padding_mode", ["zeros", "reflect_101"])
def test_labels_are_copied(dtype, padding_mode):
    # Coordinates on an eighth of a pixel: exact in both, so no tie is decided by rounding.
    image = torch.randint(-100, 100, (2, 2, 7, 9)).to(DEVICE, dtype)
    spread = torch.tensor([[0.5, 0.5, 3], [0.5, 0.5, 3], [0, 0, 0]])
    src_from_dst = ((torch.randn(2, 3, 3) * spread * 8).round() / 8 + torch.eye(3)).to(DEVICE)
    fill = torch.tensor([[3.0, 0.0]], device=DEVICE)
    for size, window in (((6, 11), None), ((1, 5), torch.tensor([[1.0, 2.0, 5.0, 6.0]], device=DEVICE))):
        options = {"size": size, "interpolation": "nearest", "padding_mode": padding_mode, "fill": fill, "window": window}
        a, b = (w(image.mT.contiguous().mT, src_from_dst, **options) for w in (kernels.warp, reference.warp))
        assert a.dtype == dtype
        assert torch.equal(a, b)


@settings(COMMON, max_examples=4)
@given(calls(), st.integers(0, 2**31))
def test_adjoint(call, seed):
    is_adjoint(on_device(call), kernels.warp, seed)
