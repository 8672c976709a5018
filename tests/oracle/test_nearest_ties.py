"""Half-way coordinates: nearest rounds up where exact arithmetic is half-way, whatever the dtype and whoever computes.

The oracle is integer arithmetic: output pixel u of m shows input pixel (2 u + 1) n // (2 m) of n. Some 6 % of all coordinates of
small resizes are half-way, and float64 used to miss 143 of the 2,304 pairs of sizes up to 48.
"""

import pytest
import torch

import pellucid
from pellucid import functional as PF

SIZES = range(1, 49)


def exact(n, m):
    return (2 * torch.arange(m) + 1) * n // (2 * m)


def picture(height, width, dtype):
    """Every pixel is its place, row by row."""
    return torch.arange(height * width).reshape(1, 1, height, width).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
@pytest.mark.parametrize("impl", ["reference", "cpu"])
def test_every_pair_of_sizes(impl, dtype):
    wrong = []
    for n in SIZES:
        image = picture(n, n, dtype)
        for m in SIZES[:24]:  # two pairs in a call
            rows, columns = exact(n, m), exact(n, 49 - m)
            wanted = (rows[:, None] * n + columns).to(dtype)
            if not torch.equal(PF.resize(image, (m, 49 - m), interpolation="nearest", impl=impl)[0, 0], wanted):
                wrong.append((n, m, 49 - m))
    assert not wrong


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_image_and_mask_of_a_pipeline_agree(dtype):
    wrong = []
    for n in (6, 13, 31, 40):
        batch = {"image": picture(n, n, dtype), "mask": picture(n, n, torch.int64)[0]}
        for m in range(1, 41):
            out = pellucid.Pipeline([pellucid.Resize((m, 41 - m), interpolation="nearest")])(batch)
            wanted = exact(n, m)[:, None] * n + exact(n, 41 - m)
            if not (torch.equal(out["image"][0, 0].long(), wanted) and torch.equal(out["mask"][0], wanted)):
                wrong.append((n, m, 41 - m))
    assert not wrong


def test_a_mirrored_resize_is_half_way_in_the_image_s_own_coordinates():
    for n, m in ((48, 20), (31, 10), (6, 4), (45, 18)):
        flipped = pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0), pellucid.Resize((m, m), interpolation="nearest")])
        image = picture(n, n, torch.float32)
        mirrored = n + (-(2 * torch.arange(m) + 1) * n) // (2 * m)  # floor(n - 1 - x + 0.5)
        assert torch.equal(flipped(image)[0, 0], image[0, 0][exact(n, m)[:, None], mirrored.clamp(max=n - 1)])
