"""Channels that lie side by side: copied into planes and back, looked up, moved and painted where they lie."""

import numpy as np
import pytest
import torch

from pellucid import ColorJitter, Normalize, Pipeline, RandomHorizontalFlip, RandomResizedCrop
from pellucid import functional as F
from pellucid.kernels import curve, pixels
from pellucid.kernels.pixels import cells_of, in_pixels, in_planes

DTYPES = (torch.uint8, torch.int16, torch.bfloat16, torch.float32, torch.float64)
MAPS = {
    "mirrored": (-1.0, 0.0, 40.0, 0.0, 1.0, 0.0),
    "turned": (0.0, 1.0, 0.0, -1.0, 0.0, 36.0),
    "transposed, off the edge": (0.0, 1.0, -3.0, 1.0, 0.0, 2.0),
    "resampled": (1.1, 0.2, -3.0, -0.1, 0.9, 2.5),
}


def pictures(channels, dtype=torch.uint8, size=(37, 41), batch=2):
    x = torch.rand(batch, channels, *size, generator=torch.Generator().manual_seed(0))
    return (x * 255).to(dtype) if dtype in (torch.uint8, torch.int16) else x.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("part", [(slice(None),) * 4, (slice(1, 2), slice(None), slice(2, 36), slice(3, 40))], ids=["whole", "cut"])
def test_copies_are_those_of_torch(dtype, channels, part, monkeypatch):
    monkeypatch.setattr(pixels, "_FEW", 0)
    planes = pictures(channels, dtype)
    seen = planes.contiguous(memory_format=torch.channels_last)[part]
    for kept in (False, True):
        found = in_planes(seen, kept=kept)
        assert found.is_contiguous()
        assert torch.equal(found, planes[part])
    assert in_pixels(planes).is_contiguous()
    assert torch.equal(in_pixels(planes), planes.movedim(1, -1))
    assert torch.equal(in_pixels(planes[0]), planes[0].movedim(0, -1))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("moves", MAPS)
def test_a_pass_leaves_pictures_as_they_lie(moves, channels, dtype):
    planes, matrix = pictures(channels, dtype), torch.tensor(MAPS[moves]).view(1, 2, 3)
    lying = planes.contiguous(memory_format=torch.channels_last)
    for image in (lying, lying[:, :, 2:, 1:]):  # rows of the second do not follow one another
        found = F.warp(image, matrix, size=(39, 35))
        assert torch.equal(found, F.warp(image.contiguous(), matrix, size=(39, 35)))
        assert cells_of(found) == channels or dtype == torch.float16


@pytest.mark.parametrize("name", ["posterize", "equalize", "autocontrast"])
def test_curves_of_bytes_that_take_turns(name):
    planes = pictures(3)
    planes[0, 1] //= 2  # each channel has levels of its own
    bend = curve.bend_of(name, torch.tensor([3.0, 4.0]), torch.tensor([1.0, 1.0]))
    for dtype in (torch.uint8, torch.float32):
        found = curve.tone_of_bytes(planes.contiguous(memory_format=torch.channels_last), bend, dtype)
        assert cells_of(found) == 3
        assert torch.equal(found, curve.tone_of_bytes(planes, bend, dtype))


def test_a_compiled_graph_knows_how_a_result_lies():
    matrix = torch.tensor(MAPS["mirrored"]).view(1, 2, 3)
    image = pictures(3).contiguous(memory_format=torch.channels_last)
    compiled = torch.compile(lambda x: F.warp(x, matrix, size=(37, 41)), backend="aot_eager", fullgraph=True)
    found = compiled(image)
    assert found.is_contiguous()
    assert torch.equal(found, F.warp(image, matrix, size=(37, 41)))


@pytest.mark.parametrize("steps", [[RandomHorizontalFlip(p=1.0)], [RandomResizedCrop(9), ColorJitter(0.3), Normalize(0.5, 0.2)]])
def test_lists_of_arrays_have_the_bits_of_planes(steps):
    """Of one size, and of two."""
    rng = np.random.default_rng(3)
    arrays = [rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in ((12, 14), (12, 14), (10, 17))]
    for some in (arrays, arrays[:2]):
        planes = Pipeline(steps, seed=1)([torch.from_numpy(one).movedim(-1, 0).contiguous() for one in some])
        for one, array in zip(planes, Pipeline(steps, seed=1, out="same")(some), strict=True):
            assert array.flags.c_contiguous
            assert np.array_equal(array, one.movedim(0, -1).numpy())
