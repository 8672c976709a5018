"""Clipping cuts at the image border and nowhere else; the mask keeps what is still a box."""

import math

import pytest
import torch

from pellucid.boxes import box_area, clip_boxes, convert_boxes, visible
from pellucid.errors import InvalidArgument
from tests.refusals import refused

from .polygons import clip_convex, rotated_corners
from .test_formats import random_boxes

SIZE = (8, 11)


@pytest.mark.parametrize("form", ["xyxy", "xywh", "cxcywh"])
def test_upright_boxes_are_intersected_with_the_image(form):
    boxes = random_boxes(200) - 3
    got = convert_boxes(clip_boxes(convert_boxes(boxes, "xyxy", form), SIZE, form), form, "xyxy")
    for box, cut in zip(boxes.tolist(), got.tolist(), strict=True):
        want = [min(max(v, 0), limit) for v, limit in zip(box, (11, 8, 11, 8), strict=True)]
        assert cut == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("form", ["xyxy", "xywh", "cxcywh", "cxcywhr"])
def test_boxes_inside_come_back_bit_for_bit(form):
    boxes = convert_boxes(random_boxes(50, dtype=torch.float32) * 0.5 + 0.1, "xyxy", form)
    assert torch.equal(clip_boxes(boxes, (9, 9), form), boxes)
    assert clip_boxes(boxes[:0], (9, 9), form).shape == boxes[:0].shape


def test_rotated_boxes_keep_exactly_their_visible_part():
    boxes = torch.cat([convert_boxes(random_boxes(300) - 3, "xyxy", "cxcywh"), torch.randn(300, 1, dtype=torch.float64) * 2], -1)
    window = [(0, 0), (11, 0), (11, 8), (0, 8)]
    cut_some = 0
    for box, cut in zip(boxes.tolist(), clip_boxes(boxes, SIZE, "cxcywhr").tolist(), strict=True):
        polygon = clip_convex(rotated_corners(*box), window)
        cx, cy, _, _, r = box
        assert cut[4] == r
        if not polygon:
            assert cut[2] * cut[3] == 0
            continue
        xs = [math.cos(r) * (x - cx) - math.sin(r) * (y - cy) for x, y in polygon]
        ys = [math.sin(r) * (x - cx) + math.cos(r) * (y - cy) for x, y in polygon]
        assert cut[2:4] == pytest.approx([max(xs) - min(xs), max(ys) - min(ys)], abs=1e-9)
        mx, my = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
        centre = [cx + math.cos(r) * mx + math.sin(r) * my, cy - math.sin(r) * mx + math.cos(r) * my]
        assert cut[:2] == pytest.approx(centre, abs=1e-9)
        cut_some += cut != box
    assert cut_some > 100


@pytest.mark.parametrize("angle", [0.0, 0.4, math.pi / 2, 3.0])
@pytest.mark.parametrize("size", [(0.0, 0.0), (0.0, 6.0), (30.0, 0.0)])
def test_a_rotated_box_without_area_gains_none(size, angle):
    centres = torch.tensor([[-50.0, -50.0], [0.0, 0.0], [-1e-15, 0.0], [11.0, 8.0], [5.0, 4.0], [5.0, -2.0], [1e4, 3.0]])
    boxes = torch.cat([centres, torch.tensor([*size, angle]).expand(7, 3)], -1).double()
    cut = clip_boxes(boxes, SIZE, "cxcywhr")
    assert (box_area(cut, "cxcywhr") < 1e-12).all()
    assert (cut[:, 2:4] <= boxes[:, 2:4] + 1e-12).all()
    assert not visible(boxes, cut, format="cxcywhr").any()


@pytest.mark.parametrize("form", ["xywh", "cxcywh"])
def test_half_precision_is_rounded_once(form):
    boxes = torch.tensor([[1500.0, 1000.5, 1041.0, 5.0], [-3.5, -2.0, 2047.0, 7.0]], dtype=torch.float16)
    want = clip_boxes(boxes.double(), (1003, 1999), form)
    assert torch.equal(clip_boxes(boxes, (1003, 1999), form), want.half())


def test_gradient_on_the_border_is_the_inside_one():
    box = torch.tensor([0.0, 0.0, 11.0, 8.0], requires_grad=True)
    clip_boxes(box, SIZE).sum().backward()
    assert box.grad.tolist() == [1.0] * 4
    cut = torch.tensor([0.0, -1.0, 11.0, 4.0], requires_grad=True)
    clip_boxes(cut, SIZE).sum().backward()
    assert cut.grad.tolist() == [1.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("form", ["xyxy", "cxcywhr"])
def test_nan_and_half(form):
    boxes = convert_boxes(random_boxes(6, dtype=torch.float32) - 2, "xyxy", form)
    assert clip_boxes(boxes * math.nan, SIZE, form).isnan().all()
    half = clip_boxes(boxes.half(), SIZE, form)
    assert half.dtype == torch.float16
    assert half.isfinite().all()


@pytest.mark.parametrize(
    ("after", "min_area", "min_visibility", "want"),
    [
        ([0.0, 0.0, 4.0, 4.0], 0.0, 0.0, True),
        ([0.0, 0.0, 4.0, 4.0], 16.0, 0.4, True),
        ([0.0, 0.0, 4.0, 4.0], 17.0, 0.0, False),
        ([0.0, 0.0, 4.0, 4.0], 0.0, 0.41, False),
        ([0.0, 0.0, 0.0, 4.0], 0.0, 0.0, False),
        ([0.0, 0.0, math.nan, 4.0], 0.0, 0.0, False),
        ([0.0, 0.0, math.inf, 4.0], 0.0, 0.0, False),
    ],
)
def test_visible(after, min_area, min_visibility, want):
    before = torch.tensor([0.0, 0.0, 10.0, 4.0])
    assert bool(visible(before, torch.tensor(after), min_area=min_area, min_visibility=min_visibility)) is want
    assert not visible(before * math.nan, before)


def test_errors_say_what_to_do():
    refused(InvalidArgument, "size: expected", clip_boxes, torch.zeros(1, 4), (0, 5))
    refused(InvalidArgument, "the shape of before", visible, torch.zeros(2, 4), torch.zeros(3, 4))
