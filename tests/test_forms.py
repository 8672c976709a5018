"""The names and forms that other libraries' data sets, models and habits have."""

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid import InvalidArgument, Key, Pipeline
from pellucid.boxes import convert_boxes
from tests.peers import torchvision_functional
from tests.refusals import refused

KEY = Key(3, 1)
STEPS = [P.RandomHorizontalFlip(p=1.0), P.RandomTranslate(((0.3, 0.3), (0.0, 0.0)))]
BOXES = torch.tensor([[2.0, 3.0, 8.0, 9.0], [0.0, 0.0, 3.0, 4.0], [18.0, 4.0, 20.0, 9.0]])


def picture(seed=0, size=(12, 20)):
    return torch.rand(3, *size, generator=torch.Generator().manual_seed(seed))


def flat(**options):
    return Pipeline(STEPS, **options)({"image": picture(), "boxes": BOXES}, key=KEY)


def test_padding_modes_by_numpys_names():
    image = torch.rand(1, 2, 5, 6)
    for mode in ("constant", "edge", "symmetric", "reflect"):
        wanted = np.pad(image.numpy(), [(0, 0), (0, 0), (3, 3), (3, 3)], mode=mode)
        assert np.array_equal(P.Pad(3, padding_mode=mode)(image).numpy(), wanted)
        assert np.array_equal(P.functional.pad(image, 3, padding_mode=mode).numpy(), wanted)
        assert np.array_equal(P.PadIfNeeded((11, 12), padding_mode=mode)(image).numpy(), wanted)
    assert P.RandomRotation(5, padding_mode="edge") == P.RandomRotation(5, padding_mode="border")
    assert P.Pad(1, padding_mode="reflect") != P.Pad(1, padding_mode="reflection")


@pytest.mark.parametrize("mean", [torch.tensor([0.5, 0.25, 0.125]), np.array([0.5, 0.25, 0.125]), [0.5, 0.25, 0.125]])
def test_statistics_as_arrays_and_tensors(mean):
    wanted = P.Normalize((0.5, 0.25, 0.125), (0.5, 0.25, 0.125))
    assert P.Normalize(mean, mean) == wanted
    if not isinstance(mean, list):
        assert P.Normalize(mean.reshape(1, 3, 1, 1), mean.reshape(3, 1, 1)) == wanted


@pytest.mark.parametrize("number", [0.5, np.float32(0.5), torch.tensor(0.5)])
def test_statistics_as_one_number(number):
    assert P.Normalize(number, number) == P.Normalize((0.5,), (0.5,))
    refused(InvalidArgument, "a number or a sequence of numbers", P.Normalize, torch.ones(3, 2), 1.0)


def test_bytes_into_normalize_come_back_as_floats():
    image = torch.randint(0, 256, (3, 5, 6), dtype=torch.uint8)
    out = P.Normalize(0.5, 0.25)(image)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, (image / 255 - 0.5) / 0.25)


@pytest.mark.parametrize(("key", "ours"), [("pixel_values", "image"), ("input", "image"), ("bboxes", "boxes"), ("masks", "mask")])
def test_keys_of_other_libraries(key, ours):
    mask = torch.randint(0, 5, (4, 12, 20))
    value = {"image": picture(), "boxes": BOXES, "mask": mask}[ours]
    with_image = {} if ours == "image" else {"image": picture()}
    pipeline = Pipeline([*STEPS, P.RandomBrightness(0.5)])
    found, wanted = (pipeline({**with_image, name: value}, key=KEY) for name in (key, ours))
    assert torch.equal(found[key], wanted[ours])
    if ours == "boxes":
        assert torch.equal(found["bboxes_valid"], wanted["boxes_valid"])


def test_keys_that_only_look_alike_are_refused():
    for key in ("input_ids", "input_mask", "pixel_values_mask", "bboxes2"):
        refused(InvalidArgument, "a key named after its kind", Pipeline(STEPS), {"image": picture(), key: picture()})


@pytest.mark.parametrize("name", ["label", "labels", "image_id", "iscrowd"])
def test_labels_are_left_alone(name):
    assert Pipeline(STEPS)({"image": picture(), name: 7})[name] == 7


@pytest.mark.parametrize("under", [None, "target", "targets"])
def test_a_target_of_its_own_comes_back_as_one(under):
    target = {"boxes": BOXES, "labels": torch.tensor([1, 2, 3]), "image_id": 5}
    batch = (picture(), target) if under is None else {"image": picture(), under: target}
    pipeline = Pipeline(STEPS)
    out, record = pipeline(batch, key=KEY, return_record=True)
    assert type(out) is type(batch)
    image, found = out if under is None else (out["image"], out[under])
    wanted = flat()
    assert torch.equal(image, wanted["image"])
    assert set(found) == {"boxes", "boxes_valid", "labels", "image_id"}
    assert torch.equal(found["boxes"], wanted["boxes"])
    assert torch.equal(found["boxes_valid"], wanted["boxes_valid"])
    assert found["image_id"] == 5
    again = pipeline.apply(batch, record)
    assert torch.equal((again[0] if under is None else again["image"]), image)
    back = pipeline.inverse(out, record)
    assert type(back) is type(batch)


def test_a_pair_with_a_label_and_one_of_two_pictures():
    images, labels = torch.stack([picture(0), picture(1)]), torch.tensor([4, 5])
    pipeline = Pipeline(STEPS)
    wanted = pipeline(images, key=KEY)
    for label in (labels, labels.numpy()):
        out = pipeline((images, label), key=KEY)
        assert torch.equal(out[0], wanted)
        assert out[1] is label
    assert pipeline([picture(), 3], key=KEY)[1] == 3
    two = pipeline([picture(0), picture(1)], key=KEY)  # a list of pictures, as ever
    assert len(two) == 2
    assert torch.equal(two[0], wanted[0])
    refused(InvalidArgument, "sample 1: ", pipeline, (picture(), torch.zeros(12, 20)))  # which could be a mask or soft labels


def test_lists_of_pictures_with_a_dict_for_each():
    pictures = (picture(0), picture(1, (16, 9)))
    targets = ({"boxes": BOXES, "labels": [1, 2, 3]}, {"boxes": BOXES[:1], "labels": [9]})
    images, found = Pipeline(STEPS)((pictures, targets), key=KEY)
    wanted = Pipeline(STEPS, pad_targets=False)({"image": pictures, "boxes": [one["boxes"] for one in targets]}, key=KEY)
    assert all(map(torch.equal, images, wanted["image"]))
    assert [len(one["boxes"]) for one in found] == [3, 1]
    for one, boxes, before in zip(found, wanted["boxes"], targets, strict=True):
        assert torch.equal(one["boxes"], boxes)
        assert one["labels"] == before["labels"]
    with pytest.raises(InvalidArgument, match=r"target\[1\]: expected the keys of the first"):
        Pipeline(STEPS)((pictures, ({"boxes": BOXES}, {"labels": 1})))


def test_a_name_in_two_places_and_stale_areas_are_refused():
    with pytest.raises(InvalidArgument, match="each key in one place"):
        Pipeline(STEPS)({"image": picture(), "boxes": BOXES, "target": {"boxes": BOXES}})
    refused(InvalidArgument, "Areas change with the boxes", Pipeline(STEPS), (picture(), {"boxes": BOXES, "area": torch.ones(3)}))


@pytest.mark.parametrize(
    ("name", "ours"), [("yolo", "cxcywh"), ("albumentations", "xyxy"), ("coco", "xywh"), ("pascal_voc", "xyxy")]
)
def test_boxes_in_fractions_and_under_other_names(name, ours):
    """Also where the size changes, and undone."""
    steps = [*STEPS, P.Resize((30, 40))]
    before = convert_boxes(BOXES, "xyxy", ours)
    sides = lambda size: torch.tensor([size[1], size[0]] * 2) if name in ("yolo", "albumentations") else 1.0  # noqa: E731
    pipeline = Pipeline(steps, box_format=name)
    out, record = pipeline({"image": picture(), "boxes": before / sides((12, 20))}, key=KEY, return_record=True)
    wanted = Pipeline(steps, box_format=ours)({"image": picture(), "boxes": before}, key=KEY)
    torch.testing.assert_close(out["boxes"] * sides((30, 40)), wanted["boxes"], rtol=0, atol=1e-4)
    assert torch.equal(out["boxes_valid"], wanted["boxes_valid"])
    late = pipeline.apply({"boxes": before / sides((12, 20))}, record)  # no picture beside them
    assert torch.equal(late["boxes"], out["boxes"])
    back = pipeline.inverse(out, record)["boxes"] * sides((12, 20))
    torch.testing.assert_close(back[2], before[2], rtol=0, atol=1e-4)


def test_whole_numbers_are_no_fractions():
    with pytest.raises(TypeError, match="fractions of the picture's size"):
        Pipeline(STEPS, box_format="yolo")({"image": picture(), "boxes": BOXES.long()})


def test_whole_boxes_stay_whole():
    out = Pipeline([P.RandomHorizontalFlip(p=1.0)])({"image": picture(), "boxes": BOXES.long()})
    assert out["boxes"].dtype == torch.int64
    assert out["boxes"].tolist() == [[12, 3, 18, 9], [17, 0, 20, 4], [0, 4, 2, 9]]


def test_rows_of_numbers_are_the_boxes_of_one_picture():
    out = Pipeline(STEPS)({"image": picture(), "bboxes": BOXES.tolist(), "keypoints": []}, key=KEY)
    assert torch.equal(out["bboxes"], flat()["boxes"])
    assert out["keypoints"].shape == (0, 2)
    lists = {"image": [picture(), picture(1, (9, 9))], "bboxes": [BOXES.tolist(), []]}
    rows = Pipeline(STEPS, pad_targets=False)(lists, key=KEY)["bboxes"]
    assert [len(one) for one in rows] == [3, 0]
    with pytest.raises(InvalidArgument, match="rows of equally many numbers"):
        Pipeline(STEPS)({"image": [picture()], "boxes": [[[1, 2, 3, 4], [1, 2]]]})


def test_labels_go_with_their_boxes_as_torchvision_sanitises():
    torchvision_functional()
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    target = {
        "boxes": tv_tensors.BoundingBoxes(BOXES, format="XYXY", canvas_size=(12, 20)),
        "labels": torch.tensor([1, 2, 3]),
        "masks": tv_tensors.Mask(torch.randint(0, 2, (3, 12, 20), dtype=torch.uint8)),
        "image_id": torch.tensor([8]),
    }
    pipeline = Pipeline(STEPS, drop_invalid=True)
    _, found = pipeline((picture(), target), key=KEY)
    wholes = Pipeline(STEPS)((picture(), target), key=KEY)
    wanted = v2.SanitizeBoundingBoxes(min_size=1, labels_getter=lambda x: x[1]["labels"])(
        (wholes[0], {key: value for key, value in wholes[1].items() if key != "boxes_valid"})
    )[1]
    assert len(wanted["boxes"]) == 2  # one has left the picture
    for key in ("boxes", "labels", "masks"):
        assert torch.equal(found[key], wanted[key]), key
    assert found["boxes_valid"].all()
    assert found["image_id"].tolist() == [8]


@pytest.mark.parametrize("labels", [torch.tensor([1, 2, 3]), np.array([1, 2, 3]), [1, 2, 3], ("a", "b", "c")])
def test_labels_of_lists_and_of_any_holder_go_with_their_boxes(labels):
    pipeline = Pipeline(STEPS, drop_invalid=True)
    one = pipeline({"image": picture(), "boxes": BOXES, "labels": labels}, key=KEY)
    assert type(one["labels"]) is type(labels)
    assert (
        list(one["labels"]) == [labels[0], labels[2]] if not isinstance(labels, torch.Tensor) else one["labels"].tolist() == [1, 3]
    )
    lists = {"image": [picture(), picture()], "boxes": [BOXES, BOXES[:1]], "labels": [labels, labels[:1]]}
    out = pipeline(lists, key=KEY)
    assert [len(row) for row in out["labels"]] == [len(row) for row in out["boxes"]] == [2, 1]


def test_labels_of_another_name_go_with_the_boxes_of_that_name_or_with_those_of_none():
    given = {"image": picture(), "boxes": BOXES, "labels_track": [7, 8, 9], "keypoint_labels_x": [1]}
    assert Pipeline(STEPS, drop_invalid=True)(given, key=KEY)["labels_track"] == [7, 9]
    out = Pipeline(STEPS, drop_invalid=True)({**given, "boxes_track": BOXES[1:2], "labels_track": [5]}, key=KEY)
    assert [len(out[name]) for name in ("boxes", "boxes_track", "labels_track", "keypoint_labels_x")] == [2, 0, 0, 1]


def test_what_cannot_be_filtered_is_refused():
    pipeline = Pipeline(STEPS, drop_invalid=True)
    refused(InvalidArgument, "one picture, or a list of them", pipeline, {"image": picture()[None], "boxes": BOXES[None]})
    with pytest.raises(InvalidArgument, match=r"3 rows, one per box.*passthrough=\('labels',\)"):
        pipeline({"image": picture(), "boxes": BOXES, "labels": [1, 2]})
    kept = Pipeline(STEPS, drop_invalid=True, passthrough=("labels",))({"image": picture(), "boxes": BOXES, "labels": [1, 2]})
    assert kept["labels"] == [1, 2]
    assert pipeline({"image": picture(), "boxes": BOXES, "label": 5})["label"] == 5  # of the picture


def test_parameters_of_other_libraries_are_explained():
    _, record = Pipeline(STEPS)(picture(), return_record=True)
    refused(TypeError, r"pipeline\.apply\(other, record\)", Pipeline(STEPS), picture(), params=record)


def test_one_graph_for_a_dict_in_a_dict():
    torch._dynamo.reset()
    pipeline = Pipeline(STEPS, seed=0, impl="reference")
    batch = {"image": picture()[None], "target": {"boxes": BOXES[None], "labels": torch.tensor([1])}}
    out = torch.compile(pipeline, backend="eager", fullgraph=True)(batch, key=KEY)
    assert torch.equal(out["target"]["boxes"], pipeline(batch, key=KEY)["target"]["boxes"])


@pytest.mark.parametrize(
    ("batch", "advice"),
    [
        ((torch.rand(3, 4, 5), torch.zeros(4, 5, dtype=torch.uint8)), r"\(picture, \{'mask': target\}\)"),
        ([torch.rand(2, 3, 4, 5), torch.rand(2, 7)], r"\(picture, \{'mask': target\}\)"),
        ([{"image": torch.rand(3, 4, 5)}], "are joined first"),
        ([(torch.rand(3, 4, 5), 1)], "are joined first"),
    ],
)
def test_samples_that_are_no_list_of_pictures_are_told_their_form(batch, advice):
    with pytest.raises((P.InvalidArgument, P.InvalidType), match=advice):
        P.Pipeline([P.RandomHorizontalFlip()])(batch)
