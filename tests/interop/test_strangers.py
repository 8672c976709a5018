"""A script that was written for albumentations runs with another import, and configurations that mean nothing get a sentence."""

import warnings

import numpy as np
import pytest

from pellucid import Pipeline, RandomInvert
from pellucid.errors import InvalidArgument, InvalidType
from pellucid.interop import from_albumentations, from_kornia, from_source, from_torchvision, like_albumentations
from tests.peers import albumentations

SCRIPT = """
import {module} as A
from {module}{pytorch} import ToTensorV2

SIZE = 48
train = A.Compose(
    [
        A.Crop(4, 2, 60, 58),
        A.HorizontalFlip(p=1.0),
        A.OneOf([A.InvertImg(p=0.5), A.InvertImg(p=0.2)], p=1),
        A.PadIfNeeded(64, 64, border_mode=0, fill=9),
        A.CenterCrop(SIZE, SIZE),
        A.Rotate((90, 90), p=1.0, interpolation=0),
    ],
    bbox_params=A.BboxParams(format="coco", min_area=4, label_fields=["names"]),
    keypoint_params=A.KeypointParams(format="xy", remove_invisible=True),
)
normalise = A.Compose([A.Normalize(mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.2)), ToTensorV2()])

def sample(image, mask, boxes, names, points):
    out = train(image=image, mask=mask, bboxes=boxes, names=names, keypoints=points)
    return out, normalise(image=out["image"], mask=out["mask"])

alone = A.VerticalFlip(p=1)
"""


def run(module, pytorch):
    scope = {}
    exec(SCRIPT.format(module=module, pytorch=pytorch), scope)
    rng = np.random.default_rng(0)
    image, mask = rng.integers(0, 256, (60, 64, 3), dtype=np.uint8), rng.integers(0, 5, (60, 64), dtype=np.uint8)
    boxes, points = [[10.0, 12.0, 20.0, 9.0], [0.0, 0.0, 2.0, 2.0], [30.0, 20.0, 15.0, 30.0]], [(20.0, 30.0), (1.0, 1.0)]
    out, ready = scope["sample"](image, mask, boxes, ["cat", "gone", "dog"], points)
    return out, ready, scope["alone"](image=image)["image"]


@pytest.mark.filterwarnings("ignore")
def test_a_script_of_a_stranger_runs_with_another_import():
    albumentations()
    wanted, found = run("albumentations", ".pytorch"), run("pellucid.interop.like_albumentations", "")
    for one, other in zip(wanted[:2], found[:2], strict=True):
        assert set(one) <= set(other)
        for key in one:
            if key in ("image", "mask"):
                assert (type(one[key]), one[key].dtype, one[key].shape) == (type(other[key]), other[key].dtype, other[key].shape)
                assert np.abs(np.asarray(one[key], float) - np.asarray(other[key], float)).max() < 1e-5
            elif key == "names":
                assert list(one[key]) == list(other[key]) == ["cat", "dog"]
            else:
                assert np.allclose(one[key], other[key], atol=1e-4)
    assert np.array_equal(wanted[2], found[2])


def test_what_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing called Compsoe"):
        like_albumentations.Compsoe  # noqa: B018
    with pytest.raises(InvalidArgument, match=r"Lambda: a function of your own is not read"):
        like_albumentations.Compose([like_albumentations.Lambda(image=abs)])


FLIP = {"name": "HorizontalFlip"}
HOSTILE = {
    "no description": (from_albumentations, 3),
    "a list of numbers": (from_albumentations, {"name": "Compose", "transforms": [1, 2]}),
    "no list": (from_albumentations, {"name": "Compose", "transforms": "flip"}),
    "transforms are missing": (from_albumentations, {"name": "Compose"}),
    "text where a number is": (from_albumentations, {"name": "Rotate", "limit": "wide"}),
    "a range of three": (from_albumentations, {"name": "Rotate", "limit": [1, 2, 3]}),
    "no number at all": (from_albumentations, {"name": "RandomGamma", "gamma_limit": float("nan")}),
    "a chance of two": (from_albumentations, {"name": "HorizontalFlip", "p": 2}),
    "a size below zero": (from_albumentations, {"name": "Resize", "height": -3, "width": 8}),
    "a size of one side": (from_albumentations, {"name": "RandomCrop", "height": 8}),
    "an empty crop": (from_albumentations, {"name": "Crop", "x_min": 9, "x_max": 3}),
    "an option of nobody": (from_albumentations, {"name": "HorizontalFlip", "colour": "red"}),
    "boxes of nobody": (from_albumentations, {"name": "Compose", "transforms": [FLIP], "bbox_params": {"format": "abc"}}),
    "boxes that are text": (from_albumentations, {"name": "Compose", "transforms": [FLIP], "bbox_params": "coco"}),
    "no branch": (from_albumentations, {"name": "OneOf", "transforms": []}),
    "a branch that is none": (from_albumentations, {"name": "OneOf", "transforms": [None]}),
    "a target of nobody": (from_albumentations, {"name": "Compose", "transforms": [FLIP], "additional_targets": {"a": "sound"}}),
    "a version of nobody": (from_albumentations, {"__version__": [2], "transform": {"name": "Rotate", "limit": {"a": 1}}}),
    "kernels of text": (from_torchvision, {"name": "GaussianBlur", "kernel_size": "3x3"}),
    "a mean of none": (from_torchvision, {"name": "Normalize", "mean": [], "std": []}),
    "a shift of three": (from_torchvision, {"name": "RandomAffine", "degrees": 3, "translate": [0.1, 0.2, 0.3]}),
    "kornia's degrees are missing": (from_kornia, {"name": "RandomAffine"}),
    "kornia's chance is text": (from_kornia, {"name": "RandomHorizontalFlip", "p": "often"}),
    "no Python": (from_source, "import albumentations as A\nt = A.Compose([A.Rotate("),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_configuration_gets_a_sentence(name):
    read, described = HOSTILE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((InvalidArgument, InvalidType)) as raised:
            read(described)
    assert type(raised.value).__module__.startswith("pellucid.")
    assert str(raised.value).rstrip().endswith((".", ")."))


def test_a_pipeline_by_hand_says_which_calls_it_answers():
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    ours = Pipeline([RandomInvert(p=1.0)], like="albumentations")
    assert np.array_equal(ours(image=image)["image"], 255 - image)
    assert ours.options == Pipeline([], out="same", drop_invalid=True, targets={"masks": "mask"}).options
    assert Pipeline([], like="albumentations", out="tensor", drop_invalid=False).options.out == "tensor"
