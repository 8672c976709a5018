"""Normal numbers are what the logarithm and the cosine make of the words."""

import pytest
import torch

from pellucid.random.normals import normal_pairs


def edges():
    """Words of every size, and those around which the series change over."""
    spread = (torch.rand(1 << 18, dtype=torch.float64) * 2.0**32).to(torch.int64)
    powers = torch.tensor([(1 << k) + d for k in range(8, 32) for d in (-256, 0, 256)] + [0, 2**32 - 1])
    eighths = torch.arange(0, 2**32, 2**29) + torch.tensor([[-256], [0], [256]])
    some = torch.cat(
        (spread, powers, (2**31.5 + torch.tensor([-256.0, 0.0, 256.0])).to(torch.int64), eighths.flatten().clamp(min=0))
    )
    return some.clamp(0, 2**32 - 1)


def by_library(words):
    u = ((words >> 8).to(torch.float64) + 0.5) * 2.0**-24
    radius, angle = torch.sqrt(-2.0 * torch.log(u[:, 0::2])), 2.0 * torch.pi * u[:, 1::2]
    return torch.stack((radius * torch.cos(angle), radius * torch.sin(angle)), -1).flatten(1)


@pytest.mark.parametrize("first", [True, False], ids=["radius", "angle"])
def test_they_are_those_of_the_library_functions(first):
    some = edges()
    other = torch.full_like(some, 123456789)
    words = torch.stack((some, other) * 2 if first else (other, some) * 2, 1)
    truth = by_library(words)
    double = normal_pairs(words, torch.float64)
    assert (double - truth).abs().max() < 4e-15
    single = normal_pairs(words, torch.float32)
    # The last half of 24 bits is lost in float32 where u > 1/2, so that u is off by 2^-25 at most: that much is the number's own.
    u = ((some >> 8).double() + 0.5) * 2.0**-24
    own = torch.where(u > 0.5, 2.0**-25, 0.0)
    radius, radius_slope = torch.sqrt(-2.0 * torch.log(u)), 1.0 / (u * torch.sqrt(-2.0 * torch.log(u)))
    budget = own * (radius_slope if first else 2 * torch.pi * torch.sqrt(-2.0 * torch.log(torch.tensor(123456789 / 2**32))))
    near_one = u > 1 - 2.0**-22
    error = (single.double() - truth).abs().amax(1)
    assert (error <= 1.01 * budget + 1e-6)[~near_one].all()
    assert radius.shape == error.shape
    assert (error[near_one] < 1e-3).all()
    assert torch.isfinite(single).all()
