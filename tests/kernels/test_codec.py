"""The compiled codec has the reference's bits, also of numbers, and its slopes are PyTorch's."""

import pytest
import torch

from pellucid.kernels.codec import jpeg
from pellucid.kernels.codec.tables import SUBSAMPLINGS

SIZES = ((37, 53), (8, 8), (17, 16), (16, 17), (1, 1), (33, 4), (2, 6), (15, 33), (5, 3), (48, 64))


def decoded(image, quality, *, subsampling="4:2:0", slope="proximity", impl="auto"):
    return jpeg(image, quality, subsampling=subsampling, image_gradient=slope, surrogate="none", h=1.0, impl=impl)


def pictures(batch=3, channels=3, size=(21, 34), rows=None, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(batch, channels, 3, 3, generator=generator, dtype=torch.float64) * 1.6 - 0.3
    image = torch.nn.functional.interpolate(coarse, size, mode="bilinear")
    image = image + 0.05 * torch.randn(image.shape, generator=generator, dtype=torch.float64)  # beyond [0, 1] here and there
    return image.to(dtype), torch.rand(rows or batch, generator=generator, dtype=dtype) * 90 + 5


@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
@pytest.mark.parametrize("size", SIZES)
def test_values_of_numbers_are_those_of_their_bytes(size, subsampling):
    for dtype in (torch.float32, torch.float64):
        image, quality = pictures(size=size, dtype=dtype)
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


def test_half_precision_keeps_the_tensor_code():
    image, quality = pictures(dtype=torch.float32)
    leaf = image.to(torch.bfloat16).requires_grad_()
    (gradient,) = torch.autograd.grad(decoded(leaf, quality).float().square().sum(), leaf)
    assert gradient.dtype == torch.bfloat16
    assert torch.isfinite(gradient).all()


def test_an_empty_batch():
    image, quality = pictures(batch=0, rows=1)
    leaf = image.requires_grad_()
    assert torch.autograd.grad(decoded(leaf, quality).sum(), leaf)[0].shape == image.shape
