"""The compiled noise is the reference's noise, bit for bit, and its gradients are the reference's."""

import pytest
import torch

from pellucid import ColorJitter, Pipeline, RandomErasing, RandomGaussianBlur, RandomGaussianNoise, RandomSharpness
from pellucid.core import compilers
from pellucid.engine.plan import make_plan
from pellucid.kernels.blend import gaussian_field, noise, poisson_quantile, reference
from pellucid.pipeline.explanation import explain
from pellucid.random import patterns
from pellucid.types import ImageSpec

from .primitives import Kernel, agree, both, gradients, placed


def noises(batch=2, channels=3, size=(9, 11), rows=None, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    image = torch.rand(batch, channels, *size, generator=generator, dtype=dtype)
    words = torch.randint(1 << 32, (rows or batch, 2), generator=generator)
    mean, sigma = torch.rand(2, rows or batch, generator=generator, dtype=dtype)
    return image, words, 0.2 * mean - 0.1, 0.1 + 0.2 * sigma


def clipped(*tensors, impl="auto"):
    return noise(*tensors, clip=True, impl=impl)


NOISE = Kernel(noise, noises, "noise", (0,))
CLIPPED = Kernel(clipped, noises, "noise", (1,))


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (2, 33, 34), (3, 64, 64)])
def test_the_field_is_the_references_bit_for_bit(shape, by):
    (words,) = placed([torch.randint(1 << 32, (5, 2))], by)
    for dtype, error in ((torch.float32, 0.0), (torch.float64, 5e-16)):  # a unit in the square root, and the product after it
        ours, theirs = (gaussian_field(words, shape, dtype, impl=impl) for impl in (by, "reference"))
        torch.testing.assert_close(ours, theirs, rtol=error, atol=0)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("rows", [1, None])
def test_noise_and_the_images_gradient_are_the_references_bit_for_bit(clip, rows, by):
    tensors = noises(size=(20, 31), rows=rows, dtype=torch.float32)
    values, images, *_ = both(noise, tensors, by, clip=clip)
    assert torch.equal(*values)
    assert torch.equal(*images)
    agree(noise, noises(size=(20, 31), rows=rows), by, clip=clip)


def test_parts_of_the_gradients_and_other_numbers(by):
    image, words, mean, sigma = given = placed(noises(), by)
    whole = gradients(noise, given, clip=True, impl=by)[1:]
    for place in (0, 2, 3):
        leaves = [t.clone().requires_grad_(i == place) if i != 1 else t for i, t in enumerate(given)]
        weights = torch.randn(image.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(image)
        (found,) = torch.autograd.grad(noise(*leaves, clip=True, impl=by), leaves[place], weights)
        assert torch.equal(found, whole[max(place - 1, 0)])
    assert noise(image.half(), words, mean.half(), sigma.half(), impl=by).dtype == torch.float16
    assert gaussian_field(words[:0], (3, 4, 5), torch.float32, impl=by).shape == (0, 3, 4, 5)


def test_the_field_is_an_operator(by):
    (words,) = placed([torch.randint(1 << 32, (2, 3, 2))], by)
    mapped = torch.func.vmap(lambda w: gaussian_field(w, (2, 3, 5), torch.float32, impl=by))(words)
    assert torch.equal(mapped[1], gaussian_field(words[1], (2, 3, 5), torch.float32, impl="reference"))
    operator = getattr(torch.ops.pellucid, f"{by}_gaussian_field").default
    torch.library.opcheck(operator, (words[0], [2, 3, 5], torch.float64))


def test_the_pipelines_use_it_and_say_so():
    image = torch.rand(3, 3, 20, 30)
    transforms = RandomGaussianNoise(sigma=(0.1, 0.3)), RandomErasing(p=1.0, fill="random")
    noisy, erased = (
        [Pipeline([transform], seed=3, impl=impl)(image) for impl in ("auto", "reference")] for transform in transforms
    )
    assert torch.equal(*noisy)
    torch.testing.assert_close(*erased)
    assert (erased[0] != erased[1]).float().mean() < 0.1  # where an edge cuts a pixel, which is mixed by another formula
    assert "by cpu" in Pipeline([RandomGaussianNoise()]).explain(image)


def test_explaining_names_whoever_computes_each_pass(monkeypatch):
    monkeypatch.setattr(compilers, "_triton", True)  # installed or not
    transforms = RandomGaussianBlur(), RandomSharpness(), RandomGaussianNoise(), ColorJitter(0.1, 0.1, clip="each")
    made = make_plan(transforms, ImageSpec(3, 8, 8))
    for device, expected in (("cpu", ["cpu"] * 4), ("cuda", ["triton", "reference", "triton", "reference"])):
        passes = [line for line in explain(made, impl="auto", device=device).splitlines() if line.startswith("pass")]
        assert [line.partition("(by ")[2].rstrip(")") for line in passes] == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_poisson_counts_have_the_bits_of_the_tensor_code(dtype):
    words = torch.randint(0, 2**32, (3, 2), generator=torch.Generator().manual_seed(4))
    field = patterns.uniform_field(words, (3, 40, 51), dtype)
    rate = torch.rand(field.shape, dtype=dtype, generator=torch.Generator().manual_seed(5)) * 80
    rate[0, 0, 0, :3] = torch.tensor([float("nan"), 0.0, 100.0])
    for levels in (field, field[:, :, :1, :1]):
        assert torch.equal(poisson_quantile(rate, levels, 60.0), reference.poisson_quantile(rate, levels, 60.0))
