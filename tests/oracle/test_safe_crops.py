"""Crops that keep boxes or masks in sight, and turns that keep the picture: against albumentations and by what they promise."""

import numpy as np
import pytest
import torch
from scipy import stats

import pellucid as P
from pellucid import InvalidArgument, Pipeline

IMAGE = torch.rand(3, 40, 60, generator=torch.Generator().manual_seed(0))
BOXES = torch.tensor([[20.0, 12.0, 30.0, 18.0], [26.0, 14.0, 41.0, 27.0]])


def many(transform, **targets):
    samples = {name: value[None].expand(400, *value.shape) for name, value in targets.items()}
    return Pipeline([transform], seed=1).draw({"image": IMAGE[None].expand(400, -1, -1, -1), **samples}).params[0]


def test_every_box_is_whole_and_edges_lie_as_albumentations_draws_them():
    window = many(P.RandomBoxSafeCrop(16), boxes=BOXES)["window"]
    assert bool((window[:, :2] <= BOXES[:, :2].amin(0)).all() and (window[:, 2:] >= BOXES[:, 2:].amax(0)).all())
    assert bool((window >= 0).all() and (window[:, 2] <= 60).all() and (window[:, 3] <= 40).all())
    albumentations = pytest.importorskip("albumentations")
    theirs = albumentations.BBoxSafeRandomCrop()
    unit = np.concatenate([BOXES.numpy() / [60, 40, 60, 40], np.zeros((2, 1))], 1)
    data, shape = {"bboxes": unit}, {"shape": (40, 60, 3)}
    drawn = np.array([theirs.get_params_dependent_on_data(shape, data)["crop_coords"] for _ in range(400)])
    for edge in range(4):
        assert stats.ks_2samp(window[:, edge].numpy(), drawn[:, edge] + (edge > 1)).pvalue > 1e-3


def test_erosion_cuts_boxes_and_pictures_without_boxes():
    window = many(P.RandomBoxSafeCrop(16, 0.3), boxes=BOXES)["window"]
    cut = 0.3 * (BOXES[:, 2:] - BOXES[:, :2])
    assert bool((window[:, :2] <= (BOXES[:, :2] + cut).amin(0)).all() and (window[:, 0] > 20).any())
    alone = many(P.RandomBoxSafeCrop(16, 0.3))["window"]
    height = alone[:, 3] - alone[:, 1]
    assert 28 <= height.min() <= 30
    assert height.max() == 40
    with pytest.raises(InvalidArgument, match="before all that moves boxes"):
        Pipeline([P.RandomHorizontalFlip(), P.RandomBoxSafeCrop(16)])({"image": IMAGE, "boxes": BOXES})


def test_a_crop_shows_what_the_mask_shows():
    mask = torch.zeros(40, 60, dtype=torch.int64)
    mask[31, 7] = 2
    place = many(P.RandomMaskCrop((10, 12)), mask=mask)["place"]
    assert set(place[:, 0].tolist()) == set(map(float, range(8)))  # the border holds it back
    assert set(place[:, 1].tolist()) == set(map(float, range(22, 31)))
    out = P.RandomMaskCrop((10, 12))({"image": IMAGE, "mask": mask})
    assert out["mask"].sum() == 2
    mask[2, 50] = 1
    place = many(P.RandomMaskCrop(1), mask=mask)["place"]
    assert abs(float((place[:, 0] == 7).double().mean()) - 0.5) < 0.1
    empty = many(P.RandomMaskCrop((10, 12)), mask=torch.zeros_like(mask))["place"]
    assert stats.kstest(empty[:, 0].numpy(), stats.randint(0, 49).cdf).statistic < 0.1
    with pytest.raises(InvalidArgument, match="before all that moves"):
        Pipeline([P.RandomHorizontalFlip(), P.RandomMaskCrop(4)])({"image": IMAGE, "mask": mask})


@pytest.mark.parametrize("degrees", [25.0, -70.0, 135.0])
def test_the_whole_turned_picture_fills_the_frame(degrees):
    _, record = Pipeline([P.RandomSafeRotation((degrees, degrees))])(IMAGE, return_record=True)
    corners = torch.tensor([[-0.5, -0.5], [59.5, -0.5], [59.5, 39.5], [-0.5, 39.5]], dtype=torch.float64)
    moved = record.map_points(corners[None])[0]
    torch.testing.assert_close(moved.amin(0), corners.amin(0), atol=1e-6, rtol=0)
    torch.testing.assert_close(moved.amax(0), corners.amax(0), atol=1e-6, rtol=0)
    albumentations = pytest.importorskip("albumentations")
    theirs = albumentations.SafeRotate((degrees, degrees)).get_params_dependent_on_data({"shape": (40, 60, 3)}, {})["matrix"]
    beside = corners.numpy() @ theirs[:2, :2].T + theirs[:2, 2]
    assert np.abs(moved.numpy() - beside).max() < 1.5  # they cut sides to whole pixels, and turn about another centre
