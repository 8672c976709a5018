"""The compiled codec's slopes are the reference's, which torch differentiates."""

import pytest
import torch

from pellucid.kernels.codec import jpeg
from pellucid.kernels.codec.tables import SLOPES, SUBSAMPLINGS
from tests.compare import within_budget

from .primitives import Kernel

SIZES = ((37, 53), (8, 8), (17, 16), (16, 17), (1, 1), (33, 4), (2, 6), (15, 33), (5, 3), (48, 64))


def decoded(image, quality, *, subsampling="4:2:0", slope="proximity", impl="auto"):
    return jpeg(image, quality, subsampling=subsampling, image_gradient=slope, surrogate="none", h=1.0, impl=impl)


def pictures(batch=3, channels=3, size=(21, 34), rows=None, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(batch, channels, 3, 3, generator=generator, dtype=torch.float64) * 1.6 - 0.3
    image = torch.nn.functional.interpolate(coarse, size, mode="bilinear")
    image = image + 0.05 * torch.randn(image.shape, generator=generator, dtype=torch.float64)  # beyond [0, 1] here and there
    return image.to(dtype), torch.rand(rows or batch, generator=generator, dtype=dtype) * 90 + 5


CODEC = Kernel(decoded, pictures, "codec", ("4:2:0", "proximity"))


@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", SIZES)
def test_slopes_are_the_references(size, channels, slope):
    for subsampling in [*SUBSAMPLINGS][: 1 if channels == 1 else 3]:
        found = {}
        for dtype in (torch.float64, torch.float32):
            image, quality = pictures(channels=channels, size=size, dtype=dtype)
            along = torch.randn(image.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
            for impl in ("reference", "cpu"):
                leaf = image.clone().requires_grad_()
                out = decoded(leaf, quality, subsampling=subsampling, slope=slope, impl=impl)
                found[dtype, impl] = out.detach(), *torch.autograd.grad(out, leaf, along)
        for double, fine in zip(found[torch.float64, "cpu"], found[torch.float64, "reference"], strict=True):
            torch.testing.assert_close(double, fine, rtol=0, atol=1e-10 * float(fine.abs().max()) + 1e-15)
        truth = found[torch.float64, "reference"][1]
        assert within_budget(found[torch.float32, "cpu"][1], found[torch.float32, "reference"][1], truth)


@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
def test_values_of_numbers_are_those_of_their_bytes(subsampling):
    for dtype in (torch.float32, torch.float64):
        image, quality = pictures(dtype=dtype)
        ours, theirs = (decoded(image, quality, subsampling=subsampling, impl=impl) for impl in ("cpu", "reference"))
        assert torch.equal(ours, theirs)


def test_a_mapped_axis_joins_the_batch():
    image, quality = pictures(batch=4)
    lanes = image.unflatten(0, (2, 2))
    for mapped, dims in ((quality.unflatten(0, (2, 2)), (0, 0)), (quality[:1], (0, None))):
        found = torch.vmap(torch.func.grad(lambda x, q: decoded(x, q).square().sum()), in_dims=dims)(lanes, mapped)
        rows = mapped.flatten() if dims[1] == 0 else mapped
        leaf = image.clone().requires_grad_()
        (wanted,) = torch.autograd.grad(decoded(leaf, rows).square().sum(), leaf)
        torch.testing.assert_close(found.flatten(0, 1), wanted)


def test_second_derivatives_are_the_surrogates():
    """A cubic slope has one; a gradient that is differentiated again goes through the reference."""
    found = []
    for impl in ("reference", "cpu"):
        image, quality = pictures()
        leaf = image.clone().requires_grad_()
        (first,) = torch.autograd.grad(decoded(leaf, quality, slope="cubic", impl=impl).square().sum(), leaf, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), leaf)[0])
    assert found[0].abs().max() > 0
    torch.testing.assert_close(found[1], found[0])


def test_half_precision_keeps_the_tensor_code():
    image, quality = pictures(dtype=torch.float32)
    leaf = image.to(torch.bfloat16).requires_grad_()
    (gradient,) = torch.autograd.grad(decoded(leaf, quality).float().square().sum(), leaf)
    assert gradient.dtype == torch.bfloat16
    assert torch.isfinite(gradient).all()


def test_strided_pictures_and_gradients():
    image, quality = pictures(dtype=torch.float32)
    found = []
    for laid in (image, image.contiguous(memory_format=torch.channels_last)):
        leaf = laid.clone(memory_format=torch.preserve_format).requires_grad_()
        found.append(torch.autograd.grad(decoded(leaf, quality).mT.square().sum(), leaf)[0])
    assert torch.equal(*found)
