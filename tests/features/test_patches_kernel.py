"""The compiled patches compute what the reference computes, and torch may do with them what it does with any operator."""

from functools import partial

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from pellucid.errors import ImplementationError
from pellucid.features import extract_patches, frames_from_xy
from pellucid.kernels.patches import cpu, patches, reference
from pellucid.kernels.patches.layout import levels_of, most_levels

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


def gradients(compute, tensors, weights, **options):
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    out = compute(*leaves, **options)
    return out, torch.autograd.grad(out, leaves, weights.to(out.dtype), materialize_grads=True)  # span: unused at one level


@pytest.mark.parametrize("size", [(37, 50), (1, 7), (2, 1), (64, 64)])
@pytest.mark.parametrize("channels", [1, 3])
def test_values_and_gradients_equal_the_reference_in_double(size, channels):
    tensors = example(size=size, channels=channels)
    for levels in (1, 2, most_levels(*size)):
        options = {"size": (5, 6), "levels": levels}
        weights = torch.randn(2, 12, channels, 5, 6, dtype=torch.float64)
        ours, to_ours = gradients(by_cpu, tensors, weights, **options)
        theirs, to_theirs = gradients(reference.patches, tensors, weights, **options)
        torch.testing.assert_close(ours, theirs, atol=1e-13, rtol=0)
        for mine, other in zip(to_ours, to_theirs, strict=True):
            assert (mine - other).abs().max() <= 1e-12 * (1 + other.abs().max())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_single_precision_is_as_precise_as_the_reference(seed):
    tensors = example(seed=seed, dtype=torch.float32, channels=3)
    options = {"size": (16, 16), "levels": 6}
    weights = torch.randn(2, 12, 3, 16, 16)
    truth, to_truth = gradients(reference.patches, [tensor.double() for tensor in tensors], weights, **options)
    ours, to_ours = gradients(by_cpu, tensors, weights, **options)
    theirs, to_theirs = gradients(reference.patches, tensors, weights, **options)
    eps = torch.finfo(torch.float32).eps
    for mine, other, true in zip((ours, *to_ours), (theirs, *to_theirs), (truth, *to_truth), strict=True):
        error, allowed = (mine.double() - true).abs().max(), (other.double() - true).abs().max()
        assert error <= 2 * allowed + 16 * eps * (1 + true.abs().max())


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


def test_same_bits_for_any_number_of_threads():
    image, frames, span = example(3, 2, (120, 130), 60, torch.float32)
    weights = torch.randn(3, 60, 2, 32, 32)
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3, 1):
            torch.set_num_threads(threads)
            out, grads = gradients(by_cpu, (image, frames, span), weights, size=(32, 32), levels=8)
            results.append((out.detach(), *grads))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_opcheck():
    image, frames, span = example(count=4)
    arguments = (image, frames, span, [5, 6], 6)
    torch.library.opcheck(torch.ops.pellucid.cpu_patches.default, arguments)
    grad = torch.rand(2, 4, 2, 5, 6, dtype=torch.float64)
    torch.library.opcheck(torch.ops.pellucid.cpu_patches_backward.default, (grad, *arguments, [True] * 3))


def test_vmap_and_its_gradients():
    image, frames, _ = example()
    images, many = torch.stack((image, image.flip(-1))), torch.stack((frames, frames * 1.1))

    def loss(x, f):
        return extract_patches(x, f, 6, impl="cpu").square().sum()

    for dims in ((0, None), (None, 0), (0, 0)):
        given = images if dims[0] == 0 else image, many if dims[1] == 0 else frames
        mapped = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=dims)(*given)
        for lane in range(2):
            single = [g[lane] if d == 0 else g for g, d in zip(given, dims, strict=True)]
            expected = torch.func.grad(loss, argnums=(0, 1))(*single)
            assert all(torch.equal(a[lane], b) for a, b in zip(mapped, expected, strict=True))


def test_second_derivatives_go_through_the_reference():
    found = []
    for impl in ("cpu", "reference"):
        leaves = [tensor.clone().requires_grad_() for tensor in example(count=5)]
        out = patches(*leaves, size=(5, 6), levels=6, impl=impl).square().sum()
        first = torch.autograd.grad(out, leaves, create_graph=True)
        found.append(torch.autograd.grad(sum(f.sin().sum() for f in first), leaves))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_what_only_the_reference_does():
    image, frames, _ = example()
    tangent = torch.ones_like(image)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(image, tangent)
        for impl in ("auto", "cpu"):  # linear in the image
            derivative = torch.autograd.forward_ad.unpack_dual(extract_patches(dual, frames, 5, impl=impl)).tangent
            torch.testing.assert_close(derivative, torch.ones_like(derivative))
        dual = torch.autograd.forward_ad.make_dual(frames, torch.ones_like(frames))
        assert torch.autograd.forward_ad.unpack_dual(extract_patches(image, dual, 5)).tangent is not None
        with pytest.raises(ImplementationError, match="impl='reference'"):
            extract_patches(image, dual, 5, impl="cpu")
    with pytest.raises(ImplementationError, match="impl='reference'"):
        torch.func.grad(lambda x: torch.func.grad(lambda y: extract_patches(y, frames, 5, impl="cpu").pow(3).sum())(x).sum())(image)
    with pytest.raises(ImplementationError, match="triton"):
        extract_patches(image, frames, 5, impl="triton")


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


def test_it_compiles_to_one_graph_that_keeps_the_operator():
    names = []

    def keep(graph, _):
        names.extend(str(node.target) for node in graph.graph.nodes)
        return make_boxed_func(graph.forward)

    image = torch.rand(2, 1, 40, 44, requires_grad=True)
    frames = frames_from_xy(40 * torch.rand(2, 6, 2), 3 + 9 * torch.rand(2, 6), 30.0).requires_grad_()
    torch._dynamo.reset()
    compiled = torch.compile(extract_patches, fullgraph=True, backend=aot_autograd(fw_compiler=keep, bw_compiler=keep))
    outs = [function(image, frames, 8) for function in (compiled, extract_patches)]
    torch.testing.assert_close(*outs)
    for one, other in zip(*(torch.autograd.grad(out.square().sum(), [image, frames]) for out in outs), strict=True):
        torch.testing.assert_close(one, other)
    assert [n for n in names if "patches" in n] == ["pellucid.cpu_patches.default", "pellucid.cpu_patches_backward.default"]


@pytest.mark.slow
def test_the_reference_compiles_fullgraph():
    image, frames = torch.rand(1, 1, 20, 24), frames_from_xy(20 * torch.rand(1, 3, 2), 6.0)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, f: extract_patches(x, f, 4, impl="reference"), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(image, frames), extract_patches(image, frames, 4, impl="reference"))


@pytest.mark.gpu
def test_cuda_gives_what_the_cpu_gives():
    image, frames, span = example()
    weights = torch.randn(2, 12, 2, 5, 6, dtype=torch.float64)
    here = gradients(reference.patches, (image, frames, span), weights, size=(5, 6), levels=6)
    there = gradients(patches, [t.cuda() for t in (image, frames, span)], weights.cuda(), size=(5, 6), levels=6)
    for one, other in zip((here[0], *here[1]), (there[0], *there[1]), strict=True):
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
