"""torchvision's tensor classes: the class of an entry is its kind, whatever its key is and wherever it stands."""

import pytest
import torch

from pellucid import CutMix, InvalidArgument, Pipeline, RandomHorizontalFlip, RandomInvert
from pellucid.data import collate
from tests.peers import torchvision_functional
from tests.refusals import refused

torchvision_functional()
from torchvision import tv_tensors as tv  # noqa: E402 - which is missing where torchvision is

STEPS = [RandomHorizontalFlip(p=1.0), RandomInvert(p=1.0)]
H, W = 6, 8

# What goes in, and what becomes of it: all are mirrored, pictures are inverted, too.
KINDS = {
    "Image": (lambda: tv.Image(torch.rand(3, H, W)), lambda x: 1 - x.flip(-1)),
    "Mask": (lambda: tv.Mask(torch.randint(0, 9, (H, W))), lambda x: x.flip(-1)),
    "BoundingBoxes": (
        lambda: tv.BoundingBoxes(torch.tensor([[1.0, 2, 4, 5], [0, 0, 3, 3]]), format="XYXY", canvas_size=(H, W)),
        lambda x: torch.stack((W - x[:, 2], x[:, 1], W - x[:, 0], x[:, 3]), 1),
    ),
    "KeyPoints": (
        lambda: tv.KeyPoints(torch.tensor([[1.0, 2], [7, 0]]), canvas_size=(H, W)),
        lambda x: torch.stack((W - 1 - x[:, 0], x[:, 1]), 1),
    ),
}
KEYS = (
    *(
        "image",
        "images",
        "img",
        "input",
        "pixel_values",
        "video",
        "mask",
        "masks",
        "label",
        "labels",
        "seg",
        "gt",
        "target",
        "depth",
    ),
    *(
        "boxes",
        "bboxes",
        "keypoints",
        "points",
        "heatmap",
        "flow",
        "image_id",
        "iscrowd",
        "area",
        "class_labels",
        "x",
        "mask_valid",
    ),
)

# From one sample (a dict) to a call's argument, and from its result to the sample.
HOLDERS = {
    "dict": (lambda one: one, lambda out: out),
    "target": (lambda one: {"pic": one["pic"], "target": _less(one)}, lambda out: {"pic": out["pic"], **out["target"]}),
    "pair": (lambda one: (one["pic"], _less(one)), lambda out: {"pic": out[0], **out[1]}),
    "lists": (
        lambda one: {key: [value, value] for key, value in one.items()},
        lambda out: {key: value[1] for key, value in out.items()},
    ),
    "list of dicts": (
        lambda one: {"pic": [one["pic"]] * 2, "targets": [_less(one)] * 2},
        lambda out: {"pic": out["pic"][1], **out["targets"][1]},
    ),
    "pair of lists": (lambda one: ([one["pic"]] * 2, [_less(one)] * 2), lambda out: {"pic": out[0][1], **out[1][1]}),
}


def _less(one):
    return {key: value for key, value in one.items() if key != "pic"}


def _picture():
    return tv.Image(torch.rand(3, H, W))


@pytest.mark.parametrize("name", KINDS)
def test_a_class_is_its_kind_under_every_key_and_in_every_holder(name):
    make, wanted = KINDS[name]
    pipeline = Pipeline(STEPS, pad_targets=False)
    nested = [holder for holder in HOLDERS if holder != "dict"]
    for place, key in enumerate(KEYS):
        for holder in ("dict", nested[place % 5], nested[(place // 5 + place + 2) % 5]):
            into, out = HOLDERS[holder]
            value, picture = make(), _picture()
            if (key == "target" and holder != "dict") or (key == "image" and holder.startswith("pair")):
                continue  # which are the holder's own
            found = out(pipeline(into({"pic": picture, key: value})))
            assert isinstance(found[key], type(value)), (key, holder)
            torch.testing.assert_close(found[key].as_subclass(torch.Tensor), wanted(value.as_subclass(torch.Tensor)))
            torch.testing.assert_close(found["pic"].as_subclass(torch.Tensor), 1 - picture.as_subclass(torch.Tensor).flip(-1))


@pytest.mark.parametrize("name", ["Image", "Mask"])
def test_alone(name):
    make, wanted = KINDS[name]
    value = make()
    for found in (Pipeline(STEPS)({"label": value})["label"], Pipeline(STEPS)(value)):
        assert isinstance(found, type(value))
        torch.testing.assert_close(found.as_subclass(torch.Tensor), wanted(value.as_subclass(torch.Tensor)))


def test_samples_of_a_data_set():
    """As `collate` reads them, in dicts and beside a picture."""
    augment = collate(Pipeline(STEPS))
    mask, picture = tv.Mask(torch.randint(0, 9, (H, W))), _picture()
    for found in (
        augment([{"image": picture, "label": mask}] * 2)["label"],
        augment([(picture, {"label": mask})] * 2)[1][1]["label"][None],
    ):
        assert torch.equal(found[-1].as_subclass(torch.Tensor), mask.as_subclass(torch.Tensor).flip(-1))
    refused(InvalidArgument, "dict", augment, [(picture, mask)] * 2)


def test_a_video_has_one_draw():
    video = tv.Video(torch.rand(2, 5, 3, H, W))
    flip = Pipeline([RandomHorizontalFlip(p=0.5)], seed=0)
    out = flip({"label": video})["label"]
    assert isinstance(out, tv.Video)
    for clip, was in zip(out.as_subclass(torch.Tensor), video.as_subclass(torch.Tensor), strict=True):
        assert torch.equal(clip, was) or torch.equal(clip, was.flip(-1))
    refused(InvalidArgument, r"\[None\]", flip, {"video": tv.Video(video[0])})
    assert Pipeline([RandomHorizontalFlip()], same_on_batch=True)({"video": tv.Video(video[0])})["video"].shape == video[0].shape


@pytest.mark.parametrize("said", ["image", "labels", "depth", "boxes"])
def test_a_target_that_is_told_to_be_something_else_is_refused(said):
    mask = tv.Mask(torch.randint(0, 9, (H, W)))
    batch = {"pic": _picture(), "label": mask}
    refused(InvalidArgument, f"(?s)'label'.*{said}.*Mask.*as_subclass", Pipeline(STEPS, targets={"label": said}), batch)
    assert torch.equal(Pipeline(STEPS, targets={"label": "mask"})(batch)["label"], mask.flip(-1))
    assert Pipeline(STEPS, passthrough=["label"])(batch)["label"] is mask


def test_lists_of_two_classes_are_refused():
    mask = tv.Mask(torch.randint(0, 9, (3, H, W)))
    refused(InvalidArgument, r"(?s)one class.*Image.*Mask", Pipeline(STEPS), [_picture(), mask])
    refused(InvalidArgument, r"(?s)'x'.*one class.*Image.*Mask", Pipeline(STEPS), {"x": [_picture(), mask]})
    plain = Pipeline(STEPS)({"image": [_picture(), torch.rand(3, H, W)]})  # which the key says to be one, too
    assert len(plain["image"]) == 2
    with pytest.raises(InvalidArgument, match=r"(?s)'label'.*one class"):
        Pipeline(STEPS)({"pic": [_picture()] * 2, "label": [mask, torch.zeros(3, H, W)]})


def test_rows_that_leave_take_no_rows_of_a_mask_with_them():
    """A mask whose key is that of labels has no row for every box."""
    boxes = tv.BoundingBoxes(torch.rand(H, 4).sort(-1).values * 5 + 0.1, format="XYXY", canvas_size=(H, W))
    boxes[0] = 0.0
    batch = {"pic": _picture(), "gt": boxes, "label": tv.Mask(torch.zeros(H, W)), "labels": torch.arange(H)}
    out = Pipeline(STEPS, drop_invalid=True)(batch)
    assert out["labels"].tolist() == [1, 2, 3, 4, 5]
    assert out["label"].shape == (H, W)
    assert len(out["gt"]) == H - 1


def test_masks_under_the_key_of_labels_are_mixed_as_masks():
    masks = tv.Mask(torch.arange(2)[:, None, None].expand(2, H, W).contiguous())
    out = Pipeline([CutMix(num_classes=2)], seed=0)({"image": torch.rand(2, 3, H, W), "label": masks, "labels": torch.arange(2)})
    assert out["label"].shape == (2, H, W)
    assert out["labels"].shape == (2, 2)
