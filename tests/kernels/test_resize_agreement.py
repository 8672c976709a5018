"""The compiled resize computes what the reference computes, values and gradients; and both what torch computes."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pellucid.segments.chain import AffineStage, ClipStage
from tests.compare import within_budget

from .resizes import resizes
from .warps import agree_in_double, as_precise, cpu, is_adjoint, laid_out, reference, resize

COMMON = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def whole(height, width, size, dtype=torch.float64, mirrored=False):
    """The map and the window of a plain resize."""
    step_y, step_x = height / size[0], width / size[1]
    start, step = (width - 0.5 - 0.5 * step_x, -step_x) if mirrored else (0.5 * step_x - 0.5, step_x)
    src_from_dst = torch.tensor([[[step, 0, start], [0, step_y, 0.5 * step_y - 0.5]]], dtype=dtype)
    return src_from_dst, torch.tensor([[0.0, 0.0, width - 1.0, height - 1.0]], dtype=dtype)


@COMMON
@given(resizes())
def test_values_and_gradients_equal_the_reference_in_double(call):
    agree_in_double(call, cpu.resize, reference.resize, values=1e-12, slopes=1e-10)


@COMMON
@given(resizes())
def test_single_precision_is_as_precise_as_the_reference(call):
    as_precise(call, cpu.resize, reference.resize, hard=True)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed", "cropped"])
@pytest.mark.parametrize(
    ("height", "width", "size"),
    [(37, 41, (9, 13)), (37, 41, (80, 95)), (1, 50, (1, 7)), (50, 1, (7, 3)), (16, 16, (8, 8)), (300, 5, (2, 9)), (1, 1, (3, 3))],
)
def test_torch_computes_the_same(height, width, size, layout, interpolation):
    # torch's cubic kernel has a = -0.5 where it antialiases.
    image = laid_out(torch.rand(2, 3, height, width, dtype=torch.float64), layout).requires_grad_()
    src_from_dst, window = whole(height, width, size)
    ours = cpu.resize(image, src_from_dst, size=size, window=window, filled=False, interpolation=interpolation)
    theirs = F.interpolate(image, size, mode=interpolation, antialias=True, align_corners=False)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(theirs)
    grads = [torch.autograd.grad(out, image, weights)[0] for out in (ours, theirs)]
    torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mirrored", [False, True])
def test_crop_then_resize(mirrored):
    image = torch.rand(1, 3, 30, 40, dtype=torch.float64)
    top, left, height, width = 5, 8, 17, 22
    src_from_dst, window = whole(height, width, (9, 33), mirrored=mirrored)
    src_from_dst[:, 0, 2] += left
    src_from_dst[:, 1, 2] += top
    window = window + torch.tensor([left, top, left, top])
    ours = cpu.resize(image, src_from_dst, size=(9, 33), window=window, filled=True)
    theirs = F.interpolate(image[..., top : top + height, left : left + width], (9, 33), mode="bilinear", antialias=True)
    torch.testing.assert_close(ours, theirs.flip(-1) if mirrored else theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed", "cropped"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_bytes_are_read_as_they_are(layout, channels):
    image = laid_out(torch.randint(0, 256, (2, channels, 19, 31), dtype=torch.uint8), layout)
    src_from_dst, window = whole(19, 31, (7, 40), torch.float32)
    options = {"size": (7, 40), "window": window, "filled": False, "dtype": torch.float32}
    ours = cpu.resize(image, src_from_dst, **options)
    truth = F.interpolate(image.double() / 255, (7, 40), mode="bilinear", antialias=True)
    theirs = reference.resize(image / 255, src_from_dst, size=(7, 40), window=window, filled=False)
    assert within_budget(ours, theirs, truth)
    assert torch.equal(ours, cpu.resize(image.clone(memory_format=torch.contiguous_format), src_from_dst, **options))


@pytest.mark.parametrize("width", [5, 13, 40, 100])
def test_many_taps_have_the_same_bits_in_every_layout(width):
    """Shrinking 300 pixels to so many takes up to 6, 15, 46 and 120 taps."""
    image = torch.randint(0, 256, (2, 3, 40, 300), dtype=torch.uint8)
    src_from_dst, window = whole(40, 300, (11, width), torch.float32)
    options = {"size": (11, width), "window": window, "filled": False, "dtype": torch.float32}
    ours = cpu.resize(image, src_from_dst, **options)
    truth = F.interpolate(image.double() / 255, (11, width), mode="bilinear", antialias=True)
    assert within_budget(ours, reference.resize(image / 255, src_from_dst, size=(11, width), window=window, filled=False), truth)
    for layout in ("channels_last", "transposed", "cropped"):
        picture = laid_out(image, layout)
        assert torch.equal(ours, cpu.resize(picture, src_from_dst, **options)), layout


def test_every_byte_survives_the_identity():
    image = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16)
    src_from_dst, window = whole(16, 16, (16, 16), torch.float32)
    out = cpu.resize(image.float(), src_from_dst, size=(16, 16), window=window, filled=True)
    assert torch.equal(out, image.float())
    mirrored, _ = whole(16, 16, (16, 16), torch.float32, mirrored=True)
    assert torch.equal(cpu.resize(image.float(), mirrored, size=(16, 16), window=window, filled=True), image.float().flip(-1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_images_are_computed_in_single_precision(dtype):
    image = torch.rand(2, 3, 8, 9).to(dtype).requires_grad_()
    src_from_dst, window = whole(8, 9, (5, 12), torch.float32)
    a, b = (
        r.resize(x, src_from_dst, size=(5, 12), window=window, filled=False) for r, x in ((cpu, image), (reference, image.float()))
    )
    assert a.dtype == torch.float32
    torch.testing.assert_close(a, b)
    a.sum().backward()
    assert image.grad.dtype == dtype


@COMMON
@given(resizes(), st.integers(0, 2**31))
def test_adjoint(call, seed):
    is_adjoint(call, cpu.resize, seed, layout=call.layout, room=1e-12)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(3, 9), (8, 2)])
def test_gradcheck(interpolation, size):
    generator = torch.Generator().manual_seed(5)
    image = torch.rand(2, 2, 5, 6, dtype=torch.float64, generator=generator)
    src_from_dst = torch.tensor(
        [[[5.1 / size[1], 0, 0.31], [0, 3.7 / size[0], 0.77]], [[-4.3 / size[1], 0, 4.9], [0, 4.1 / size[0], 0.13]]],
        dtype=torch.float64,
    )
    window = torch.tensor([[0.23, 0.37, 4.61, 3.83], [0.11, 0.47, 4.73, 3.59]], dtype=torch.float64)
    matrix, offset, fill = (torch.randn(2, *shape, dtype=torch.float64, generator=generator) for shape in ((2, 2), (2,), (2,)))
    last = torch.randn(1, 2, 2, dtype=torch.float64, generator=generator)

    def function(image, src_from_dst, window, matrix, offset, fill, last):
        given = {"window": window, "matrix": matrix, "offset": offset, "fill": fill}
        stages = [ClipStage(), AffineStage(last, None)]
        return cpu.resize(image, src_from_dst, size=size, filled=True, interpolation=interpolation, epilogue=stages, **given)

    inputs = [t.requires_grad_() for t in (image, src_from_dst, window, matrix, offset, fill, last)]
    assert torch.autograd.gradcheck(function, inputs, fast_mode=False)


def test_what_is_nowhere_shows_fill_and_has_no_gradient():
    image = torch.rand(4, 3, 6, 6, requires_grad=True)
    src_from_dst, window = whole(6, 6, (6, 6), torch.float32)
    src_from_dst = src_from_dst.repeat(4, 1, 1)
    src_from_dst[0, 0, 2], src_from_dst[1, 1, 1] = torch.nan, torch.inf
    window = window.repeat(4, 1)
    window[2, 3] = torch.nan
    leaves = image, src_from_dst.requires_grad_(), window.requires_grad_()
    fill, offset = torch.tensor([[0.25, 0.5, 0.75]]), torch.ones(1, 3)
    for filled in (False, True):
        for kernel in (cpu, reference):
            out = kernel.resize(*leaves[:2], size=(6, 6), window=leaves[2], filled=filled, fill=fill, offset=offset)
            assert torch.equal(out[:3], fill[:, :, None, None].expand(3, 3, 6, 6))
            assert torch.equal(out[3], image[3] + 1)
        grads = torch.autograd.grad(
            cpu.resize(*leaves[:2], size=(6, 6), window=leaves[2], filled=filled, fill=fill, offset=offset).sin().sum(), leaves
        )
        assert all(torch.isfinite(grad).all() for grad in grads)
        assert not any(grad[:3].any() for grad in grads)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_pixel_that_is_not_a_number_stays_in_its_neighbourhood(bad):
    image = torch.rand(1, 3, 40, 40)
    image[:, :, 20, 20] = bad
    src_from_dst, window = whole(40, 40, (20, 20), torch.float32)
    out = cpu.resize(image, src_from_dst, size=(20, 20), window=window, filled=False)
    assert 0 < (~torch.isfinite(out)).sum() <= 3 * 4 * 4
    few, window = whole(40, 40, (7, 7), torch.float32)
    out = cpu.resize(image, few, size=(7, 7), window=window, filled=False)
    assert 0 < (~torch.isfinite(out)).sum() <= 3 * 2 * 2
    # ... nor does a gradient that is not one reach further than its pixel's footprint.
    image = torch.rand(1, 3, 40, 40, requires_grad=True)
    src_from_dst, window = whole(40, 40, (20, 20), torch.float32)
    grad = torch.ones(1, 3, 20, 20)
    grad[:, :, 10, 10] = bad
    out = cpu.resize(image, src_from_dst, size=(20, 20), window=window, filled=False)
    (found,) = torch.autograd.grad(out, image, grad)
    assert 0 < (~torch.isfinite(found)).sum() <= 3 * 8 * 8


def test_many_outputs_held_at_one_edge():
    # 560 outputs read the last column: the transposed weights would be mostly zeros, so the row's gradient is scattered instead.
    image = torch.rand(2, 3, 5, 60, dtype=torch.float64, requires_grad=True)
    src_from_dst = torch.tensor([[[0.25, 0.0, 0.13], [0.0, 1.1, 0.2]]], dtype=torch.float64, requires_grad=True)
    window = torch.tensor([[0.0, 0.0, 59.0, 4.0]], dtype=torch.float64)
    outs = [r.resize(image, src_from_dst, size=(4, 800), window=window, filled=False) for r in (cpu, reference)]
    torch.testing.assert_close(*outs, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(outs[0])
    torch.testing.assert_close(*(torch.autograd.grad(out, (image, src_from_dst), weights) for out in outs), rtol=1e-11, atol=1e-11)


def test_empty_batches_and_long_epilogues():
    src_from_dst, window = whole(4, 4, (5, 6), torch.float32)
    options = {"size": (5, 6), "window": window, "filled": False}
    assert resize(torch.rand(0, 3, 4, 4), src_from_dst, impl="cpu", **options).shape == (0, 3, 5, 6)
    stages = [ClipStage(), AffineStage(torch.eye(3)[None] * 2, None), ClipStage()]
    image = torch.rand(2, 3, 4, 4)
    torch.testing.assert_close(*(resize(image, src_from_dst, epilogue=stages, impl=i, **options) for i in ("cpu", "reference")))


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [True, False])
def test_slopes_at_whole_pixels_equal_the_reference_s(interpolation, antialias):
    # A cubic's weight is 0 one pixel away, but its slope is not: such a pixel must not be left out.
    image = torch.rand(1, 1, 6, 7, dtype=torch.float64)
    window = torch.tensor([[0.0, 0.0, 6.0, 5.0]], dtype=torch.float64)
    found = []
    for impl in ("cpu", "reference"):
        src_from_dst = torch.tensor([[[1.0, 0.0, 1.0], [0.0, 0.5, 0.5]]], dtype=torch.float64, requires_grad=True)
        options = {"size": (5, 4), "window": window, "filled": False, "interpolation": interpolation, "antialias": antialias}
        out = resize(image, src_from_dst, impl=impl, **options)
        found.append(torch.autograd.grad(out.sin().sum(), src_from_dst)[0])
    assert (found[0] - found[1]).abs().max() < 1e-12
