"""Arrays of 16-bit floats and bytes inside compiled functions: every conversion equals torch's."""

import numpy as np
import pytest
import torch

from pellucid.kernels.jit import entry
from pellucid.kernels.narrow import half_bits, half_number, numbers, steps
from pellucid.kernels.threads import memory
from pellucid.kernels.warp.dtypes import rounded

ALL = torch.arange(65536, dtype=torch.int32).to(torch.int16)  # wraps: every pattern of 16 bits once
HALVES = [torch.float16, torch.bfloat16]


@entry
def read(source, target):
    source = numbers(source)
    for i in range(len(source)):
        target[i] = source[i]


@entry
def write(source, target):
    target = steps(target)
    for j in range(len(source)):
        x, y = source[j], target[j][0:]
        for i in range(len(x)):
            y[i] = x[i]


def floats():
    """Every 16-bit float, what lies halfway between neighbours, right beside that, and random bits."""
    exact = torch.cat([ALL.view(dtype).float() for dtype in HALVES])
    ordered = exact[torch.isfinite(exact)].double().unique()
    halfway = ((ordered[1:] + ordered[:-1]) / 2).float()
    beside = [torch.nextafter(halfway, torch.full_like(halfway, limit)) for limit in (-torch.inf, torch.inf)]
    random = torch.randint(-(2**31), 2**31, (200_000,), dtype=torch.int64).to(torch.int32).view(torch.float32)
    return torch.cat((exact, halfway, *beside, random))


def same(found, expected):
    """The same bits, except that NaN may have other bits."""
    nan = torch.isnan(expected)
    width = {2: torch.int16, 4: torch.int32}[expected.element_size()]
    assert torch.isnan(found[nan]).all()
    assert torch.equal(found[~nan].view(width), expected[~nan].view(width))


@pytest.mark.parametrize("dtype", HALVES)
def test_every_half_is_read_as_torch_reads_it(dtype):
    found = torch.full((65536,), -1.0)
    read(memory(ALL.view(dtype)), found.numpy())
    same(found, ALL.view(dtype).float())


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_rounded_as_torch_rounds_them(dtype):
    numbers = floats()
    found = torch.zeros(1, len(numbers), dtype=dtype)
    write(numbers.numpy()[None], memory(found))
    same(found[0], numbers.to(dtype))


def test_processors_without_halves_get_the_same():
    # Plain Python of what is compiled there.
    with np.errstate(over="ignore"):
        found = torch.tensor([float(half_number(np.uint16(bits))) for bits in range(65536)])
    same(found, torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16).float())
    some = floats()[::37]
    with np.errstate(over="ignore", invalid="ignore"):
        bits = np.array([half_bits(np.float32(number)) for number in some.numpy()], np.uint16)
    same(torch.from_numpy(bits.view(np.int16)).view(torch.float16), some.to(torch.float16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bytes_are_clipped_and_rounded(dtype):
    steps_and_ties = torch.arange(-20, 531, dtype=dtype) / 510
    special = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0, 1e30], dtype=dtype)
    numbers = torch.cat((steps_and_ties, torch.nextafter(steps_and_ties, torch.ones_like(steps_and_ties)), special))
    found = torch.zeros(1, len(numbers), dtype=torch.uint8)
    write(numbers.numpy()[None], found.numpy())
    assert torch.equal(found[0], rounded(numbers, torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_levels_are_clipped_and_rounded(dtype):
    ties = torch.arange(-20, 531, dtype=dtype) / 2
    special = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0, 1e30], dtype=dtype)
    numbers = torch.cat((ties, torch.nextafter(ties, torch.full_like(ties, 1e3)), special))
    found = torch.zeros(1, len(numbers), dtype=torch.uint8)
    write(numbers.numpy()[None], found.numpy().view(np.int8))
    assert torch.equal(found[0], rounded(numbers, torch.uint8, levels=True))
