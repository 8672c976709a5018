"""torchvision's boxes through our pipelines: its classes say what their numbers mean, and its own transforms say where boxes go."""

import math

import pytest
import torch

import pellucid as P
from pellucid.boxes.degrees import from_degrees, to_degrees
from tests.peers import torchvision_functional

ROTATED = ("CXCYWHR", "XYWHR", "XYXYXYXY")
UPRIGHT = ("XYXY", "XYWH", "CXCYWH")
SIZE = (60, 80)
CXCYWHR = torch.tensor([[40.0, 30.0, 20.0, 8.0, 25.0], [35.0, 33.0, 6.0, 14.0, -70.0], [42.0, 28.0, 10.0, 10.0, 0.0]])


@pytest.fixture
def functional():
    return torchvision_functional()


def boxes_of(functional, form, dtype=torch.float64):
    from torchvision import tv_tensors

    start = CXCYWHR.to(dtype)
    if form in ROTATED:
        numbers = functional.convert_bounding_box_format(start, "CXCYWHR", form)
    else:
        numbers = functional.convert_bounding_box_format(start[:, :4], "CXCYWH", form)
    return tv_tensors.BoundingBoxes(numbers, format=form, canvas_size=SIZE)


def quads(functional, boxes):
    """The corners of rotated boxes, whichever of them comes first."""
    numbers = functional.convert_bounding_box_format(torch.Tensor(boxes.double()), boxes.format, "XYXYXYXY")
    points = numbers.as_subclass(torch.Tensor).unflatten(-1, (4, 2))
    around = points - points.mean(-2, keepdim=True)
    order = torch.atan2(around[..., 1], around[..., 0]).argsort(-1)
    return points.gather(-2, order[..., None].expand_as(points))


MOVES = {
    "horizontal flip": (P.RandomHorizontalFlip(p=1.0), lambda F, b: F.horizontal_flip(b)),
    "vertical flip": (P.RandomVerticalFlip(p=1.0), lambda F, b: F.vertical_flip(b)),
    "ten degrees": (P.RandomRotation((10.0, 10.0)), lambda F, b: F.rotate(b, 10.0)),
    "minus forty": (P.RandomRotation((-40.0, -40.0)), lambda F, b: F.rotate(b, -40.0)),
    "twice the size": (P.Resize((120, 160)), lambda F, b: F.resize(b, [120, 160])),
    "crop": (P.CenterCrop((50, 60)), lambda F, b: F.center_crop(b, [50, 60])),
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("form", ROTATED)
def test_rotated_boxes_go_where_torchvisions_go(functional, form, move):
    boxes = boxes_of(functional, form)
    ours, theirs = MOVES[move]
    out = P.Pipeline([ours])({"image": torch.rand(3, *SIZE), "boxes": boxes})
    wanted = theirs(functional, boxes)
    assert type(out["boxes"]) is type(boxes)
    assert out["boxes"].format == boxes.format
    assert tuple(out["boxes"].canvas_size) == tuple(wanted.canvas_size)
    assert out["boxes_valid"].all()
    # torchvision rotates through matrices in float32.
    assert (quads(functional, out["boxes"]) - quads(functional, wanted)).abs().max() < 1e-4


@pytest.mark.parametrize("form", ROTATED)
def test_degrees_are_read_and_written_as_torchvision_does(functional, form):
    boxes = boxes_of(functional, form).as_subclass(torch.Tensor)
    ours = from_degrees(boxes, form.lower())
    wanted = torch.cat([CXCYWHR[:, :4], torch.deg2rad(CXCYWHR[:, 4:])], -1).double()
    assert (ours - wanted).abs().max() < 1e-6
    assert (to_degrees(ours, form.lower()) - boxes).abs().max() < 1e-12
    leaf = boxes.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda b: from_degrees(b, form.lower()), leaf)
    assert torch.autograd.gradcheck(lambda b: to_degrees(b, form.lower()), ours.requires_grad_())
    none = torch.zeros_like(boxes, requires_grad=True)
    from_degrees(none, form.lower()).sum().backward()
    assert from_degrees(none, form.lower()).abs().max() == 0
    assert none.grad.isfinite().all()


@pytest.mark.parametrize("form", ROTATED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_degrees_come_back_through_the_inverse(functional, form, dtype):
    boxes = boxes_of(functional, form, dtype)
    augment = P.Pipeline([P.RandomAffine((20.0, 20.0), scale=(1.1, 1.1)), P.RandomHorizontalFlip(p=1.0)])
    out, record = augment({"image": torch.rand(3, *SIZE), "boxes": boxes}, return_record=True)
    assert out["boxes"].dtype == dtype
    assert not torch.allclose(quads(functional, out["boxes"]), quads(functional, boxes), atol=1.0)
    back = augment.inverse({"boxes": out["boxes"]}, record)["boxes"]
    near = 1e-3 if dtype == torch.float32 else 0.3
    assert (quads(functional, back) - quads(functional, boxes)).abs().max() < near


@pytest.mark.parametrize("form", UPRIGHT)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32])
def test_upright_and_whole_numbered_boxes(functional, form, dtype):
    from torchvision import tv_tensors

    numbers = torch.tensor([[4, 6, 10, 20], [30, 10, 44, 32]], dtype=dtype)
    numbers = functional.convert_bounding_box_format(numbers, "XYXY", form)
    boxes = tv_tensors.BoundingBoxes(numbers, format=form, canvas_size=SIZE)
    augment = P.Pipeline([P.RandomHorizontalFlip(p=1.0), P.Resize((30, 40))])
    out = augment({"image": torch.rand(3, *SIZE), "boxes": boxes})
    exact = tv_tensors.wrap(boxes.float(), like=boxes)
    wanted = functional.resize(functional.horizontal_flip(exact), [30, 40])
    assert out["boxes"].dtype == torch.float32  # a resize leaves no whole numbers
    assert torch.equal(out["boxes"].as_subclass(torch.Tensor), wanted.as_subclass(torch.Tensor))
    assert out["boxes_valid"].all()


def test_whole_numbers_are_not_rounded():
    image = torch.rand(2, 3, 10, 10)
    boxes = torch.tensor([[[1, 2, 5, 6]], [[0, 0, 0, 0]]])
    points = torch.tensor([[[1, 2]], [[9, 9]]], dtype=torch.int32)
    augment = P.Pipeline([P.RandomAffine(0, scale=(0.75, 0.75))])
    batch = {"image": image, "boxes": boxes, "keypoints": points}
    out, record = augment(batch, return_record=True)
    exact = augment.apply({**batch, "boxes": boxes.double(), "keypoints": points.double()}, record)
    for key in ("boxes", "keypoints"):
        assert out[key].dtype == torch.float32
        assert torch.equal(out[key], exact[key].float())
        assert torch.equal(out[f"{key}_valid"], exact[f"{key}_valid"])
    assert out["boxes_valid"].tolist() == [[True], [False]]
    vanished = record.with_param(0, "scale", torch.tensor([0.0, 1.0], dtype=torch.float64))
    assert augment.apply({"image": image, "boxes": boxes}, vanished)["boxes"].tolist()[0] == [[0, 0, 0, 0]]


def test_boxes_and_rotated_boxes_share_a_batch(functional):
    boxes = boxes_of(functional, "CXCYWHR")
    upright = torch.tensor([[[2.0, 3.0, 12.0, 9.0]]])
    ships = torch.tensor([[[20.0, 20.0, 10.0, 4.0, math.pi / 6]]])
    augment = P.Pipeline([P.RandomRotation90(times=(1,))], box_format={"boxes_ship": "cxcywhr"})
    out = augment({"image": torch.rand(1, 3, 60, 60), "boxes": upright, "boxes_ship": ships})
    assert out["boxes"].tolist() == [[[3.0, 48.0, 9.0, 58.0]]]
    assert torch.allclose(out["boxes_ship"], torch.tensor([[[20.0, 40.0, 10.0, 4.0, math.pi / 6 + math.pi / 2]]]))
    both = P.Pipeline([P.RandomHorizontalFlip(p=1.0)])({"image": torch.rand(3, *SIZE), "boxes": upright[0], "boxes_tv": boxes})
    assert both["boxes"].tolist() == [[68.0, 3.0, 78.0, 9.0]]
    assert torch.allclose(both["boxes_tv"].as_subclass(torch.Tensor)[0], torch.tensor([40.0, 30.0, 20.0, 8.0, -25.0]).double())
    again = P.Pipeline.from_dict(augment.to_dict())
    assert again.to_dict()["box_format"] == {"boxes_ship": "cxcywhr"}


def test_canvases_follow_the_picture(functional):
    from torchvision import tv_tensors

    points = tv_tensors.KeyPoints(torch.tensor([[1.0, 2.0]]), canvas_size=SIZE)
    boxes = boxes_of(functional, "XYXY")
    augment = P.Pipeline([P.Resize((30, 40))])
    out, record = augment({"image": torch.rand(3, *SIZE), "keypoints": points, "boxes": boxes}, return_record=True)
    assert isinstance(out["keypoints"], tv_tensors.KeyPoints)
    assert tuple(out["keypoints"].canvas_size) == tuple(out["boxes"].canvas_size) == (30, 40)
    back = augment.inverse({"keypoints": out["keypoints"]}, record)
    assert tuple(back["keypoints"].canvas_size) == SIZE
    stray = tv_tensors.KeyPoints(torch.tensor([[1.0, 2.0]]), canvas_size=(61, 80))
    with pytest.raises(P.InvalidArgument, match=r"keypoints.*\(60, 80\).*canvas_size \(61, 80\)"):
        augment({"image": torch.rand(3, *SIZE), "keypoints": stray})
    with pytest.raises(P.InvalidArgument, match=r"as in the record.*\(61, 80\)"):
        augment.apply({"keypoints": stray}, record)
