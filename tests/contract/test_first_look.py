"""Boxes: what a pipeline says of those that it reads in the wrong format, of whole numbers, and of keys that it does not know."""

import warnings

import pytest
import torch

import pellucid as P
from pellucid import InvalidArgument, Pipeline

FLIP = P.RandomHorizontalFlip(p=1.0)


def batch(rows, count=1):
    return {"image": torch.rand(count, 3, 40, 60), "boxes": torch.tensor(rows).expand(count, -1, 4)}


WIDE = [[30.0, 20.0, 12.0, 9.0], [40.0, 10.0, 5.0, 30.0], [20.0, 20.0, 8.0, 8.0], [0.0, 0.0, 0.0, 0.0]]


def test_boxes_that_end_before_they_begin_are_spoken_of_once():
    pipeline = Pipeline([FLIP])
    with pytest.warns(UserWarning, match=r"(?s)3 of 3 rows of batch\['boxes'\].*box_format='xywh'"):
        pipeline(batch(WIDE))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline(batch(WIDE))
        Pipeline([FLIP], box_format="xywh")(batch(WIDE))
        Pipeline([FLIP])(batch([[1.0, 2.0, 30.0, 20.0], [9.0, 9.0, 3.0, 3.0], [0.0, 0.0, 9.0, 9.0]]))  # one of three is padding
        Pipeline([FLIP])({"image": torch.rand(1, 3, 8, 8), "boxes": torch.zeros(1, 0, 4)})
        Pipeline([FLIP])({**batch(WIDE), "boxes_valid": torch.zeros(1, 4, dtype=torch.bool)})


def test_the_first_boxes_may_come_one_by_one():
    """The first picture has none, the second a box that any format may be."""
    pipeline = Pipeline([FLIP])
    pipeline({"image": torch.rand(3, 40, 60), "boxes": torch.zeros(0, 4)})
    pipeline({"image": torch.rand(3, 40, 60), "boxes": torch.tensor([[1.0, 2.0, 30.0, 20.0]])})
    with pytest.warns(UserWarning, match="3 of 4 rows"):
        pipeline({"image": [torch.rand(3, 40, 60)] * 1, "boxes": [torch.tensor(WIDE)]})


WHOLE = {
    "flip": FLIP,
    "crop": P.RandomCrop((20, 30)),
    "pad": P.Pad((1, 2, 3, 4)),
    "half turn": P.RandomRotation90((2,)),
    "colours": P.ColorJitter(0.2),
}
MOVING = {
    "affine": P.RandomAffine(0, scale=(0.75, 0.75)),
    "resize": P.Resize((30, 40)),
    "crop and resize": P.RandomResizedCrop(20),
    "holes": P.RandomErasing(p=1.0, hides=True),
}


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", [*WHOLE, *MOVING])
def test_whole_numbers_stay_whole_where_pixels_do(name, dtype):
    """And become floating-point numbers where they would be rounded: boxes and keypoints, in batches and lists."""
    step = {**WHOLE, **MOVING}[name]
    pipeline = Pipeline([FLIP, step], seed=0)
    boxes = torch.tensor([[[3, 4, 21, 33], [10, 8, 37, 18]]]).expand(2, -1, 4).contiguous()
    points = torch.tensor([[[3, 4], [21, 33]]]).expand(2, -1, 2).contiguous()
    pictures = {"image": torch.rand(2, 3, 40, 60), "boxes": boxes.to(dtype), "keypoints": points.to(dtype)}
    out, record = pipeline(pictures, return_record=True)
    exact = pipeline.apply({**pictures, "boxes": boxes.double(), "keypoints": points.double()}, record)
    lists = pipeline.apply({key: [*value] for key, value in pictures.items()}, pipeline.draw([*pictures["image"]], key=P.Key(0, 0)))
    for key in ("boxes", "keypoints"):
        assert out[key].dtype == lists[key].dtype == (dtype if name in WHOLE else torch.float32)
        assert torch.equal(out[key].double(), exact[key].to(out[key].dtype).double())
        assert (out[key].double() - exact[key]).abs().max() < 1e-4
    back = pipeline.inverse({key: out[key] for key in ("image", "boxes")}, record) if name != "crop" else None
    assert back is None or (back["boxes"].dtype == out["boxes"].dtype)


def test_whole_centres_and_widths_are_no_whole_edges():
    """A crop leaves half a pixel of a width of three."""
    pictures = {"image": torch.rand(1, 3, 8, 8), "boxes": torch.tensor([[[2, 4, 4, 2]]])}
    out = Pipeline([P.RandomCrop((8, 7), p=1.0), P.CenterCrop((8, 1))], box_format="cxcywh")(pictures)
    assert out["boxes"].dtype == torch.float32


HINTS = {
    "camera_pose": ("extrinsics", torch.eye(4)),
    "distCoeffs": ("lens", torch.zeros(5)),
    "lanes": ("polylines", torch.rand(2, 5, 2)),
    "text_quad": ("quads", torch.rand(2, 4, 2)),
    **dict.fromkeys(("img", "images", "left_img", "imgLeft", "video", "rgb", "frames"), ("image", torch.rand(3, 8, 8))),
    **dict.fromkeys(("bbox", "gt_bboxes", "detections", "boxxes"), ("boxes", torch.rand(5, 4).sort(-1).values)),
    **dict.fromkeys(("landmarks", "kps", "joints"), ("keypoints", torch.rand(5, 2))),
    **dict.fromkeys(("category", "classes", "cls", "y", "target"), ("labels", torch.tensor([3]))),
    **dict.fromkeys(("seg", "semantic", "gt", "targets2"), ("mask", torch.zeros(8, 8, dtype=torch.uint8))),
    **dict.fromkeys(("depths", "gt_depth"), ("depth", torch.rand(8, 8))),
    **dict.fromkeys(("disp", "gt_disparity"), ("disparity", torch.rand(8, 8))),
    **dict.fromkeys(("K", "camera", "cam_intrinsics"), ("intrinsics", torch.eye(3))),
    "optical_flow": ("flow", torch.rand(2, 8, 8)),
}


@pytest.mark.parametrize("key", HINTS)
def test_the_hint_for_a_key_names_its_likely_kind(key):
    kind, value = HINTS[key]
    with pytest.raises(InvalidArgument, match=f"Pass targets={{'{key}': '{kind}'}}.*passthrough"):
        Pipeline([FLIP])({"image": torch.rand(3, 8, 8), key: value})
    Pipeline([FLIP], targets={key: kind})({"image": torch.rand(3, 8, 8), key: value})


@pytest.mark.parametrize("key", ["file_name", "img_path", "id", "caption", "anything"])
def test_the_hint_for_what_is_no_target_is_to_leave_it_alone(key):
    with pytest.raises(InvalidArgument, match=rf"Pass passthrough=\('{key}',\)") as caught:
        Pipeline([FLIP])({"image": torch.rand(3, 8, 8), key: "text"})
    assert "targets=" not in str(caught.value)
    assert ("record.matrix" in str(caught.value)) == (key in ("K", "camera", "intrinsics"))
