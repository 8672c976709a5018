"""A script that calls albumentations runs with another import: same keys, layouts, dtypes and labels."""

import numpy as np
import pytest

import pellucid as P
from pellucid.interop import from_albumentations
from tests.peers import albumentations

RNG = np.random.default_rng(1)
GIVEN = {
    "image": RNG.integers(0, 256, (40, 50, 3), dtype=np.uint8),
    "mask": RNG.integers(0, 4, (40, 50), dtype=np.uint8),
    "masks": [np.eye(40, 50, dtype=np.uint8), np.ones((40, 50), np.uint8)],
    "bboxes": [[0.0, 0.0, 3.0, 3.0], [10.0, 12.0, 30.0, 35.0]],
    "keypoints": [(20.0, 20.0), (11.0, 13.0)],
    "class_labels": ["gone", "kept"],
}
POINTS = {"keypoints": [(20.0, 20.0), (1.0, 3.0), (11.0, 13.0)], "names": ["nose", "gone", "ear"]}


@pytest.mark.parametrize("tensors", [False, True])
def test_both_calls_return_the_same(tensors):
    A = albumentations()
    steps = [A.CenterCrop(24, 28), A.HorizontalFlip(p=1.0), *([A.pytorch.ToTensorV2()] if tensors else [])]
    theirs = A.Compose(
        steps,
        bbox_params=A.BboxParams(format="pascal_voc", label_fields=["class_labels"]),
        keypoint_params=A.KeypointParams(format="xy"),
    )
    by_hand = P.Pipeline([P.CenterCrop((24, 28)), P.RandomHorizontalFlip(p=1.0)], like="albumentations")
    wanted = theirs(**GIVEN)
    for ours in (from_albumentations(theirs), *(() if tensors else (by_hand,))):
        agree(ours(**GIVEN), wanted)


@pytest.mark.parametrize("channels", [1, 4])
def test_channels_of_masks_may_stand_last(channels):
    A = albumentations()
    steps = [A.CenterCrop(24, 28), A.HorizontalFlip(p=1.0)]
    given = {"image": GIVEN["image"], "mask": RNG.integers(0, 4, (40, 50, channels), dtype=np.uint8)}
    agree(from_albumentations(A.Compose(steps))(**given), wanted := A.Compose(steps)(**given))
    crop = P.Pipeline([P.CenterCrop((24, 28)), P.RandomHorizontalFlip(p=1.0)])
    for lists in (False, True):  # of tensors, channels first, as pictures are
        out = crop({key: [value] * 2 for key, value in given.items()} if lists else given)["mask"]
        assert np.array_equal((out[0] if lists else out).movedim(0, -1), wanted["mask"])


def agree(found, wanted):
    """The same of all that the original returns."""
    for key, value in wanted.items():
        if key in ("bboxes", "keypoints"):
            assert np.allclose(found[key], value, atol=1e-5), key
        elif key == "class_labels":
            assert list(found[key]) == list(value)
        elif key == "masks":
            assert all(np.array_equal(one, other) for one, other in zip(found[key], value, strict=True))
        else:
            assert type(found[key]) is type(value), key
            assert (found[key].shape, found[key].dtype) == (value.shape, value.dtype), key
            assert np.array_equal(np.asarray(found[key]), np.asarray(value)), key


@pytest.mark.parametrize("boxes", [False, True])
def test_labels_of_keypoints_go_with_them(boxes):
    A = albumentations()
    box_params = A.BboxParams(format="pascal_voc", label_fields=["class_labels"]) if boxes else None
    points = A.KeypointParams(format="xy", label_fields=["names"])
    theirs = A.Compose([A.CenterCrop(24, 28), A.HorizontalFlip(p=1.0)], bbox_params=box_params, keypoint_params=points)
    given = {**GIVEN, **POINTS} if boxes else {"image": GIVEN["image"], **POINTS}
    found, wanted = from_albumentations(theirs)(**given), theirs(**given)
    assert np.allclose(found["keypoints"], wanted["keypoints"], atol=1e-5)
    assert list(found["names"]) == list(wanted["names"]) == ["nose", "ear"]
    assert "class_labels" not in given or list(found["class_labels"]) == list(wanted["class_labels"])
