"""What no loss may hide: NaN in, nothing to look at, numbers in another unit."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pellucid.errors import InvalidArgument
from pellucid.losses import (
    distance_transform,
    hardest_triplet_loss,
    hausdorff_distance_loss,
    hausdorff_erosion_loss,
    hausdorff_level_loss,
    second_order_similarity_loss,
)
from tests.refusals import refused

MAPS = [hausdorff_distance_loss, hausdorff_erosion_loss, hausdorff_level_loss]
WITH_SPACING = [hausdorff_distance_loss, hausdorff_level_loss]


def descriptors():
    a = F.normalize(torch.randn(64, 16, dtype=torch.float64), dim=1)
    return a, F.normalize(a + 0.1 * torch.randn(64, 16, dtype=torch.float64), dim=1)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(
    ("loss", "options"),
    [
        (hardest_triplet_loss, {}),
        (hardest_triplet_loss, {"anchor_swap": False}),
        (hardest_triplet_loss, {"duplicate_distance": 0.0, "power": 2}),
        (second_order_similarity_loss, {}),
        (second_order_similarity_loss, {"neighbours": 1}),
        (second_order_similarity_loss, {"neighbours": 63}),
    ],
)
def test_one_descriptor_that_is_not_finite_shows(loss, options, bad, side):
    pair = [x.requires_grad_() for x in descriptors()]
    spoilt = [x.detach().clone() for x in pair]
    spoilt[side][5, 3] = bad
    assert not loss(*spoilt, **options).isfinite()
    assert not loss(*spoilt, **options, reduction="none")[5].isfinite()
    assert loss(*pair, **options).isfinite()


def test_rows_that_a_nan_anchor_does_not_touch_are_as_without_it():
    a, p = descriptors()
    spoilt = a.clone()
    spoilt[5] = math.nan
    got, want = (hardest_triplet_loss(x, p, anchor_swap=False, margin=2.0, reduction="none") for x in (spoilt, a))
    rest = torch.arange(64) != 5
    torch.testing.assert_close(got[rest], want[rest], rtol=0, atol=0)
    assert (got[rest] > 0).all()


def test_distances_beyond_the_range_of_the_dtype_are_no_missing_negatives():
    a = torch.eye(8) * 1e20
    assert hardest_triplet_loss(a, a.roll(1, 0)).isnan()  # inf - inf


@pytest.mark.parametrize("loss", MAPS)
@pytest.mark.parametrize("which", ["prediction", "target"])
def test_a_nan_pixel_shows(loss, which):
    maps = {"prediction": torch.rand(2, 1, 6, 6), "target": (torch.rand(2, 1, 6, 6) > 0.5).float()}
    maps[which][0, 0, 2, 2] = math.nan
    got = loss(maps["prediction"], maps["target"], reduction="none")
    assert got[0].isnan().all()
    assert got[1].isfinite().all()


@pytest.mark.parametrize("loss", MAPS)
@pytest.mark.parametrize(
    ("shape", "options", "words"),
    [
        ((1, 1, 0, 5), {}, "prediction: expected maps of at least one pixel"),
        ((1, 1, 5, 0), {}, "prediction: expected maps of at least one pixel"),
        ((1, 1, 4, 0, 4), {}, "prediction: expected maps of at least one pixel"),
        ((1, 1, 4, 4), {"alpha": math.nan}, "alpha: expected a finite number"),
        ((1, 1, 4, 4), {"alpha": math.inf}, "alpha: expected a finite number"),
        ((1, 1, 4, 4), {"alpha": -1.0}, "alpha: expected a finite number"),
        ((1, 1, 4, 4), {"alpha": "2"}, "alpha: expected a finite number"),
    ],
)
def test_what_has_no_loss_is_named(loss, shape, options, words):
    refused(InvalidArgument, words, loss, torch.zeros(shape), torch.zeros(shape), **options)


@pytest.mark.parametrize(
    ("loss", "name"), [(hausdorff_level_loss, "levels"), (hausdorff_erosion_loss, "iterations")], ids=["levels", "iterations"]
)
@pytest.mark.parametrize("value", [0, -1, 2.5, math.nan, "3"])
def test_counts_are_whole(loss, name, value):
    with pytest.raises(InvalidArgument, match=f"{name}: expected a whole number"):
        loss(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 4, 4), **{name: value})


@pytest.mark.parametrize("loss", WITH_SPACING)
@pytest.mark.parametrize("spacing", [math.inf, 2.0, (math.inf, 1.0), (math.nan, 1.0), ("1", 1.0), (1.0,), (0.0, 1.0)])
def test_spacing_is_a_positive_number_for_each_axis(loss, spacing):
    with pytest.raises(InvalidArgument, match="spacing: expected 2 positive numbers"):
        loss(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 4, 4), spacing=spacing)


def test_a_single_spacing_is_told_how_to_be_two():
    refused(InvalidArgument, r"Write \(2.0, 2.0,\)", distance_transform, torch.zeros(4, 4, dtype=torch.bool), spacing=2.0)


@pytest.mark.parametrize("loss", WITH_SPACING)
def test_spacing_may_be_a_list_or_an_array(loss):
    prediction, target = torch.rand(1, 1, 6, 6), (torch.rand(1, 1, 6, 6) > 0.5).float()
    want = loss(prediction, target, spacing=(1.0, 2.0))
    for spacing in ([1, 2], np.array([1, 2], dtype=np.float32)):
        assert torch.equal(loss(prediction, target, spacing=spacing), want)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 4, 3), (2, 0, 0)])
def test_the_distance_transform_of_nothing_is_nothing(shape):
    assert distance_transform(torch.zeros(shape, dtype=torch.bool)).shape == shape
