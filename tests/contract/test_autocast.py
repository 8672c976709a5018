"""Mixed precision around a pipeline does not reach into it."""

import pytest
import torch

from pellucid import ColorJitter, Pipeline, RandomAffine, RandomResizedCrop, RandomScale, Resize


@pytest.mark.parametrize(
    "transforms",
    [
        [RandomResizedCrop((8, 8))],
        [Resize((7, 7), interpolation="bicubic")],
        [RandomScale((0.3, 0.5), antialias=True)],
        [RandomAffine(9), ColorJitter(0.2, 0.2)],
    ],
)
def test_autocast_changes_nothing(transforms):
    x = torch.rand(2, 3, 24, 24)
    plain = Pipeline(transforms, seed=1)(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = Pipeline(transforms, seed=1)(x)
    assert mixed.dtype == torch.float32
    assert torch.equal(mixed, plain)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(9, 7), (5, 40), (30, 31)])
def test_resize_is_interpolate(interpolation, size):
    x = torch.rand(2, 3, 23, 29, dtype=torch.float64)
    expected = torch.nn.functional.interpolate(x, size=size, mode=interpolation, antialias=True)
    out = Resize(size, interpolation=interpolation)(x)
    if interpolation == "bilinear" or (size[0] < 23 and size[1] < 29):
        assert (out - expected).abs().max() < 1e-12
