"""The compiled patches compute what the reference computes, and torch may do with them what it does with any operator."""

from functools import partial

import pytest
import torch

from pellucid.errors import ImplementationError
from pellucid.features import extract_patches, frames_from_xy
from pellucid.kernels.patches import cpu, patches, reference
from pellucid.kernels.patches.layout import levels_of, most_levels
from tests.kernels.primitives import Kernel, gradients
from tests.refusals import refused

by_cpu = partial(patches, impl="cpu")


def example(batch=2, channels=2, size=(37, 50), count=12, dtype=torch.float64, seed=0):
    """Patches from far smaller than a sample per pixel to larger than the image, in it, across its border, and beyond."""
    generator = torch.Generator().manual_seed(seed)
    image = torch.rand(batch, channels, *size, generator=generator, dtype=dtype)
    xy = torch.rand(batch, count, 2, generator=generator, dtype=dtype) * 90 - 20
    linear = (
        torch.randn(batch, count, 2, 2, generator=generator, dtype=dtype)
        * torch.logspace(-0.5, 2, count, dtype=dtype)[:, None, None]
    )
    frames = torch.cat((linear, xy[..., None]), -1)
    return image, frames, 1.0 + (linear.square().sum((-1, -2)) / 20 - 1).clamp(min=0)


PATCHES = Kernel(partial(patches, size=(7, 6), levels=6), example, "patches", ([7, 6], 6), mapped=0.0)


@pytest.mark.parametrize("size", [(37, 50), (1, 7), (2, 1), (64, 64)])
@pytest.mark.parametrize("channels", [1, 3])
def test_values_and_gradients_equal_the_reference_in_double(size, channels):
    tensors = example(size=size, channels=channels)
    for levels in (1, 2, most_levels(*size)):
        options = {"size": (5, 6), "levels": levels}
        ours, *to_ours = gradients(by_cpu, tensors, **options)
        theirs, *to_theirs = gradients(reference.patches, tensors, **options)
        torch.testing.assert_close(ours, theirs, atol=1e-13, rtol=0)
        for mine, other in zip(to_ours, to_theirs, strict=True):
            assert (mine - other).abs().max() <= 1e-12 * (1 + other.abs().max())


def test_noncontiguous_and_expanded_input():
    image, frames, span = example(channels=3)
    spread = image.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    swapped = frames.mT.contiguous().mT
    options = {"size": (5, 6), "levels": 6}
    assert torch.equal(by_cpu(spread, swapped, span, **options), by_cpu(image, frames, span, **options))
    one = image[:1].expand(2, -1, -1, -1).requires_grad_()
    by_cpu(one, frames, span, **options).sum().backward()


def test_coordinates_that_are_no_numbers_do_not_crash():
    image, frames, span = example()
    frames[0, 3, 0, 0], frames[1, 4, 1, 2], frames[0, 5] = torch.nan, torch.inf, 1e300
    span[1, 6], span[0, 7] = torch.nan, torch.inf
    out = cpu.PATCHES[1](image, frames, span, [5, 6], 6)
    to_image, *_ = cpu.PATCHES[2](torch.ones_like(out), image, frames, span, [5, 6], 6, [True] * 3)
    good = torch.isfinite(frames).all(-1).all(-1) & torch.isfinite(span)
    assert torch.isfinite(out[good]).all()
    assert to_image.shape == image.shape


def test_what_only_the_reference_does():
    image, frames, _ = example()
    tangent = torch.ones_like(image)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(image, tangent)
        for impl in ("auto", "cpu"):  # linear in the image
            derivative = torch.autograd.forward_ad.unpack_dual(extract_patches(dual, frames, 5, impl=impl)).tangent
            torch.testing.assert_close(derivative, torch.ones_like(derivative))
        dual = torch.autograd.forward_ad.make_dual(frames, torch.ones_like(frames))
        refused(ImplementationError, "impl='reference'", extract_patches, image, dual, 5, impl="cpu")
    refused(ImplementationError, "triton", extract_patches, image, frames, 5, impl="triton")


def test_only_what_is_needed_is_computed_and_only_inputs_are_saved():
    image, frames, span = example(size=(64, 64))
    saved = []
    leaf = frames.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        out = by_cpu(image, leaf, span, size=(8, 8), levels=6)
    assert {t.data_ptr() for t in saved} == {t.data_ptr() for t in (image, leaf, span)}
    out.sum().backward()
    assert leaf.grad is not None
    assert image.grad is None


@pytest.mark.slow
def test_the_reference_compiles_fullgraph():
    image, frames = torch.rand(1, 1, 20, 24), frames_from_xy(20 * torch.rand(1, 3, 2), 6.0)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, f: extract_patches(x, f, 4, impl="reference"), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(image, frames), extract_patches(image, frames, 4, impl="reference"))


@pytest.mark.gpu
def test_cuda_gives_what_the_cpu_gives():
    (image, frames, span), found = example(), []
    for device in ("cpu", "cuda"):
        leaves = [t.to(device).requires_grad_() for t in (image, frames, span)]
        out = patches(*leaves, size=(5, 6), levels=6, impl="reference")
        found.append([out.detach(), *torch.autograd.grad(out.square().sum(), leaves)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other.cpu())
    assert extract_patches(image.cuda(), frames.cuda(), 8).is_cuda


@pytest.mark.parametrize("length", [1, 2, 3, 5, 17, 512])
def test_levels_hold_every_pixel_that_changes(length):
    """A step at either end of a line, halved by hand far beyond it, is constant outside of what each level holds."""
    for level, stored in enumerate(levels_of(length, length, 6)):
        margin = 1 << 8
        line = torch.arange(-margin, length + margin).clamp(0, length - 1).double()
        for _ in range(level):
            line = torch.nn.functional.pad(line[None], (2, 2), mode="replicate")[0]
            line = torch.nn.functional.conv1d(line[None, None], torch.tensor([[[1.0, 4, 6, 4, 1]]]).double() / 16, stride=2)[0, 0]
        start = margin >> level
        inside = line[start + stored.low_x : start + stored.low_x + stored.width]
        assert bool((line[: start + stored.low_x] == inside[0]).all())
        assert bool((line[start + stored.low_x + stored.width :] == inside[-1]).all())
