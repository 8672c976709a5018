"""Half-way coordinates: nearest rounds up where exact arithmetic is half-way, whatever the dtype and whoever computes.

The oracle is integer arithmetic: output pixel u of m shows input pixel (2 u + 1) n // (2 m) of n. Some 6 % of all coordinates of
small resizes are half-way, and float64 used to miss 143 of the 2,304 pairs of sizes up to 48.
"""

import pytest
import torch

import pellucid
from pellucid import functional as PF

SIZES = range(1, 49)
CUT = pellucid.CenterCrop(4)
"""Stands for a crop of two pixels less than the image."""


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


TURNS = {
    "mirrored": (lambda x: x.flip(-1), [pellucid.RandomHorizontalFlip(p=1.0)]),
    "upside down": (lambda x: x.flip(-2), [pellucid.RandomVerticalFlip(p=1.0)]),
    "turned": (lambda x: x.rot90(1, (-2, -1)), [pellucid.RandomRotation90(times=(1,))]),
    "turned back": (lambda x: x.rot90(3, (-2, -1)), [pellucid.RandomRotation90(times=(3,))]),
    "both": (
        lambda x: x.flip(-1).rot90(1, (-2, -1)),
        [pellucid.RandomHorizontalFlip(p=1.0), pellucid.RandomRotation90(times=(1,))],
    ),
    "cut": (lambda x: x[..., 1:-1, 1:-1].flip(-1), [pellucid.RandomHorizontalFlip(p=1.0), CUT]),
}


@pytest.mark.parametrize("impl", ["reference", "cpu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8])
@pytest.mark.parametrize("turn", TURNS)
def test_half_way_in_the_frame_that_is_resized(turn, dtype, impl):
    """A flip or turn and a resize in one pass show the pixels that they show one after the other, before and after the resize."""
    by_hand, steps = TURNS[turn]
    wrong = []
    for n in (6, 12, 15, 40):
        image = picture(n, n, dtype)
        steps_here = [pellucid.CenterCrop(n - 2) if step is CUT else step for step in steps]
        for m in (1, 4, 5, 8, 9, 10, 16, 18, 20, 30):
            resize, square = (pellucid.Resize((m, k), interpolation="nearest", antialias=False) for k in (2 * m, m))
            turned = by_hand(image)
            resized = turned[..., exact(turned.shape[-2], m)[:, None], exact(turned.shape[-1], 2 * m)]
            out = pellucid.Pipeline([*steps_here, resize], impl=impl)({"image": image, "mask": image[0]})
            if not (torch.equal(out["image"], resized) and torch.equal(out["mask"], resized[0])):
                wrong.append((n, m, "before"))
            if CUT not in steps:
                out = pellucid.Pipeline([square, *steps], impl=impl)(image)
                if not torch.equal(out, by_hand(image[..., exact(n, m)[:, None], exact(n, m)])):
                    wrong.append((n, m, "after"))
    assert not wrong
