"""Bytes and halves go through a warp as they are, and come out as if the image had been float32 before and rounded after."""

import numpy as np
import pytest
import torch

import pellucid
from pellucid.functional import horizontal_flip, remap, resize, vertical_flip, warp, warp_affine
from pellucid.functional.opencv import INTERPOLATIONS
from pellucid.kernels.warp.taps import PADDING_MODES
from tests.kernels.primitives import placed

IMPLS = ["reference", "cpu"]
everyone = pytest.mark.parametrize("by", [*IMPLS, "triton"], indirect=True)
DTYPES = [torch.uint8, torch.float16, torch.bfloat16]


def photo(dtype, channels=3):
    generator = torch.Generator().manual_seed(0)
    levels = torch.randint(0, 256, (2, channels, 11, 9), generator=generator)
    return levels.to(torch.uint8) if dtype == torch.uint8 else (levels / 255).to(dtype)


def narrowed(wide, dtype):
    return wide.clamp(0, 255).round().to(dtype) if dtype == torch.uint8 else wide.to(dtype)


MAPS = torch.tensor([[[0.9, 0.3, -1.2], [-0.2, 1.1, 0.7], [0.01, -0.02, 1.0]], [[1.0, 0, 0.5], [0, 1, -2.5], [0, 0, 1]]])
FILL = [3.0, 200.4, 300.0]


@pytest.mark.parametrize("interpolation", [name for name in INTERPOLATIONS if name != "nearest"])
@pytest.mark.parametrize("padding_mode", PADDING_MODES)
@pytest.mark.parametrize("dtype", DTYPES)
@everyone
def test_the_bits_of_a_cast_before_and_after(by, dtype, padding_mode, interpolation):
    image, maps = placed((photo(dtype), MAPS), by)
    options = {"size": (8, 10), "interpolation": interpolation, "padding_mode": padding_mode, "fill": FILL, "impl": by}
    assert torch.equal(warp(image, maps, **options), narrowed(warp(image.float(), maps, **options), dtype))


@pytest.mark.parametrize("channels", [1, 3, 6])
@pytest.mark.parametrize("dtype", DTYPES)
@everyone
def test_with_any_number_of_channels(by, dtype, channels):
    image, maps = placed((photo(dtype, channels), MAPS), by)
    options = {"size": (8, 10), "fill": 30.7, "impl": by}
    assert torch.equal(warp(image, maps, **options), narrowed(warp(image.float(), maps, **options), dtype))


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@everyone
def test_remap(by, dtype, relative):
    x, y = torch.rand(2, 2, 7, 8, generator=torch.Generator().manual_seed(1)) * 9 - 1
    image, x, y = placed((photo(dtype), x, y), by)
    options = {"relative": relative, "border_value": FILL, "impl": by}
    assert torch.equal(remap(image, x, y, **options), narrowed(remap(image.float(), x, y, **options), dtype))


@everyone
def test_halves_of_levels_are_rounded_to_even(by):
    """Fractions of 255 would lose them: a tie is no tie once the sum is rounded."""
    left, right = (level.ravel()[:: 7 if by == "triton" else 1] for level in np.mgrid[:256, :256])
    (pairs,) = placed([torch.from_numpy(np.stack((left, right), -1)).to(torch.uint8)[None, None]], by)
    found = warp(pairs, [[1.0, 0, 0.5], [0, 1, 0]], size=(len(left), 1), impl=by)
    assert np.array_equal(found.cpu().numpy().ravel(), np.rint((left + right) / 2))


@pytest.mark.parametrize("impl", IMPLS)
def test_outside_shows_the_fill_in_the_image_s_units(impl):
    image = photo(torch.uint8)
    far = torch.tensor([[1.0, 0, 1e6], [0, 1, 0]])
    found = warp(image, far, size=(2, 2), fill=[-5.0, 99.6, 300.0], impl=impl)
    assert found.dtype == torch.uint8
    assert found[0, :, 0, 0].tolist() == [0, 100, 255]
    found = warp(image, torch.full((3, 3), torch.nan), size=(2, 2), fill=7.0, impl=impl)
    assert torch.equal(found, torch.full_like(found, 7))


@pytest.mark.parametrize("impl", IMPLS)
def test_gradients_of_halves(impl):
    image = photo(torch.float16).requires_grad_()
    M = MAPS[:, :2].clone().requires_grad_()
    out = warp_affine(image, M, (10, 8), inverse_map=True, impl=impl)
    wide = image.detach().float().requires_grad_()
    again = M.detach().clone().requires_grad_()
    expected = warp_affine(wide, again, (10, 8), inverse_map=True, impl=impl)
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(2)).half()
    out.backward(grad)
    expected.backward(grad.float())
    torch.testing.assert_close(image.grad, wide.grad.half(), rtol=2e-3, atol=0)
    torch.testing.assert_close(M.grad, again.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_second_derivatives_of_halves():
    image = photo(torch.float16).requires_grad_()
    (first,) = torch.autograd.grad(warp(image, MAPS, size=(8, 10)).float().square().sum(), image, create_graph=True)
    (second,) = torch.autograd.grad(first.float().square().sum(), image)
    assert torch.isfinite(second).all()


@pytest.mark.sampled(len(DTYPES))
@pytest.mark.parametrize("dtype", DTYPES)
def test_compiled_whole(dtype):
    def function(image):
        return warp_affine(image, MAPS[:, :2], (10, 8), border_value=20.0)

    image = photo(dtype)
    assert torch.equal(torch.compile(function, fullgraph=True, backend="aot_eager")(image), function(image))


def test_wider_integers_are_refused():
    with pytest.raises(TypeError, match="floating-point or uint8 pixels"):
        warp(photo(torch.uint8).int(), MAPS, size=(2, 2))


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("impl", IMPLS)
def test_resize(impl, dtype, interpolation, antialias):
    image = photo(dtype)
    options = {"interpolation": interpolation, "antialias": antialias, "impl": impl}
    for layout in (torch.contiguous_format, torch.channels_last):
        given = image.contiguous(memory_format=layout)
        for size in ((5, 4), (16, 20)):
            expected = narrowed(resize(given.float(), size, **options), dtype)
            assert torch.equal(resize(given, size, **options), expected)


@pytest.mark.parametrize("impl", IMPLS)
def test_gradients_of_resized_halves(impl):
    image = photo(torch.bfloat16).requires_grad_()
    wide = image.detach().float().requires_grad_()
    grad = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(2)).to(torch.bfloat16)
    resize(image, (5, 4), impl=impl).backward(grad)
    resize(wide, (5, 4), impl=impl).backward(grad.float())
    torch.testing.assert_close(image.grad, wide.grad.to(torch.bfloat16))


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_wide_unsigned_labels_are_moved_bit_for_bit(dtype, impl):
    """torch has neither a flip nor a gather for them; the same bits as signed integers are the oracle."""
    signed = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}[dtype]
    image = torch.randint(-(2**62), 2**62, (2, 2, 7, 9)).to(signed)  # half of them are above the largest signed number
    labels = image.view(dtype)
    for padding_mode in ("zeros", "reflection"):
        options = {"size": (8, 10), "interpolation": "nearest", "padding_mode": padding_mode, "fill": 7, "impl": impl}
        assert torch.equal(warp(labels, MAPS, **options).view(signed), warp(image, MAPS, **options))
    options = {"interpolation": "nearest", "impl": impl}
    assert torch.equal(resize(labels, (4, 12), **options).view(signed), resize(image, (4, 12), **options))
    assert torch.equal(horizontal_flip(labels).view(signed), image.flip(-1))
    assert torch.equal(vertical_flip(labels[0]).view(signed), image[0].flip(-2))
    transforms = [pellucid.RandomHorizontalFlip(p=1.0), pellucid.RandomAffine(20, translate=(0.2, 0.1))]
    augment = pellucid.Pipeline(transforms, impl=impl)
    ours, theirs = (augment({"image": torch.zeros(2, 3, 7, 9), "mask": m}, key=pellucid.Key(1, 2))["mask"] for m in (labels, image))
    assert torch.equal(ours.view(signed), theirs)
