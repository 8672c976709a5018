"""Bytes and halves through functional warps on Triton: as if cast before and rounded after."""

import numpy as np
import pytest
import torch

from pellucid.functional import remap, warp
from pellucid.kernels import dispatch

from .interpreted import DEVICE, runs  # noqa: F401

DTYPES = [torch.uint8, torch.float16, torch.bfloat16]
MAPS = torch.tensor([[[0.9, 0.3, -1.2], [-0.2, 1.1, 0.7], [0.01, -0.02, 1.0]], [[1.0, 0, 0.5], [0, 1, -2.5], [0, 0, 1]]])


@pytest.fixture(autouse=True)
def anywhere(monkeypatch):
    monkeypatch.setattr(dispatch, "_runs_on", lambda name, device: True)


def photo(dtype, channels):
    levels = torch.randint(0, 256, (2, channels, 11, 9), generator=torch.Generator().manual_seed(0)).to(DEVICE)
    return levels.to(torch.uint8) if dtype == torch.uint8 else (levels / 255).to(dtype)


def narrowed(wide, dtype):
    return wide.clamp(0, 255).round().to(dtype) if dtype == torch.uint8 else wide.to(dtype)


@pytest.mark.parametrize("options", [{}, {"interpolation": "bicubic", "padding_mode": "reflection"}], ids=["plain", "cubic"])
@pytest.mark.parametrize("channels", [1, 3, 6])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bits_of_a_cast_before_and_after(dtype, channels, options):
    image, maps = photo(dtype, channels), MAPS.to(DEVICE)
    options = {"size": (8, 10), "fill": 30.7, "impl": "triton", **options}
    assert torch.equal(warp(image, maps, **options), narrowed(warp(image.float(), maps, **options), dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_remap(dtype):
    x, y = (torch.rand(2, 2, 7, 8, generator=torch.Generator().manual_seed(1)) * 9 - 1).to(DEVICE)
    found, wide = (remap(image, x, y, impl="triton") for image in (photo(dtype, 3), photo(dtype, 3).float()))
    assert torch.equal(found, narrowed(wide, dtype))


def test_halves_of_levels_are_rounded_to_even():
    left, right = torch.meshgrid(torch.arange(256), torch.arange(256), indexing="ij")
    pairs = torch.stack((left, right), -1).reshape(1, 1, -1, 2).to(torch.uint8)[:, :, ::7].to(DEVICE)
    found = warp(pairs, [[1.0, 0, 0.5], [0, 1, 0]], size=(pairs.shape[2], 1), impl="triton")
    assert np.array_equal(found.cpu().numpy().ravel(), np.rint((left + right).double().numpy() / 2).ravel()[::7])
