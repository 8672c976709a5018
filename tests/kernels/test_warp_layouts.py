"""Layouts and kinds of images the compiled warp reads without a copy, sizes beyond 32 bits, and the same bits every time."""

import numpy as np
import pytest
import torch

from pellucid import ColorJitter, Key, Normalize, Pipeline, RandomAffine, RandomHorizontalFlip
from pellucid.kernels.color import mean_color
from pellucid.kernels.warp.cpu.call import STRIP
from tests.cases import MEAN, STD

from .warps import cpu, reference

BYTES = torch.arange(256, dtype=torch.uint8)


def layouts(image):
    """The same pictures in other places in memory."""
    wide = image.new_zeros((*image.shape[:2], image.shape[2] + 3, image.shape[3] + 5))
    wide[:, :, 2:-1, 1:-4] = image
    return {
        "planar": image.contiguous(),
        "channels last": image.contiguous(memory_format=torch.channels_last),
        "cut out": wide[:, :, 2:-1, 1:-4],
        "cut out, channels last": wide.contiguous(memory_format=torch.channels_last)[:, :, 2:-1, 1:-4],
        "transposed": image.mT.contiguous().mT,
        "mirrored twice": image.flip(-1).contiguous().flip(-1),
    }


@pytest.mark.parametrize("layout", layouts(torch.zeros(1, 3, 2, 2)))
def test_8_bit_images_are_read_as_they_are(layout):
    generator = torch.Generator().manual_seed(0)
    image = torch.randint(0, 256, (4, 3, 23, 37), generator=generator, dtype=torch.uint8)
    transforms = [
        RandomAffine(40, scale=(0.6, 1.4), fill=30.0),
        RandomHorizontalFlip(),
        ColorJitter(0.3, 0.3, saturation=0.3, hue=0.1),
    ]
    pipeline = Pipeline([*transforms, Normalize(MEAN, STD)], dtype=torch.float32)
    slow = Pipeline([*transforms, Normalize(MEAN, STD)], dtype=torch.float32, impl="reference")
    picture = layouts(image)[layout]
    ours, theirs = (p(picture, key=Key(1, 2)) for p in (pipeline, slow))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-5)
    assert torch.equal(ours, pipeline(image.clone(), key=Key(1, 2)))  # the layout does not matter, bit for bit


@pytest.mark.parametrize("layout", layouts(torch.zeros(1, 3, 2, 2)))
def test_every_byte_survives_the_identity(layout):
    image = layouts(BYTES.reshape(1, 1, 16, 16).repeat(2, 3, 1, 1))[layout]
    assert torch.equal(Pipeline([RandomAffine(0)])(image), image)


@pytest.mark.parametrize("layout", layouts(torch.zeros(1, 3, 2, 2)))
def test_mean_colour_of_bytes(layout):
    image = torch.randint(0, 256, (5, 3, 19, 31), dtype=torch.uint8)
    expected = image.double().mean((-2, -1)) / 255
    torch.testing.assert_close(mean_color(layouts(image)[layout]), expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(mean_color(layouts(image)["channels last"]), expected, rtol=1e-15, atol=0)


@pytest.mark.parametrize("size", [(1, 700), (700, 1), (3, STRIP - 1), (5, STRIP // 2), (7, STRIP // 2 + 1), (2, 2 * STRIP + 3)])
def test_strips_of_every_shape(size):
    image = torch.rand(2, 3, 20, 30, dtype=torch.float64, requires_grad=True)
    step = torch.tensor(
        [[[30 / size[1], 0.0117, -1.0313], [0.0031, 20 / size[0], 1.5719], [1.1e-4, 0.9e-4, 1.0]]], dtype=torch.float64
    )
    leaf = step.requires_grad_()
    outs = [w(image, leaf, size=size) for w in (cpu.warp, reference.warp)]
    torch.testing.assert_close(*outs, rtol=1e-11, atol=1e-11)
    weights = torch.rand_like(outs[0])
    torch.testing.assert_close(*(torch.autograd.grad((out * weights).sum(), (image, leaf)) for out in outs), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_the_same_bits_a_hundred_times():
    image = torch.rand(3, 3, 61, 67)
    pipeline = Pipeline([RandomAffine(30), ColorJitter(0.3, 0.3, saturation=0.3, hue=0.1), Normalize(MEAN, STD)])
    record = pipeline.draw(image).requires_grad_()
    leaves = [value for values in record.params for value in values.values() if value.requires_grad]
    weights = torch.rand(3, 3, 61, 67)

    def run():
        x = image.clone().requires_grad_()
        out = pipeline.apply(x, record)
        return [out.detach(), pipeline.apply(image, record.to("cpu")).detach(), *torch.autograd.grad(out, (x, *leaves), weights)]

    first = run()
    for turn in range(100):
        torch.set_num_threads(1 + turn % 3)
        assert all(torch.equal(a, b) for a, b in zip(first, run(), strict=True)), turn


def test_more_than_32_bits_of_elements_by_stride():
    side = 30_000  # 3 * side^2 > 2^31
    line = torch.rand(1, 3, 1, side)
    image = line.expand(1, 3, side, side)
    shift = torch.tensor([[[1.0, 0.0, side - 9.5], [0.0, 1.0, side - 6.0]]])
    out = cpu.warp(image, shift, size=(4, 6))
    expected = (line[..., -10:-4] + line[..., -9:-3]) / 2
    torch.testing.assert_close(out, expected.expand(1, 3, 4, 6))


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_offsets_beyond_32_bits(interpolation):
    side = 30_000
    memory = np.zeros(3 * side * side, np.uint8)  # never touched but for a corner, so it takes no memory
    image = torch.from_numpy(memory).view(1, 3, side, side)
    corner = torch.randint(0, 256, (1, 3, 8, 8), dtype=torch.uint8)
    image[..., -8:, -8:] = corner
    shift = torch.tensor([[[1.0, 0.0, side - 8.0], [0.0, 1.0, side - 8.0]]])
    if interpolation == "nearest":
        assert torch.equal(cpu.warp(image, shift, size=(8, 8), interpolation="nearest"), corner)
        return
    torch.testing.assert_close(cpu.warp(image, shift, size=(8, 8), dtype=torch.float32), corner / 255)
