"""Boxes across canvases against polygons clipped one by one in plain Python."""

import math

import pytest
import torch

from pellucid.boxes.canvases import across
from pellucid.boxes.clip import clip_boxes
from pellucid.boxes.transform import transform_boxes

from .polygons import clip_convex

FIRST, SECOND = (9, 12), (11, 10)


def turned(degrees, dx, dy):
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return torch.tensor([[cos, sin, dx], [-sin, cos, dy], [0.0, 0.0, 1.0]], dtype=torch.float64)


def moved(polygon, matrix):
    m = matrix.tolist()
    out = []
    for x, y in polygon:  # edges are half a pixel from centres
        a, b, w = (m[i][0] * (x - 0.5) + m[i][1] * (y - 0.5) + m[i][2] for i in range(3))
        out.append((a / w + 0.5, b / w + 0.5))
    return out


def frame(size):
    return [(0.0, 0.0), (size[1], 0.0), (size[1], size[0]), (0.0, size[0])]


@pytest.mark.parametrize("bend", [0.0, 0.004])
def test_what_is_left_of_a_box_is_boxed_once(bend):
    torch.manual_seed(3)
    corner = 14.0 * torch.rand(1, 200, 2, dtype=torch.float64) - 4.0
    boxes = torch.cat((corner, corner + 0.5 + 8.0 * torch.rand(1, 200, 2, dtype=torch.float64)), -1)
    maps = [turned(25.0, 1.0, 2.0), turned(-40.0, 0.5, 3.0), turned(10.0, -1.0, 0.0)]
    maps[1][2, 0] = bend
    hops = [(m[None], s) for m, s in zip(maps, (FIRST, SECOND, (8, 8)), strict=True)]
    found, there = across(boxes, hops, "xyxy")
    cut = 0
    for box, mine, left in zip(boxes[0].tolist(), found[0].tolist(), there[0].tolist(), strict=True):
        polygon = [(box[0], box[1]), (box[2], box[1]), (box[2], box[3]), (box[0], box[3])]
        for m, size in zip(maps, (FIRST, SECOND, None), strict=True):
            polygon = moved(polygon, m)
            polygon = clip_convex(polygon, frame(size)) if size else polygon
            if not polygon:
                break
        assert left == bool(polygon)
        cut += not left
        xs, ys = zip(*polygon, strict=True) if polygon else ((0.0,), (0.0,))
        assert max(abs(a - b) for a, b in zip(mine, (min(xs), min(ys), max(xs), max(ys)), strict=True)) < 1e-9
    assert 0 < cut < 200


def test_boxes_inside_every_canvas_come_as_through_one_map():
    boxes = torch.tensor([[[3.0, 3.0, 5.0, 6.0]]], dtype=torch.float64)
    maps = [turned(20.0, 1.0, 1.0), turned(-30.0, 0.5, 3.0)]
    found, there = across(boxes, [(m[None], (30, 30)) for m in maps], "xyxy")
    assert bool(there.all())
    assert (found - transform_boxes(boxes, (maps[1] @ maps[0])[None])).abs().max() < 1e-12


def test_rotated_boxes_shrink_to_what_is_left():
    boxes = torch.tensor([[[2.0, 2.0, 6.0, 3.0, 0.4], [-20.0, 2.0, 3.0, 3.0, 0.1]]], dtype=torch.float64)
    step, back = turned(0.0, -3.0, 0.0), turned(0.0, 3.0, 0.0)
    found, there = across(boxes, [(step[None], FIRST), (back[None], FIRST)], "cxcywhr")
    wanted = transform_boxes(clip_boxes(transform_boxes(boxes, step[None], "cxcywhr"), FIRST, "cxcywhr"), back[None], "cxcywhr")
    assert there.tolist() == [[True, False]]
    assert torch.equal(found[:, :1], wanted[:, :1])


def test_gradients_are_those_of_finite_differences():
    boxes = torch.tensor([[[1.0, 1.0, 9.0, 7.0], [-2.0, 2.0, 5.0, 11.0]]], dtype=torch.float64, requires_grad=True)
    maps = [turned(25.0, 1.0, 2.0)[None].requires_grad_(), turned(-40.0, 0.5, 3.0)[None].requires_grad_()]
    assert torch.autograd.gradcheck(
        lambda b, *m: across(b, list(zip(m, (FIRST, SECOND), strict=True)), "xyxy")[0], (boxes, *maps), eps=1e-7, atol=1e-5
    )
