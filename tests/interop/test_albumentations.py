"""Imported from albumentations: transforms whose draw is certain give the same, and ranges are the ranges."""

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid.interop import Unsupported, from_albumentations, read_albumentations

BYTES = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
SMOOTH = (127.5 + 100 * np.sin(np.mgrid[0:40, 0:40].sum(0)[..., None] / 7 + np.arange(3))).astype(np.uint8)


@pytest.fixture(scope="module")
def A():
    import os

    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # it would ask the network on import
    return pytest.importorskip("albumentations", reason="albumentations is not installed: its differential tests need it")


CERTAIN = {
    "flip": (lambda A: A.HorizontalFlip(p=1), 0),
    "vertical flip": (lambda A: A.VerticalFlip(p=1), 0),
    "transpose": (lambda A: A.Transpose(p=1), 0),
    "rotate": (lambda A: A.Rotate((17, 17), p=1), 6),
    "rotate nearest border": (lambda A: A.Rotate((90, 90), interpolation=0, border_mode=1, p=1), 0),
    "shift scale rotate": (lambda A: A.ShiftScaleRotate((0.1, 0.1), (0.2, 0.2), (-11, -11), border_mode=4, p=1), 8),
    "affine": (lambda A: A.Affine(rotate=(23, 23), scale=1.2, translate_percent={"x": 0.1, "y": -0.05}, p=1), 8),
    "shear x": (lambda A: A.Affine(shear={"x": (12, 12), "y": (0, 0)}, p=1), 6),
    "shear y": (lambda A: A.Affine(shear={"x": (0, 0), "y": (-9, -9)}, p=1), 6),
    "resize": (lambda A: A.Resize(23, 51), 1),
    "longest": (lambda A: A.LongestMaxSize(30), 1),
    "center crop": (lambda A: A.CenterCrop(20, 31), 0),
    "pad": (lambda A: A.PadIfNeeded(50, 47, border_mode=4), 0),
    "pad fill": (lambda A: A.PadIfNeeded(50, 47, fill=(9, 8, 7)), 0),
    "brightness contrast": (lambda A: A.RandomBrightnessContrast((0.2, 0.2), (-0.3, -0.3), p=1), 1),
    "hsv": (lambda A: A.HueSaturationValue((20, 20), (-30, -30), (15, 15), p=1), 8),
    "rgb shift": (lambda A: A.RGBShift((20, 20), (-10, -10), (5, 5), p=1), 1),
    "gamma": (lambda A: A.RandomGamma((140, 140), p=1), 1),
    "gray": (lambda A: A.ToGray(p=1), 1),
    "invert": (lambda A: A.InvertImg(p=1), 0),
    "solarize": (lambda A: A.Solarize((0.4, 0.4), p=1), 0),
    "posterize": (lambda A: A.Posterize(3, p=1), 0),
    "blur": (lambda A: A.Blur((5, 5), p=1), 1),
    "median": (lambda A: A.MedianBlur((5, 5), p=1), 0),
    "contrast": (lambda A: A.ColorJitter((1, 1), (1.4, 1.4), (1, 1), (0, 0), p=1), 2),
    "one of": (lambda A: A.OneOf([A.InvertImg(p=1e-9), A.HorizontalFlip(p=0.5)], p=1), 0),
    "nested": (lambda A: A.Compose([A.Sequential([A.HorizontalFlip(p=1), A.InvertImg(p=1)], p=1), A.NoOp()]), 0),
}


@pytest.mark.filterwarnings("ignore:ShiftScaleRotate is a special case")
@pytest.mark.parametrize("name", CERTAIN)
def test_what_is_certain_is_the_same(A, name):
    make, levels = CERTAIN[name]
    theirs = make(A)
    ours = from_albumentations(A.to_dict(A.Compose([theirs])))
    assert ours.transforms == from_albumentations(theirs).transforms
    image = SMOOTH if levels > 2 else BYTES
    wanted, found = theirs(image=image)["image"].astype(int), ours(image).movedim(0, -1).numpy().astype(int)
    assert found.shape == wanted.shape
    apart = np.abs(found - wanted)
    if levels > 2:  # OpenCV rounds coordinates to 1/32 pixel, and its borders with them
        assert np.median(apart) <= 1
        apart = apart[8:-8, 8:-8]
    assert apart.max() <= levels


def test_normalize_and_targets(A):
    boxes = A.BboxParams(format="yolo", label_fields=["labels"], min_area=3, min_visibility=0.2)
    theirs = A.Compose([A.HorizontalFlip(p=1), A.Normalize()], bbox_params=boxes, seed=3)
    ours = from_albumentations(theirs)
    rows = [[0.25, 0.5, 0.2, 0.3], [0.7, 0.4, 0.1, 0.1]]
    wanted = theirs(image=BYTES, bboxes=rows, labels=[1, 2])
    found = ours({"image": BYTES, "bboxes": rows, "labels": [1, 2]})
    assert np.abs(found["image"].movedim(0, -1).numpy() - wanted["image"]).max() < 1e-5
    assert np.abs(found["bboxes"].numpy() - np.array(wanted["bboxes"])).max() < 1e-6
    assert found["labels"] == [1, 2]
    assert (ours.options.min_area, ours.options.min_visibility) == (3.0, 0.2)


@pytest.mark.filterwarnings("ignore:ShiftScaleRotate is a special case")
def test_ranges_and_version(A):
    both = from_albumentations(A.Compose([A.Rotate(30, p=0.4), A.ShiftScaleRotate(p=0.3), A.RandomGamma(p=0.2)])).transforms
    assert both[0] == P.RandomRotation((-30.0, 30.0), padding_mode="constant", p=0.4)
    assert (both[1].degrees, both[1].scale, both[1].translate[0]) == ((-45.0, 45.0), (0.9, 1.1), (-0.0625, 0.0625))
    assert both[2] == P.RandomGamma((0.8, 1.2), p=0.2)


def test_probabilities_in_one_of_are_weights():
    branches = [
        {"__class_fullname__": "HorizontalFlip", "p": 0.2},
        {"__class_fullname__": "albumentations.x.VerticalFlip", "p": 0.6},
    ]
    found = from_albumentations(
        {"__version__": "2.0.8", "transform": {"__class_fullname__": "OneOf", "p": 0.3, "transforms": branches}}
    )
    one = P.OneOf([[P.RandomHorizontalFlip(p=1.0)], [P.RandomVerticalFlip(p=1.0)]], weights=(0.2, 0.6))
    assert found.transforms == (P.Apply([one], p=0.3),)


def test_defaults_are_those_of_the_version():
    rotate = {"__class_fullname__": "Rotate"}
    assert from_albumentations({"__version__": "1.3.1", "transform": rotate})[0].padding_mode == "reflect_101"
    assert from_albumentations({"transform": rotate})[0].padding_mode == "constant"
    assert from_albumentations({"__version__": "1.3.1", "transform": {**rotate, "always_apply": True, "p": 0.5}})[0].p == 1.0


@pytest.mark.parametrize(
    ("table", "option"),
    [
        ({"name": "Affine", "shear": {"x": [0, 5], "y": [0, 5]}}, "shear"),
        ({"name": "Affine", "shear": [0, 5], "rotate": [0, 5]}, "shear"),
        ({"name": "Affine", "scale": [0.8, 1.2]}, "keep_ratio=False"),
        ({"name": "Affine", "translate_px": [3, 4]}, "translate_px=(3, 4)"),
        ({"name": "Rotate", "border_mode": 3}, "border_mode=3"),
        ({"name": "Resize", "height": 3, "width": 4, "interpolation": 2}, "interpolation=2"),
        ({"name": "CoarseDropout", "max_holes": 8}, "max_height"),
        ({"name": "GaussNoise", "var_limit": [10, 50]}, "var_limit"),
        ({"name": "RandomBrightnessContrast", "brightness_by_max": False}, "brightness_by_max=False"),
        ({"name": "Normalize", "normalization": "min_max"}, "normalization='min_max'"),
        ({"name": "ElasticTransform"}, ""),
        ({"name": "HorizontalFlip", "axis": 3}, "axis=3"),
    ],
)
def test_what_would_differ_is_refused(table, option):
    with pytest.raises(Unsupported) as caught:
        from_albumentations(table)
    assert caught.value.missing[0].option == option


def test_notes_are_said_once():
    found = read_albumentations({"name": "Compose", "transforms": [{"name": "Rotate"}, {"name": "Rotate"}, {"name": "Emboss"}]})
    assert found.notes == ("Warps of OpenCV round coordinates to 1/32 pixel",)
    assert (found.total, len(found.missing), len(found.pipeline)) == (3, 1, 2)
    assert torch.is_tensor(found.pipeline(torch.rand(1, 3, 8, 8)))
