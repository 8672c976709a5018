"""The compiled convolutions compute what the reference computes."""

import functools

import pytest
import torch
from scipy.ndimage import correlate, correlate1d

from pellucid import Learnable, Pipeline, RandomEmboss, RandomGaussianBlur, RandomMotionBlur, RandomSharpness, Uniform
from pellucid.kernels.conversion import as_bytes, as_colors
from pellucid.kernels.convolve import dense, interior, median, separable
from pellucid.kernels.convolve.lines import motion

from .primitives import Kernel, agree, both, placed

SIZES = [(9, 11), (1, 7), (6, 1), (4, 5), (2, 2), (40, 90)]


def blurs(batch=2, channels=3, size=(9, 11), taps=(3, 5), rows=None, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    image = torch.randn(batch, channels, *size, generator=generator, dtype=dtype)
    kernels = [torch.randn(rows or batch, k, generator=generator, dtype=dtype) for k in taps]
    return image, *kernels


def sharpenings(batch=2, channels=3, size=(9, 11), rows=None, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    image = torch.rand(batch, channels, *size, generator=generator, dtype=dtype)
    kernel = 0.3 * torch.randn(rows or batch, 3, 3, generator=generator, dtype=dtype)
    kernel[:, 1, 1] += 1.0
    return image, kernel


def lines(batch=2, channels=3, size=(9, 11), taps=5, rows=None, dtype=torch.float64, seed=0):
    """Square kernels of which a third is nothing."""
    generator = torch.Generator().manual_seed(seed)
    image = torch.randn(batch, channels, *size, generator=generator, dtype=dtype)
    kernel = torch.randn(rows or batch, taps, taps, generator=generator, dtype=dtype)
    return image, torch.where(kernel.abs() < 0.4, torch.zeros_like(kernel), kernel)


def ranks(batch=2, channels=3, size=(9, 11), dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    image = torch.rand(batch, channels, *size, generator=generator, dtype=torch.float64).to(dtype)
    return image, torch.tensor([1.0, 0.4, 0.0], dtype=dtype)[torch.arange(batch) % 3]


def middle(image, gate, taps=(3, 5), impl="auto"):
    return median(image, taps, gate, impl=impl)


MEDIAN = Kernel(middle, ranks, "median", (3, 5))
BLUR = Kernel(separable, blurs, "separable")
SQUARE = Kernel(dense, lines, "dense")
SHARPEN = Kernel(interior, sharpenings, "interior", (0,))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("taps", [(1, 1), (7, 3), (13, 21)])
@pytest.mark.parametrize("rows", [1, None])
def test_blur_and_its_gradients_equal_the_reference_in_double(size, taps, rows, by):
    size = size if by == "cpu" else (min(size[0], 10), min(size[1], 35))
    agree(separable, blurs(size=size, taps=taps, rows=rows), by, close=1e-11)


@pytest.mark.parametrize("by", ["triton"], indirect=True)
def test_blur_in_triton_has_the_bits_of_the_reference(by):
    tensors = placed(blurs(size=(20, 41), taps=(5, 7), dtype=torch.float32), by)
    assert torch.equal(separable(*tensors, impl=by), separable(*tensors, impl="reference"))


def test_blur_is_scipys():
    image, vertical, horizontal = blurs(taps=(7, 3), size=(40, 90))
    for b in range(2):
        expected = correlate1d(
            correlate1d(image[b].numpy(), vertical[b], axis=1, mode="mirror"), horizontal[b], axis=2, mode="mirror"
        )
        assert (separable(image, vertical, horizontal, impl="cpu")[b] - torch.from_numpy(expected)).abs().max() < 1e-13


@pytest.mark.parametrize("size", [*SIZES, (300, 60)])
@pytest.mark.parametrize("taps", [1, 3, 21])
@pytest.mark.parametrize("rows", [1, None])
def test_the_square_filter_and_its_gradients_equal_the_reference_in_double(size, taps, rows):
    """Of several strips, and of kernels that reach farther than the picture is wide."""
    agree(dense, lines(size=size, taps=taps, rows=rows), close=1e-11)


@pytest.mark.parametrize("size", [(40, 90), (3, 7)])
def test_the_square_filter_is_scipys(size):
    image, kernel = lines(size=size, taps=9)
    for b in range(2):
        expected = correlate(image[b].numpy(), kernel[b, None].numpy(), mode="mirror")
        assert (dense(image, kernel, impl="cpu")[b] - torch.from_numpy(expected)).abs().max() < 1e-13


def test_taps_that_are_nothing_spread_nothing():
    image = torch.randn(2, 3, 20, 30)
    image[:, :, 5, 7] = torch.nan
    kernel = torch.zeros(2, 9, 9)
    kernel[0, 4, 4] = 1.0
    kernel[1, 4, 3:6] = torch.tensor([0.25, 0.5, 0.25])
    kernel[1, 0, 0] = 1e-35
    out = dense(image, kernel, impl="cpu")
    assert torch.equal(out[0].nan_to_num(9.0), image[0].nan_to_num(9.0))
    assert int(out[1, 0].isnan().sum()) == 3
    kernel[0, 0, 8] = torch.nan
    assert bool(dense(image, kernel, impl="cpu")[0].isnan().all())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("rows", [1, None])
def test_the_3x3_filter_and_its_gradients_equal_the_reference_in_double(size, clip, rows):
    agree(interior, sharpenings(size=size, rows=rows), clip=clip)


@pytest.mark.parametrize("impl", ["reference", "cpu"])
@pytest.mark.parametrize("shape", [(2, 3, 1, 1), (2, 3, 2, 9), (2, 3, 9, 2), (0, 3, 9, 9)])
@pytest.mark.parametrize("transform", [RandomSharpness, RandomEmboss])
def test_pictures_too_small_for_a_filter_and_no_pictures_have_gradients_of_zero(transform, shape, impl):
    """Not missing ones: distributed training waits for every parameter's."""
    pipeline = Pipeline([transform(Uniform(Learnable(0.2), Learnable(0.6)), p=1.0)], seed=0, impl=impl)
    image = torch.rand(shape, requires_grad=True)
    pipeline(image).sum().backward()
    assert image.grad is not None
    assert all(parameter.grad is not None for parameter in pipeline.parameters())


def test_a_spared_sample_is_copied_and_narrow_kernels_are_short():
    """What is not a number does not spread through taps that are nothing."""
    image = torch.randn(2, 3, 20, 30)
    image[:, :, 5, 7] = torch.nan
    kernel = torch.zeros(2, 9)
    kernel[0, 4] = 1.0
    kernel[1, 3:6] = torch.tensor([0.25, 0.5, 0.25])
    out = separable(image, kernel, kernel, impl="cpu")
    assert torch.equal(out[0].nan_to_num(9.0), image[0].nan_to_num(9.0))
    assert int(out[1, 0].isnan().sum()) == 9
    kernel[1, 0] = 1e-35  # and would make products that the processor handles slowly
    assert torch.equal(separable(image, kernel, kernel, impl="cpu").nan_to_num(9.0), out.nan_to_num(9.0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype, by):
    given = placed([tensor.to(dtype) for tensor in blurs(dtype=torch.float32)], by)
    out = separable(*given, impl=by)
    assert out.dtype == dtype
    assert torch.equal(out, separable(*(tensor.float() for tensor in given), impl=by).to(dtype))


def test_the_pipeline_uses_it_and_says_so():
    blur = Pipeline([RandomGaussianBlur(sigma=(0.5, 2.0))], seed=3)
    image = torch.rand(2, 3, 20, 30)
    assert "by cpu" in blur.explain(image)
    assert "by cpu" in Pipeline([RandomMotionBlur()]).explain(image)
    plain = Pipeline([RandomGaussianBlur(sigma=(0.5, 2.0))], seed=3, impl="reference")
    assert "by reference" in plain.explain(image)
    torch.testing.assert_close(blur(image), plain(image), atol=1e-6, rtol=0)


@pytest.mark.parametrize("taps", [(1, 1), (3, 3), (5, 5), (1, 7), (9, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_medians_are_the_references(taps, dtype):
    for size in ((1, 1), (2, 9), (23, 300)):
        tensors = ranks(batch=3, size=size, dtype=dtype)
        values, *slopes = both(functools.partial(middle, taps=taps), tensors)
        assert torch.equal(*values)
        close = 1e-12 if dtype == torch.float64 else 2e-5
        for ours, theirs in slopes:
            torch.testing.assert_close(ours, theirs, rtol=close, atol=close * float(theirs.abs().max() + 1))


def test_of_equal_medians_the_first_has_the_gradient_and_what_is_no_number_spreads():
    image = torch.zeros(1, 1, 3, 3, requires_grad=True)
    median(image, (3, 3))[0, 0, 1, 1].backward()
    assert image.grad.flatten().tolist() == [1.0] + [0.0] * 8
    strange = torch.rand(1, 2, 6, 40)
    strange[0, 1, 2, 5], strange[0, 0, 0, 0] = torch.nan, torch.inf
    ours, theirs = (median(strange, (3, 3), impl=impl) for impl in ("cpu", "reference"))
    assert torch.equal(ours.isnan(), theirs.isnan())
    assert torch.equal(ours.nan_to_num(), theirs.nan_to_num())


@pytest.mark.parametrize("size", [(1, 1), (3, 4), (40, 36)])
def test_motion_is_the_references(size):
    image, degrees = (
        torch.rand(4, 2, *size, generator=torch.Generator().manual_seed(0), dtype=torch.float64),
        torch.tensor([-135.0, -45.0, 17.0, torch.nan]),
    )
    found = []
    for impl in ("cpu", "reference"):
        leaf = image.clone().requires_grad_()
        out = motion(leaf[:3], 10, 4.0, degrees[:3], impl=impl)
        found.append((out, *torch.autograd.grad(out.square().sum(), leaf)))
    torch.testing.assert_close(*found, atol=1e-12, rtol=1e-12)
    assert motion(image, 10, 4.0, degrees, impl="cpu").shape == image.shape


@pytest.mark.parametrize("size", SIZES)
def test_passes_on_bytes_make_the_bytes_of_their_numbers_bit_for_bit(size):
    """Bytes are read as fractions of 255 and rounded as they are written, in one pass."""
    image = torch.randint(0, 256, (3, 2, *size), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
    fractions = as_colors(image, torch.float32)
    _, vertical, horizontal = blurs(batch=3, taps=(7, 3), dtype=torch.float32)
    _, kernel = lines(batch=3, dtype=torch.float32)
    _, sharpening = sharpenings(batch=3, dtype=torch.float32)
    _, gate = ranks(batch=3, dtype=torch.float32)
    passes = {
        "separable": lambda x: separable(x, 0.5 * vertical, horizontal),
        "dense": lambda x: dense(x, 0.5 * kernel),
        "interior": lambda x: interior(x, sharpening, clip=True),
        "median": lambda x: median(x, (5, 3), gate),
    }
    for name, apply in passes.items():
        made = apply(image)
        assert made.dtype == torch.uint8, name
        assert torch.equal(made, as_bytes(apply(fractions), torch.uint8)), name
