"""Imported from albumentations: transforms whose draw is certain give the same, and ranges are the ranges."""

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid.interop import Unsupported, from_albumentations, read_albumentations
from tests.peers import albumentations
from tests.refusals import refused

BYTES = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
SMOOTH = (127.5 + 100 * np.sin(np.mgrid[0:40, 0:40].sum(0)[..., None] / 7 + np.arange(3))).astype(np.uint8)


@pytest.fixture(scope="module")
def A():
    return albumentations()


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
    wanted, found = theirs(image=image)["image"].astype(int), ours(image).astype(int)
    assert found.shape == wanted.shape
    apart = np.abs(found - wanted)
    if levels > 2:  # OpenCV rounds coordinates to 1/32 pixel, and its borders with them
        assert np.median(apart) <= 1
        apart = apart[8:-8, 8:-8]
    assert apart.max() <= levels


def turned(drawn):
    """Degrees, of the matrix that they turn by."""
    return np.degrees(np.arctan2(drawn["matrix"][0, 1], drawn["matrix"][0, 0]))


def moved(drawn):
    """How far the middle of the picture moves, as fractions of its size."""
    middle = np.array([19.5, 19.5, 1.0])
    return ((drawn["matrix"] @ middle - middle) / 40)[:2]


# From random numbers to one of theirs; what was drawn, as our values; levels that pixels may be apart.
DRAWN = {
    "rotate": (lambda A, r: A.Rotate((-r(50), r(50)), border_mode=4, p=1), lambda d: {"degrees": turned(d)}, 8),
    "affine": (
        lambda A, r: A.Affine(rotate=(-r(30), r(30)), scale=(1 - r(0.3), 1 + r(0.3)), keep_ratio=True, p=1),
        lambda d: {"degrees": d["rotate"], "scale": d["scale"]["x"]},
        8,
    ),
    "affine by axis": (
        lambda A, r: A.Affine(rotate=(-r(30), r(30)), scale={"x": (1 - r(0.3), 1 + r(0.3)), "y": (0.8, 1 + r(0.2))}, p=1),
        lambda d: {"degrees": d["rotate"], "scale_x": d["scale"]["x"], "scale_y": d["scale"]["y"]},
        8,
    ),
    "shift": (
        lambda A, r: A.Affine(translate_percent={"x": (-r(0.2), r(0.2)), "y": (0, r(0.2))}, border_mode=1, p=1),
        lambda d: {"translate_x": moved(d)[0], "translate_y": moved(d)[1]},
        8,
    ),
    "shift rotate": (
        lambda A, r: A.ShiftScaleRotate((-r(0.1), r(0.1)), 0, (-r(40), 5), border_mode=2, p=1),
        lambda d: {"degrees": d["rotate"], "translate_x": moved(d)[0], "translate_y": moved(d)[1]},
        8,
    ),
    "brightness contrast": (
        lambda A, r: A.RandomBrightnessContrast((-r(0.4), r(0.4)), (-r(0.5), r(0.5)), p=1),
        lambda d: {"brightness": d["beta"] / 255, "contrast": d["alpha"] - 1},
        1,
    ),
    "rgb shift": (
        lambda A, r: A.RGBShift((-r(50), r(50)), (0, r(60)), (-r(9), 0), p=1),
        lambda d: dict(zip(("red", "green", "blue"), d["noise_map"] / 255, strict=True)),
        1,
    ),
    "hsv": (
        lambda A, r: A.HueSaturationValue((-r(30), r(30)), (-r(60), r(60)), (-r(50), r(50)), p=1),
        lambda d: {"hue": d["hue_shift"] / 180, "saturation": d["sat_shift"] / 255, "value": d["val_shift"] / 255},
        10,
    ),
    "gamma": (lambda A, r: A.RandomGamma((100 - r(50), 100 + r(90)), p=1), lambda d: {"gamma": d["gamma"]}, 1),
    "solarize": (lambda A, r: A.Solarize((r(0.5), 0.5 + r(0.5)), p=1), lambda d: {"threshold": d["threshold"]}, 0),
}


@pytest.mark.filterwarnings("ignore:ShiftScaleRotate is a special case")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", DRAWN)
def test_random_configurations_with_the_values_that_were_drawn(A, name, seed):
    make, values, levels = DRAWN[name]
    random = np.random.default_rng(seed)
    theirs = A.ReplayCompose([make(A, lambda most: float(random.uniform(0.1, 1)) * most)])
    theirs.set_random_seed(seed)
    result = theirs(image=SMOOTH)
    ours = from_albumentations(A.to_dict(A.Compose(list(theirs.transforms))))
    record = ours.draw(SMOOTH)
    for one, value in values(result["replay"]["transforms"][0]["params"]).items():
        low, high = ours[0]._fixed[one].span()
        slack = 1 / 40 if one.startswith("translate") else 1e-6  # whole pixels there
        assert low - slack <= value <= high + slack, one
        record = record.with_param(0, one, torch.full_like(record.params[0][one], float(value)))
    found = ours.apply(SMOOTH, record).astype(int)
    apart = np.abs(found - result["image"].astype(int))
    assert np.median(apart) <= 1
    assert apart[8:-8, 8:-8].max() <= levels


def test_scales_that_are_drawn_for_each_axis():
    """From version 2 on ShiftScaleRotate draws two."""
    table = {"__class_fullname__": "ShiftScaleRotate"}
    assert from_albumentations(table)[0].scale == (0.9, 1.1, 0.9, 1.1)
    affine = {"__class_fullname__": "Affine", "scale": [0.8, 1.2]}
    assert from_albumentations(affine)[0].scale == (0.8, 1.2, 0.8, 1.2)
    assert from_albumentations({**affine, "keep_ratio": True})[0].scale == (0.8, 1.2)
    assert from_albumentations({**table, "scale_limit": 0})[0].scale == (1.0, 1.0)
    assert from_albumentations({"__version__": "1.3.1", "transform": table})[0].scale == (0.9, 1.1)


@pytest.mark.parametrize("size", [(18, 25), (31, 17), (20, 33)])
def test_smallest_sides_are_rounded_there_and_cut_here_as_the_note_says(A, size):
    theirs, image = A.Compose([A.SmallestMaxSize(13)]), BYTES[: size[0], : size[1]]
    found = read_albumentations(theirs)
    ours, wanted = found.pipeline(image).shape[:2], theirs(image=image)["image"].shape[:2]
    assert min(ours) == min(wanted) == 13
    assert max(wanted) - max(ours) in (0, 1)
    assert any(note.startswith("SmallestMaxSize: the longer side is rounded") for note in found.notes)


def test_elastic_fields_have_units_of_their_own():
    table = {"__class_fullname__": "ElasticTransform", "alpha": 40, "sigma": 6, "p": 1.0, "border_mode": 4}
    ours = from_albumentations({**table, "noise_distribution": "uniform"})[0]
    wanted = P.RandomElastic.from_alpha_sigma(40, 6, library="albumentations", padding_mode="reflect_101")
    assert ours == wanted
    assert from_albumentations({"__version__": "1.4.0", "transform": {**table, "alpha_affine": None}})[0] == wanted
    for more, word in (({}, "divided by its largest"), ({"noise_distribution": "uniform", "same_dxdy": True}, "independently")):
        refused(Unsupported, word, from_albumentations, {**table, **more}, match="exact")
    refused(Unsupported, "three points", from_albumentations, {"__version__": "1.3.1", "transform": table}, match="exact")


def test_holes_in_pixels_need_a_size_that_is_known():
    holes = {"__class_fullname__": "CoarseDropout", "max_holes": 3, "max_height": 8, "max_width": 16, "p": 1.0}

    def read(*before):
        table = {"__class_fullname__": "Compose", "transforms": [*before, holes]}
        return from_albumentations({"__version__": "1.3.1", "transform": table}, match="exact")

    def named(name, **options):
        return {"__class_fullname__": name, **options}

    assert read(named("Resize", height=32, width=64))[1] == P.CoarseDropout(
        3.0, height=(0.25, 0.25), width=(0.25, 0.25), p=1.0, hides=True
    )
    assert read(named("RandomCrop", height=16, width=64))[1].height == (0.5, 0.5)
    resize = named("Resize", height=32, width=64)
    for before in ([], [resize, named("LongestMaxSize", max_size=9)], [resize, named("PadIfNeeded")], [{**resize, "p": 0.5}]):
        refused(Unsupported, "the unknown size", read, *before)


def test_normalize_and_targets(A):
    boxes = A.BboxParams(format="yolo", label_fields=["labels"], min_area=3, min_visibility=0.2)
    theirs = A.Compose([A.HorizontalFlip(p=1), A.Normalize()], bbox_params=boxes, seed=3)
    ours = from_albumentations(theirs)
    rows = [[0.25, 0.5, 0.2, 0.3], [0.7, 0.4, 0.1, 0.1]]
    wanted = theirs(image=BYTES, bboxes=rows, labels=[1, 2])
    found = ours({"image": BYTES, "bboxes": rows, "labels": [1, 2]})
    assert np.abs(found["image"] - wanted["image"]).max() < 1e-5
    assert np.abs(np.array(found["bboxes"]) - np.array(wanted["bboxes"])).max() < 1e-6
    assert found["labels"] == [1, 2]
    assert (ours.options.min_area, ours.options.min_visibility) == (3.0, 0.2)


@pytest.mark.filterwarnings("ignore:ShiftScaleRotate is a special case")
def test_ranges_and_version(A):
    both = from_albumentations(
        A.Compose([A.Rotate(30, p=0.4), A.ShiftScaleRotate(scale_limit=0, p=0.3), A.RandomGamma(p=0.2)])
    ).transforms
    assert both[0] == P.RandomRotation((-30.0, 30.0), padding_mode="constant", p=0.4)
    assert (both[1].degrees, both[1].scale, both[1].translate[0]) == ((-45.0, 45.0), (1.0, 1.0), (-0.0625, 0.0625))
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
        ({"name": "Affine", "translate_px": [3, 4]}, "translate_px=(3, 4)"),
        ({"name": "Rotate", "border_mode": 3}, "border_mode=3"),
        ({"name": "Resize", "height": 3, "width": 4, "interpolation": 2}, "interpolation=2"),
        ({"name": "CoarseDropout", "max_holes": 8}, "max_height"),
        ({"name": "GaussianBlur", "blur_limit": [3, 7]}, "blur_limit=(3, 7)"),
        ({"name": "GaussNoise", "var_limit": [10, 50]}, "var_limit"),
        ({"name": "RandomBrightnessContrast", "brightness_by_max": False}, "brightness_by_max=False"),
        ({"name": "Normalize", "normalization": "min_max"}, "normalization='min_max'"),
        ({"name": "ElasticTransform"}, "noise_distribution='gaussian'"),
        ({"name": "HorizontalFlip", "axis": 3}, "axis=3"),
    ],
)
def test_what_would_differ_is_refused(table, option):
    with pytest.raises(Unsupported) as caught:
        from_albumentations(table, match="exact")
    assert caught.value.missing[0].option == option


def test_notes_are_said_once():
    named = [{"name": "Rotate"}, {"name": "Rotate"}, {"name": "Superpixels"}]
    found = read_albumentations({"name": "Compose", "transforms": named})
    assert found.notes == ("Warps of OpenCV round coordinates to 1/32 pixel",)
    assert (found.total, len(found.missing), len(found.pipeline)) == (3, 1, 2)
    assert torch.is_tensor(found.pipeline(torch.rand(1, 3, 8, 8)))
