"""Bytes as numbers and back in one pass: the bits of the tensor code."""

import pytest
import torch

from pellucid.kernels.conversion import as_bytes, as_colors
from pellucid.kernels.warp.dtypes import rounded, to_colors

FLOATS = [torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_bytes_become_the_same_numbers(layout, dtype):
    image = torch.arange(256 * 6, dtype=torch.int64).remainder(256).to(torch.uint8).reshape(2, 3, 16, 16)
    image = image.contiguous(memory_format=layout)
    assert torch.equal(as_colors(image, dtype), to_colors(image, dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_become_the_same_bytes(dtype):
    halves = (torch.arange(-8.0, 520.0, dtype=dtype) / 2) / 255  # halves to even
    strange = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0, 1e30, -1e30], dtype=dtype)
    spread = torch.rand(2, 3, 40, 50, generator=torch.Generator().manual_seed(0), dtype=dtype) * 1.5 - 0.2
    for numbers in (halves, strange, spread, spread[..., ::2], spread.mT):
        assert torch.equal(as_bytes(numbers, torch.uint8), rounded(numbers, torch.uint8))
    assert as_bytes(spread.requires_grad_(), torch.uint8).dtype == torch.uint8
    assert as_bytes(spread, dtype) is spread
