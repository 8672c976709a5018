"""Maps that only move whole pixels are copies: every bit arrives, NaN included, whatever else the batch holds."""

import itertools

import pytest
import torch

import pellucid as P
from tests.kernels.primitives import gradients
from tests.kernels.warps import warp

SIGNS = list(itertools.product((-1, 1), repeat=2))
TURNS = [torch.tensor((a, 0, 0, b)) for a, b in SIGNS] + [torch.tensor((0, a, b, 0)) for a, b in SIGNS]


def moved(turn, shift, dtype=torch.float64):
    """The map with this linear part that takes the output's middle near the middle of a 9x9 image, and then moves by ``shift``."""
    linear = turn.reshape(2, 2)
    middle = torch.tensor([4, 4])
    return torch.cat((linear, (middle - linear @ middle + torch.tensor(shift))[:, None]), 1).to(dtype)


def maps(dtype=torch.float64):
    return torch.stack([moved(turn, shift, dtype) for turn in TURNS for shift in [(0, 0), (3, -2), (-8, 8), (20, 0)]])


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("size", [(9, 9), (5, 12), (1, 3)])
def test_values_and_gradients_are_the_references_bit_for_bit(interpolation, padding_mode, size):
    src_from_dst = maps()
    image = torch.rand(len(src_from_dst), 4, 9, 9, dtype=torch.float64)
    options = {"size": size, "interpolation": interpolation, "padding_mode": padding_mode}
    found = [gradients(lambda x, i=impl: warp(x, src_from_dst, impl=i, **options), [image]) for impl in ("cpu", "reference")]
    assert torch.equal(found[0][0], found[1][0])
    exact = padding_mode == "zeros"  # where pixels are shown more than once, the order of the sum matters
    torch.testing.assert_close(found[0][1], found[1][1], atol=0 if exact else 1e-13, rtol=0)


def test_every_layout_and_dtype_is_copied():
    src_from_dst = maps(torch.float32)
    whole = torch.rand(len(src_from_dst), 3, 12, 13)
    for image in (
        whole[..., 1:10, 2:11],
        whole.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)[..., :9, :9],
        whole[:1, :, :9, :9],
    ):
        image = image.expand(len(src_from_dst), -1, -1, -1)
        found = [warp(image, src_from_dst, size=(8, 9), impl=impl) for impl in ("cpu", "reference")]
        assert torch.equal(*found)


def test_what_is_not_a_number_stays_in_its_own_pixel():
    """Interpolation gives its neighbours 0 * NaN."""
    image = torch.rand(1, 3, 9, 9)
    image[0, :, 2, 5], image[0, 1, 7, 7] = torch.nan, torch.inf
    for turn, expected in (
        ((1, 0, 0, 1), image),
        ((-1, 0, 0, 1), image.flip(-1)),
        ((1, 0, 0, -1), image.flip(-2)),
        ((0, 1, 1, 0), image.mT),
        ((0, 1, -1, 0), image.rot90(1, (-1, -2))),
    ):
        out = warp(image, moved(torch.tensor(turn), (0, 0), torch.float32)[None], size=(9, 9), impl="cpu")
        torch.testing.assert_close(out, expected, atol=0, rtol=0, equal_nan=True)
    crop = warp(image, torch.tensor([[[1.0, 0, 3], [0, 1, 2]]]), size=(4, 5), impl="cpu")
    torch.testing.assert_close(crop, image[..., 2:6, 3:8], atol=0, rtol=0, equal_nan=True)


def test_a_sample_does_not_notice_its_neighbours():
    """Copied and resampled samples take turns, forward and backward."""
    still, odd = maps(torch.float32)[:6], maps(torch.float32)[:6] + 0.01 * torch.randn(6, 2, 3)
    src_from_dst = torch.stack((still, odd), 1).flatten(0, 1)
    image = torch.rand(12, 3, 9, 9)
    matrix, fill = torch.eye(3) * 0.5 + 0.1 * torch.rand(12, 3, 3), torch.rand(12, 3)

    def at(x, part):
        return warp(x[part], src_from_dst[part], size=(9, 9), matrix=matrix[part], fill=fill[part], impl="cpu")

    together = gradients(lambda x: at(x, slice(None)), [image])
    leaf = image.clone().requires_grad_()
    alone = torch.cat([at(leaf, slice(k, k + 1)) for k in range(12)])
    assert torch.equal(together[0], alone)
    weights = torch.randn(alone.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64).float()
    assert torch.equal(together[1], torch.autograd.grad(alone, leaf, weights)[0])


@pytest.mark.parametrize("off", [1e-5, 0.5])
def test_nearly_whole_moves_are_resampled(off):
    image = torch.rand(2, 1, 9, 9, dtype=torch.float64)
    linear, shifted = moved(TURNS[0], (0, 0))[None], moved(TURNS[0], (0, 0))[None]
    linear[0, 0, 0] += off
    shifted[0, 1, 2] += off
    for src_from_dst in (linear, shifted):
        found = [warp(image, src_from_dst.expand(2, 2, 3), size=(9, 9), impl=impl) for impl in ("cpu", "reference")]
        torch.testing.assert_close(*found, atol=1e-14, rtol=0)
        assert not torch.equal(found[0], image)


def test_windows_and_projective_rows():
    image = torch.rand(1, 3, 9, 9, dtype=torch.float64)
    identity = torch.eye(3, dtype=torch.float64)[None]
    for window in ([0.0, 0.0, 8.0, 8.0], [1.0, 2.0, 6.0, 7.0], [-2.0, 0.0, 9.0, 3.5]):
        given = torch.tensor([window], dtype=torch.float64)
        found = [warp(image, identity, size=(9, 9), window=given, impl=impl) for impl in ("cpu", "reference")]
        torch.testing.assert_close(*found, atol=1e-15, rtol=0)
    tilted = identity.clone()
    tilted[0, 2, 0] = 1e-3
    torch.testing.assert_close(*(warp(image, tilted, size=(9, 9), impl=impl) for impl in ("cpu", "reference")), atol=1e-14, rtol=0)


def test_the_maps_gradient_is_still_that_of_interpolation():
    src_from_dst = maps()[::4]  # those that show nothing of the outside, whose seam has a slope on one side only
    image = torch.rand(len(src_from_dst), 3, 9, 9, dtype=torch.float64)
    found = [
        gradients(lambda x, m, i=impl: warp(x, m, size=(9, 9), impl=i), [image, src_from_dst]) for impl in ("cpu", "reference")
    ]
    torch.testing.assert_close(*found, atol=1e-11, rtol=0)


COLORS = [
    [P.ColorJitter(0.3, 0.3, saturation=0.3, hue=0.1), P.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.2))],
    [P.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.2))],
    [P.ColorJitter(hue=0.2), P.ColorJitter(0.3, 0.3, saturation=0.3, hue=0.1)],  # more than one pass
    [P.RandomGrayscale(p=0.5), P.RandomInvert()],
]


@pytest.mark.parametrize("transforms", COLORS, ids=lambda t: "-".join(type(one).__name__ for one in t))
def test_colour_alone_is_one_such_copy(transforms):
    fast, slow = (P.Pipeline(transforms, seed=3, impl=impl, dtype=torch.float64) for impl in ("cpu", "reference"))
    assert "pointwise, by cpu" in fast.explain()
    image = torch.rand(4, 3, 20, 30, dtype=torch.float64)
    record = fast.draw(image)
    leaves = [[image.clone().requires_grad_(), record.requires_grad_()] for _ in range(2)]
    results = []
    for pipeline, (leaf, own) in zip((fast, slow), leaves, strict=True):
        out = pipeline.apply(leaf, own)
        drawn = [value for values in own.params for value in values.values() if value.requires_grad]
        results.append((out, *torch.autograd.grad(out.square().sum(), [leaf, *drawn], materialize_grads=True)))
    torch.testing.assert_close(*results, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(fast.apply(image, record), slow.apply(image, record), atol=1e-12, rtol=0)  # from a tape
    eight = (255 * image).to(torch.uint8)
    torch.testing.assert_close(fast.apply(eight, record), slow.apply(eight, record), atol=2e-5, rtol=0)
