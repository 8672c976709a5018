"""Keypoints (N, K, 2) of several objects move as those of one do, and stay with their box."""

import pytest
import torch

import pellucid as P
from pellucid.errors import InvalidArgument

FLIP = P.RandomHorizontalFlip(p=1.0)
KEY = P.Key(0, 0)


def pipeline(**options):
    return P.Pipeline([FLIP, P.RandomAffine(20), P.RandomCrop(6)], pairs={"keypoints": [(0, 2)]}, **options)


def persons(*lead):
    points = torch.rand(*lead, 4, 3, 3, generator=torch.Generator().manual_seed(0)) * 8
    return torch.cat((points[..., :2], (points[..., 2:] > 2).float()), -1)


@pytest.mark.parametrize("lead", [(), (2,), (2, 5)], ids=["one", "batch", "clip"])
def test_each_object_moves_as_if_it_were_alone(lead):
    images, points = torch.rand(*lead, 3, 8, 10), persons(*lead)
    together, record = pipeline()({"image": images, "keypoints": points}, key=KEY, return_record=True)
    for n in range(4):
        alone = pipeline()({"image": images, "keypoints": points[..., n, :, :]}, key=KEY)
        assert torch.equal(together["keypoints"][..., n, :, :], alone["keypoints"])
        assert torch.equal(together["keypoints_valid"][..., n, :], alone["keypoints_valid"])
    back = pipeline().inverse({"image": together["image"], "keypoints": together["keypoints"]}, record)
    assert torch.allclose(back["keypoints"][..., :2], points[..., :2], atol=1e-4)


def test_lists_have_as_many_objects_as_each_picture_shows():
    images, points = [torch.rand(3, 8, 10), torch.rand(3, 9, 12)], [persons()[:2], persons()[:1]]
    together = pipeline(pad_targets=False)({"image": images, "keypoints": points}, key=KEY)["keypoints"]
    assert [rows.shape for rows in together] == [(2, 3, 3), (1, 3, 3)]
    first = pipeline()({"image": images, "keypoints": [points[0][1], points[1][0]]}, key=KEY)["keypoints"]
    assert torch.equal(together[0][1], first[0])
    assert torch.equal(together[1][0], first[1])


@pytest.mark.parametrize("listed", [False, True])
def test_an_object_goes_with_its_box(listed):
    sample = {
        "image": torch.rand(3, 8, 10),
        "boxes": torch.tensor([[0.0, 0, 3, 3], [9, 7, 10, 8], [4, 4, 6, 6]]),
        "labels": torch.tensor([1, 2, 3]),
        "keypoints": persons()[:3],
    }
    crop = P.Pipeline([P.CenterCrop(6)], drop_invalid=True)
    out = crop({name: [value] for name, value in sample.items()} if listed else sample)
    labels, points, flags = (out[name][0] if listed else out[name] for name in ("labels", "keypoints", "keypoints_valid"))
    assert labels.tolist() == [1, 3]
    assert torch.equal(points[..., :2], sample["keypoints"][[0, 2], :, :2] - torch.tensor([2.0, 1.0]))
    assert flags.shape == (2, 3)


def test_flags_have_one_number_for_each_point():
    batch = {"image": torch.rand(2, 3, 8, 8), "keypoints": persons(2), "keypoints_valid": torch.ones(2, 4, 3, dtype=torch.bool)}
    assert P.Pipeline([FLIP])(batch)["keypoints_valid"].shape == (2, 4, 3)
    with pytest.raises(InvalidArgument, match=r"keypoints_valid.*expected shape \(2, 4, 3\)"):
        P.Pipeline([FLIP])(batch | {"keypoints_valid": torch.ones(2, 4, dtype=torch.bool)})
    with pytest.raises(InvalidArgument, match="places below 3"):
        P.Pipeline([FLIP], pairs={"keypoints": [(2, 3)]})(batch)
