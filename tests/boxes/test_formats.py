"""Formats convert into one another and back, exactly where they can."""

import itertools
import math

import pytest
import torch

from pellucid.boxes import box_area, convert_boxes
from pellucid.errors import InvalidArgument, InvalidType
from tests.refusals import refused

from .polygons import rotated_corners

UPRIGHT = ("xyxy", "xywh", "cxcywh")
SAME = {
    "xyxy": [2.0, 1.0, 6.0, 4.0],
    "xywh": [2.0, 1.0, 4.0, 3.0],
    "cxcywh": [4.0, 2.5, 4.0, 3.0],
    "cxcywhr": [4.0, 2.5, 4.0, 3.0, 0.0],
}


def random_boxes(*shape, dtype=torch.float64):
    lead = torch.rand(*shape, 2, dtype=dtype) * 10
    return torch.cat([lead, lead + 0.5 + torch.rand(*shape, 2, dtype=dtype) * 5], -1)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(SAME, SAME)))
def test_one_box_written_four_ways(source, target):
    got = convert_boxes(torch.tensor(SAME[source]), source, target)
    assert torch.equal(got, torch.tensor(SAME[target]))


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(UPRIGHT, 2)))
def test_there_and_back(source, target):
    boxes = convert_boxes(random_boxes(2, 3, 5), "xyxy", source)
    back = convert_boxes(convert_boxes(boxes, source, target), target, source)
    assert back.shape == boxes.shape
    assert (back - boxes).abs().max() < 1e-13


@pytest.mark.parametrize("angle", [0.0, 0.3, math.pi / 2, 2.0, -2.5, 7.0])
def test_hull_of_a_rotated_box_touches_its_corners(angle):
    corners = rotated_corners(5.0, 4.0, 6.0, 2.0, angle)
    want = [min(x for x, _ in corners), min(y for _, y in corners), max(x for x, _ in corners), max(y for _, y in corners)]
    got = convert_boxes(torch.tensor([5.0, 4.0, 6.0, 2.0, angle], dtype=torch.float64), "cxcywhr", "xyxy")
    assert torch.allclose(got, torch.tensor(want, dtype=torch.float64), rtol=0, atol=1e-12)


def test_positive_angle_turns_counter_clockwise_on_screen():
    # A long flat box turned by 45 degrees counter-clockwise has its right end up, that is at small y.
    from pellucid.boxes.formats import corners

    quad = corners(torch.tensor([0.0, 0.0, 10.0, 0.0, math.pi / 4]), "cxcywhr")
    right_end = quad[quad[:, 0].argmax()]
    assert right_end[1] < -3


def test_area():
    boxes = torch.tensor([[0.0, 0.0, 256.0, 300.0], [3.0, 3.0, 1.0, 1.0], [0.0, 0.0, math.nan, 1.0]], dtype=torch.float16)
    area = box_area(boxes)
    assert area.dtype == torch.float32
    assert area[:2].tolist() == [76800.0, 0.0]  # beyond float16's range, and inverted twice
    assert area[2].isnan()
    assert torch.equal(box_area(convert_boxes(boxes[:1], "xyxy", "cxcywhr"), "cxcywhr"), area[:1])


def test_errors_say_what_to_do():
    refused(InvalidArgument, "source: expected one of xyxy", convert_boxes, torch.zeros(2, 4), "ltrb", "xywh")
    refused(InvalidArgument, "a last axis of 4", convert_boxes, torch.zeros(2, 5), "xyxy", "xywh")
    refused(InvalidArgument, "a last axis of 5", convert_boxes, torch.zeros(2, 4), "cxcywhr", "xywh")
    refused(InvalidType, r"boxes\.float\(\)", convert_boxes, torch.zeros(2, 4, dtype=torch.int64), "xyxy", "xywh")
    refused(InvalidType, "got list", convert_boxes, [[0.0, 0.0, 1.0, 1.0]], "xyxy", "xywh")
