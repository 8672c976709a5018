"""What is copied by nearest reads: labels, and colours that nothing changes. Every bit as the reference has it."""

import math

import pytest
import torch

from pellucid.kernels.warp import pack, reference, warp

SIZES = [(1, 1), (3, 50), (37, 64), (64, 37)]
DTYPES = [torch.uint8, torch.int64, torch.bool, torch.float16, torch.float32, torch.float64]


def maps(count, seed):
    """Turns, shears, shifts by fractions and by whole pixels, flips: those where rows are copied in one go, and others."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for k in range(count):
        a, b, x, y = torch.rand(4, generator=generator).tolist()
        x, y = 40 * (x - 0.5), 40 * (y - 0.5)
        turn = [[math.cos(7 * a), -math.sin(7 * a), x], [math.sin(7 * a), math.cos(7 * a), y]]
        across, down = [[1.0, 2 * (a - 0.5), x], [0.0, 1.0, y]], [[1.0, 0.0, x], [2 * (b - 0.5), 1.0, y]]
        whole, half = [[1.0, 0.0, round(x)], [0.0, 1.0, round(y)]], [[1.0, 0.5, round(x)], [0.0, 1.0, round(y) + 0.5]]
        flip = [[-1.0, 0.0, 20.0], [0.0, 1.0, y]]
        found.append([turn, across, down, whole, half, flip][k % 6])
    return torch.tensor(found)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
def test_rows_are_copied_bit_for_bit(size, dtype, padding_mode):
    theta = maps(24, seed=sum(size)).to(torch.promote_types(dtype, torch.float32) if dtype.is_floating_point else torch.float32)
    image = (torch.rand(24, 3, 29, 31) * 200).to(dtype)
    if dtype.is_floating_point:
        image[:, :, 3, 4], image[:, :, 5, 6] = math.nan, -0.0
    for layout in (image, image.to(memory_format=torch.channels_last), image[:, :, :, ::2], image.transpose(2, 3)):
        made = dtype if dtype.is_floating_point or dtype == torch.uint8 else None
        resample = pack(theta, size=size, interpolation="nearest", padding_mode=padding_mode, dtype=made)
        ours, other = warp(layout, resample, impl="cpu"), reference.warp(layout, resample)
        assert ours.dtype == other.dtype == dtype
        if dtype.is_floating_point:
            assert torch.equal(ours.isnan(), other.isnan())
            ours, other = ours.nan_to_num(7.0), other.nan_to_num(7.0)
        assert torch.equal(ours, other)


@pytest.mark.parametrize("shift", [0.5, 0.4999999, -0.5, 1e-7, 1.0 - 6e-8, 100.49999, 1e6, math.inf, math.nan])
def test_rows_on_the_edge_of_a_pixel_are_the_references(shift):
    image = torch.arange(3 * 8 * 300, dtype=torch.float32).view(1, 3, 8, 300)
    for theta in ([[1.0, 0.0, shift], [0.0, 1.0, 0.0]], [[1.0, 1e-3, shift - 40.0], [0.0, 1.0, -shift]]):
        resample = pack(torch.tensor([theta]), size=(8, 300), interpolation="nearest")
        assert torch.equal(warp(image, resample, impl="cpu"), reference.warp(image, resample))


def test_a_gradient_goes_on_through_what_would_be_copied():
    image = torch.rand(2, 3, 9, 11, requires_grad=True)
    resample = pack(maps(2, seed=1), size=(9, 11), interpolation="nearest")
    out = warp(image, resample, impl="cpu")
    with torch.no_grad():
        assert torch.equal(out, warp(image, resample, impl="cpu"))
    out.sum().backward()
    assert image.grad.sum() > 0
