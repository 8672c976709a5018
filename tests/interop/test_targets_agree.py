"""What is imported does to masks, boxes, points and labels what the original does, under the same draws."""

import warnings

import numpy as np
import pytest
import torch

from pellucid.interop import from_albumentations, from_torchvision, read_albumentations, to_torchvision
from tests.peers import albumentations, torchvision_functional

RANDOM = np.random.default_rng(0)
IMAGE = (127.5 + 100 * np.sin(np.mgrid[0:40, 0:48].sum(0)[..., None] / 7 + np.arange(3))).astype(np.uint8)
MASK = RANDOM.integers(0, 4, (5, 6), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
BOXES = [[4, 6, 20, 18], [24, 10, 44, 36], [2, 26, 12, 38], [30, 2, 40, 9]]
POINTS = [[5, 7], [30, 20], [40, 35], [12, 30]]
KINDS = [4, 5, 6, 7]

# Whose keypoints are half a pixel off there (a note says so): moved there and back, they agree.
HALVES = ("resize", "resize exact", "longest")

ALBUMENTATIONS = {
    "flip": lambda A: [A.HorizontalFlip(p=1)],
    "vertical flip": lambda A: [A.VerticalFlip(p=1)],
    "rotate": lambda A: [A.Rotate((17, 17), p=1, fill=9, fill_mask=255)],
    "rotate nearest": lambda A: [A.Rotate((90, 90), p=1, interpolation=0, fill_mask=255)],
    "rotate border": lambda A: [A.Rotate((17, 17), p=1, border_mode=1, fill_mask=255)],
    "shift scale rotate": lambda A: [A.ShiftScaleRotate((0.125, 0.125), (0.2, 0.2), (-11, -11), p=1, fill_mask=7)],
    "affine": lambda A: [A.Affine(rotate=(23, 23), scale=1.2, translate_percent={"x": 0.125, "y": -0.1}, p=1, fill_mask=5)],
    "shear": lambda A: [A.Affine(shear={"x": (12, 12), "y": (0, 0)}, p=1, fill_mask=2)],
    "pad": lambda A: [A.PadIfNeeded(50, 57, fill=9, fill_mask=255)],
    "resize": lambda A: [A.Resize(20, 60, mask_interpolation=6)],
    "longest": lambda A: [A.LongestMaxSize(36, mask_interpolation=6)],
    "center crop": lambda A: [A.CenterCrop(24, 32)],
    "fixed crop": lambda A: [A.Crop(3, 9, 35, 33)],
    "two fills": lambda A: [
        A.PadIfNeeded(48, 56, fill_mask=255),
        A.Affine(translate_percent={"x": 0.125, "y": 0}, fill_mask=3, p=1),
    ],
    "crop after pad": lambda A: [A.PadIfNeeded(50, 58, fill_mask=255), A.HorizontalFlip(p=1), A.CenterCrop(44, 40)],
}


@pytest.mark.filterwarnings("ignore:ShiftScaleRotate is a special case")
@pytest.mark.parametrize("name", ALBUMENTATIONS)
def test_albumentations(name):
    A = albumentations()
    params = {"bbox_params": A.BboxParams("pascal_voc", label_fields=["kinds"]), "keypoint_params": A.KeypointParams("xy")}
    theirs = A.Compose(ALBUMENTATIONS[name](A), **params)
    half = 0.5 if name in HALVES else 0.0
    points = (np.array(POINTS) + half).tolist()
    wanted = theirs(image=IMAGE, mask=MASK, bboxes=BOXES, kinds=KINDS, keypoints=points)
    ours = from_albumentations(A.to_dict(theirs))
    found = ours({"image": IMAGE, "mask": MASK, "bboxes": BOXES, "kinds": KINDS, "keypoints": POINTS})
    apart = np.abs(found["image"].astype(int) - wanted["image"])
    assert np.median(apart) <= 1
    assert (apart[8:-8, 8:-8] > 8).mean() <= 0.005  # OpenCV may round coordinates
    assert (found["mask"] != wanted["mask"]).mean() <= 0.002
    assert set(np.unique(found["mask"]).tolist()) == set(np.unique(wanted["mask"]).tolist())
    assert found["kinds"] == list(map(int, wanted["kinds"]))
    assert np.abs(np.array(found["bboxes"]) - wanted["bboxes"]).max() < 1e-4
    kept = np.array(wanted["keypoints"]) - half
    assert np.shape(found["keypoints"]) == kept.shape
    assert np.abs(np.array(found["keypoints"]) - kept).max() < 1e-4


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("options", [{}, {"fill_mask": 0}, {"fill_mask": 255, "fill": (9, 8, 7)}], ids=str)
def test_holes_of_albumentations_with_the_places_that_were_drawn(options, seed):
    """On a picture whose sides are powers of two: their boxes are fractions, and cut to whole pixels."""
    A = albumentations()
    image, mask = np.tile(IMAGE, (1, 2, 1))[:32, :64], np.tile(MASK, (1, 2))[:32, :64]
    boxes = [[4, 6, 20, 18], [24, 10, 44, 31], [2, 20, 12, 30], [30, 2, 40, 9], [50, 3, 54, 9], [46, 20, 60, 24]]
    points = [[x, y] for x in range(3, 64, 10) for y in range(1, 32, 9)]
    sample = {"image": image, "mask": mask, "bboxes": boxes, "kinds": list(range(4, 10)), "keypoints": points}
    params = {
        "bbox_params": A.BboxParams("pascal_voc", label_fields=["kinds"], min_visibility=0.6),
        "keypoint_params": A.KeypointParams("xy"),
    }
    hole = A.CoarseDropout((6, 6), (0.25, 0.25), (0.25, 0.25), p=1, **options)
    replayed = A.ReplayCompose([hole], **params)
    replayed.set_random_seed(seed)
    wanted = replayed(**sample)
    drawn = np.array(wanted["replay"]["transforms"][0]["params"]["holes"])  # of 16 x 8 pixels
    ours = from_albumentations(A.to_dict(A.Compose([hole], **params)))
    record = ours.draw(sample)
    for axis, (name, room) in enumerate((("x", 64 - 16), ("y", 32 - 8))):
        record = record.with_param(0, name, torch.tensor(drawn[None, :, axis] / room, dtype=torch.float32))
    found = ours.apply(sample, record)
    assert np.array_equal(found["image"], wanted["image"])
    assert np.array_equal(found["mask"], wanted["mask"])
    assert found["kinds"] == list(map(int, wanted["kinds"]))
    assert len(found["kinds"]) < 6
    assert 0 < len(found["keypoints"]) < len(points)
    assert np.abs(np.array(found["bboxes"]) - np.array(wanted["bboxes"])).max() < 1e-4
    assert np.array_equal(np.array(found["keypoints"]), np.array(wanted["keypoints"]).reshape(-1, 2))


@pytest.mark.parametrize("least", [{"min_width": 9.0}, {"min_height": 7.5}, {"min_width": 5, "min_height": 8}], ids=str)
def test_boxes_that_became_narrow_or_low_are_left_out(least):
    A = albumentations()
    boxes = [[4, 6, 20, 18], [24, 10, 44, 36], [2, 26, 12, 38], [30, 2, 40, 9]]
    theirs = A.Compose([A.Crop(8, 4, 36, 34)], bbox_params=A.BboxParams("pascal_voc", label_fields=["kinds"], **least))
    wanted = theirs(image=IMAGE, bboxes=boxes, kinds=KINDS)
    found = from_albumentations(A.to_dict(theirs))(image=IMAGE, bboxes=boxes, kinds=KINDS)
    assert found["kinds"] == list(map(int, wanted["kinds"]))
    assert 0 < len(found["kinds"]) < 4
    assert np.abs(np.array(found["bboxes"]) - wanted["bboxes"]).max() < 1e-4


def test_what_becomes_of_targets_in_another_way_is_said_aloud():
    flip = {"__class_fullname__": "HorizontalFlip", "p": 1.0}
    rotate = {"__class_fullname__": "Rotate", "p": 1.0, "border_mode": 4}
    boxes = {"format": "coco", "max_accept_ratio": 3.0}
    with pytest.warns(UserWarning, match="Targets: .*max_accept_ratio"):
        from_albumentations({"__class_fullname__": "Compose", "transforms": [flip], "bbox_params": boxes})
    with pytest.warns(UserWarning, match="Targets: .*reflected borders"):
        from_albumentations({"__class_fullname__": "Compose", "transforms": [rotate], "bbox_params": {"format": "coco"}})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_albumentations({"__class_fullname__": "Compose", "transforms": [rotate]})
    read = read_albumentations({"__class_fullname__": "Compose", "transforms": [flip], "bbox_params": boxes})
    assert "max_accept_ratio" in str(read)


def test_targets_under_other_names():
    flip = {"__class_fullname__": "HorizontalFlip", "p": 1.0}
    table = {"__class_fullname__": "Compose", "transforms": [flip], "additional_targets": {"second": "image", "roads": "mask"}}
    ours = from_albumentations(table)
    out = ours({"image": IMAGE, "second": IMAGE, "roads": MASK})
    assert np.array_equal(out["second"], IMAGE[:, ::-1])
    assert np.array_equal(out["roads"], MASK[:, ::-1])


TORCHVISION = {
    "flip": lambda v2, tv: v2.RandomHorizontalFlip(1.0),
    "vertical flip": lambda v2, tv: v2.RandomVerticalFlip(1.0),
    "pad": lambda v2, tv: v2.Pad(3, fill=100),
    "pad by kind": lambda v2, tv: v2.Pad(3, fill={tv.Image: (1, 2, 3), "others": 7}),
    "crop": lambda v2, tv: v2.RandomCrop((46, 54), padding=3, fill=50),
    "center crop": lambda v2, tv: v2.CenterCrop((46, 30)),
    "rotation": lambda v2, tv: v2.RandomRotation((17, 17), fill=100),
    "quarter": lambda v2, tv: v2.RandomRotation((90, 90), fill=100),
    "affine": lambda v2, tv: v2.RandomAffine((23, 23), scale=(1.2, 1.2), fill=100),
    "affine by kind": lambda v2, tv: v2.RandomAffine((23, 23), fill={tv.Mask: 255, "others": 9}),
    "shear": lambda v2, tv: v2.RandomAffine((0, 0), shear=(10, 10), fill=100),
    "resize": lambda v2, tv: v2.Resize((20, 96)),
    "several": lambda v2, tv: v2.Compose([v2.Pad(3, fill=100), v2.RandomRotation((30, 30), fill=5), v2.RandomHorizontalFlip(1.0)]),
}
CENTRES = ("flip", "vertical flip", "pad", "pad by kind", "crop", "center crop")


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision(name):
    torchvision_functional()
    from torchvision import tv_tensors as tv
    from torchvision.transforms import v2

    size = (40, 48)
    sample = {
        "image": tv.Image(torch.from_numpy(IMAGE).movedim(-1, 0).contiguous()),
        "seg": tv.Mask(torch.from_numpy(MASK)),
        "gt": tv.BoundingBoxes(torch.tensor(BOXES, dtype=torch.float32), format="XYXY", canvas_size=size),
        "points": tv.KeyPoints(torch.tensor(POINTS, dtype=torch.float32), canvas_size=size),
    }
    theirs = TORCHVISION[name](v2, tv)
    ours = from_torchvision(theirs)
    found, wanted = ours(sample), theirs(sample)
    apart = (found["image"].int() - wanted["image"].int()).abs()
    assert (apart > 1).float().mean() <= 0.002
    assert (found["seg"] != wanted["seg"]).float().mean() <= 0.002
    assert (found["gt"] - wanted["gt"]).abs().max() < 1e-4
    if name != "several":  # of which the parts disagree on what a point is
        half = 0.0 if name in CENTRES else 0.5
        moved = theirs(tv.KeyPoints(sample["points"] + half, canvas_size=size)) - half
        assert (found["points"] - moved).abs().max() < 1e-4
    exported = name in ("flip", "pad", "pad by kind", "crop", "rotation", "quarter", "several")
    if exported:
        again = to_torchvision(ours)(sample)
        assert torch.equal(again["seg"], wanted["seg"])


def test_fills_of_masks_that_are_no_whole_numbers_are_cut():
    found = from_torchvision({"name": "Pad", "padding": 1, "fill": 2.7})
    out = found({"image": torch.rand(1, 3, 4, 4), "mask": torch.zeros(1, 4, 4, dtype=torch.uint8)})
    assert (out["mask"][0, 0] == 2).all()
