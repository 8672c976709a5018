"""Boxes follow the picture: bit for bit under flips, turns and shifts, corner by corner under homographies."""

import math

import numpy as np
import pytest
import torch

from pellucid.boxes import convert_boxes, transform_boxes
from pellucid.boxes.formats import corners
from pellucid.errors import InvalidArgument, InvalidType
from tests.refusals import refused

from .polygons import rotated_corners
from .test_formats import random_boxes

H, W = 12, 17
# Matrices on pixel centres: (x, y) of the source pixel -> (x, y) of the destination pixel, beside the numpy op they stand for.
EXACT = {
    "identity": ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], lambda a: a),
    "hflip": ([[-1, 0, W - 1], [0, 1, 0], [0, 0, 1]], np.fliplr),
    "vflip": ([[1, 0, 0], [0, -1, H - 1], [0, 0, 1]], np.flipud),
    "transpose": ([[0, 1, 0], [1, 0, 0], [0, 0, 1]], np.transpose),
    "turn 90 counter-clockwise": ([[0, 1, 0], [-1, 0, W - 1], [0, 0, 1]], lambda a: np.rot90(a, 1)),
    "turn 180": ([[-1, 0, W - 1], [0, -1, H - 1], [0, 0, 1]], lambda a: np.rot90(a, 2)),
    "turn 270": ([[0, -1, H - 1], [1, 0, 0], [0, 0, 1]], lambda a: np.rot90(a, 3)),
    "shift": ([[1, 0, 2], [0, 1, 1], [0, 0, 1]], lambda a: np.pad(a, ((1, 0), (2, 0)))),
}


def drawn(x1, y1, x2, y2):
    picture = np.zeros((H, W))
    picture[y1:y2, x1:x2] = 1
    return picture


def bounds(picture):
    ys, xs = np.nonzero(picture)
    return [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("name", EXACT)
def test_exact_maps_follow_the_pixels_of_a_drawn_box(name, dtype):
    matrix, op = EXACT[name]
    box = (3, 2, 9, 5)
    want = torch.tensor([bounds(op(drawn(*box)))], dtype=dtype)
    matrix = torch.tensor(matrix, dtype=dtype)
    for form in ("xyxy", "xywh", "cxcywh"):
        boxes = convert_boxes(torch.tensor([box], dtype=dtype), "xyxy", form)
        got = transform_boxes(boxes, matrix, form)
        assert got.dtype == dtype
        assert torch.equal(convert_boxes(got, form, "xyxy"), want)
    turned = transform_boxes(convert_boxes(torch.tensor([box], dtype=dtype), "xyxy", "cxcywhr"), matrix, "cxcywhr")
    assert torch.allclose(convert_boxes(turned, "cxcywhr", "xyxy"), want, rtol=0, atol=1e-2 if dtype == torch.float16 else 1e-5)


@pytest.mark.parametrize("form", ["xyxy", "cxcywhr"])
def test_fractional_boxes_are_exact_to_the_bit(form):
    boxes = random_boxes(3, 5, dtype=torch.float32)
    if form == "cxcywhr":
        boxes = torch.cat([convert_boxes(boxes, "xyxy", "cxcywh"), torch.randn(3, 5, 1) * 3], -1)
    eye, flip, shift = (torch.tensor(EXACT[n][0], dtype=torch.float32) for n in ("identity", "hflip", "shift"))
    assert torch.equal(transform_boxes(boxes, eye, form), boxes)
    flipped, shifted = transform_boxes(boxes, flip, form), transform_boxes(boxes, shift, form)
    if form == "xyxy":
        assert torch.equal(flipped, torch.stack([W - boxes[..., 2], boxes[..., 1], W - boxes[..., 0], boxes[..., 3]], -1))
        assert torch.equal(shifted, boxes + torch.tensor([2.0, 1.0, 2.0, 1.0]))
    else:
        assert torch.equal(flipped, torch.stack([W - boxes[..., 0], *boxes[..., 1:4].unbind(-1), -boxes[..., 4]], -1))
        assert torch.equal(shifted, boxes + torch.tensor([2.0, 1.0, 0.0, 0.0, 0.0]))


def homographies(n):
    jitter = torch.randn(n, 3, 3, dtype=torch.float64) * torch.tensor([[0.2, 0.2, 4.0], [0.2, 0.2, 4.0], [0.005, 0.005, 0.0]])
    return torch.eye(3, dtype=torch.float64) + jitter


@pytest.mark.parametrize("form", ["xyxy", "xywh", "cxcywh"])
@pytest.mark.parametrize("scale", [1.0, -2.5])
def test_homography_maps_corner_by_corner(form, scale):
    boxes, matrices = random_boxes(4, 3), homographies(4)
    got = convert_boxes(transform_boxes(convert_boxes(boxes, "xyxy", form), matrices * scale, form), form, "xyxy")
    for b in range(4):
        for n in range(3):
            x1, y1, x2, y2 = boxes[b, n].tolist()
            mapped = []
            for x, y in ((x1, y1), (x2, y1), (x2, y2), (x1, y2)):
                u, v, w = (matrices[b].numpy() @ np.array([x - 0.5, y - 0.5, 1.0])).tolist()
                mapped.append((u / w + 0.5, v / w + 0.5))
            xs, ys = zip(*mapped, strict=True)
            assert got[b, n].tolist() == pytest.approx([min(xs), min(ys), max(xs), max(ys)], abs=1e-11)


@pytest.mark.parametrize("mirror", [1, -1])
@pytest.mark.parametrize("degrees", [0, 17, 90, 135, 180, -100])
def test_rotated_boxes_are_exact_under_similarities(degrees, mirror):
    t, s = math.radians(degrees), 1.7
    matrix = np.array(
        [[s * math.cos(t) * mirror, s * math.sin(t), 3.0], [-s * math.sin(t) * mirror, s * math.cos(t), -2.0], [0, 0, 1]]
    )
    box = [6.0, 4.0, 5.0, 2.0, 0.4]
    got = transform_boxes(torch.tensor([box], dtype=torch.float64), torch.from_numpy(matrix), "cxcywhr")[0].tolist()
    want = sorted(tuple((matrix @ [x - 0.5, y - 0.5, 1.0])[:2] + 0.5) for x, y in rotated_corners(*box))
    for (gx, gy), (wx, wy) in zip(sorted(rotated_corners(*got)), want, strict=True):
        assert (gx, gy) == pytest.approx((wx, wy), abs=1e-12)
    if mirror == 1:
        assert math.sin(got[4] - 0.4 - t) == pytest.approx(0, abs=1e-12)
        assert math.cos(got[4] - 0.4 - t) == pytest.approx(1)  # headings turn with the picture
    else:
        assert abs(got[4] + 0.4) <= math.pi / 2 + 1e-12 or abs(t) > math.pi / 2  # the nearer of the two equal rectangles


def test_upright_rotated_boxes_stay_upright_under_mirrors():
    boxes = torch.tensor([[6.0, 4.0, 5.0, 2.0, 0.0]])
    for name in ("hflip", "vflip"):
        assert transform_boxes(boxes, torch.tensor(EXACT[name][0], dtype=torch.float32), "cxcywhr")[0, 4] == 0


def test_inverse_matrix_brings_rotated_boxes_back():
    boxes = torch.cat([convert_boxes(random_boxes(2, 4), "xyxy", "cxcywh"), torch.randn(2, 4, 1, dtype=torch.float64)], -1)
    turn = torch.tensor([[0.8, 0.6, 1.0], [-0.6, 0.8, 2.0], [0.0, 0.0, 1.0]], dtype=torch.float64).expand(2, 3, 3)
    back = transform_boxes(transform_boxes(boxes, turn, "cxcywhr"), torch.linalg.inv(turn), "cxcywhr")
    assert (back - boxes).abs().max() < 1e-12


BAD = {
    "singular": [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
    "zero": [[0.0] * 3] * 3,
    "horizon": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.2, 0.0, -1.0]],
    "nan": [[math.nan] * 3] * 3,
    "inf": [[math.inf, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
}


@pytest.mark.parametrize("form", ["xyxy", "cxcywhr"])
@pytest.mark.parametrize("name", BAD)
def test_degenerate_matrices_give_nan_and_leave_the_neighbours_alone(name, form):
    boxes = torch.tensor([[[2.0, 1.0, 8.0, 4.0]], [[2.0, 1.0, 8.0, 4.0]]], requires_grad=True)
    matrices = torch.stack([torch.tensor(BAD[name]), torch.eye(3)]).requires_grad_()
    out = transform_boxes(convert_boxes(boxes, "xyxy", form), matrices, form)
    if not (name == "singular" and form == "xyxy"):  # a squashed hull is still a hull
        assert out[0].isnan().all()
    assert out[1].isfinite().all()
    out[1].sum().backward()
    assert boxes.grad[1].isfinite().all()
    assert (boxes.grad[0] == 0).all()
    assert matrices.grad[1].isfinite().all()
    assert (matrices.grad[0] == 0).all()


def test_a_nan_box_stays_alone():
    boxes = torch.tensor([[math.nan, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, math.inf, 1.0]])
    out = transform_boxes(boxes, torch.eye(3))
    assert out.isnan().all(-1).tolist() == [True, False, True]


@pytest.mark.parametrize("form", ["xyxy", "cxcywhr"])
def test_of_no_boxes_there_are_none(form):
    none = torch.zeros(2, 0, 5 if form == "cxcywhr" else 4)
    assert transform_boxes(none, homographies(2).float(), form).shape == none.shape


def test_corners_start_at_the_top_left_and_run_clockwise():
    quad = corners(torch.tensor([1.0, 2.0, 5.0, 4.0]), "xyxy")
    assert quad.tolist() == [[1.0, 2.0], [5.0, 2.0], [5.0, 4.0], [1.0, 4.0]]


def test_errors_say_what_to_do():
    with pytest.raises(InvalidArgument, match=r"\(B, 3, 3\) for boxes \(B, N, 4\)"):
        transform_boxes(torch.zeros(2, 3, 4), torch.eye(3).expand(3, 3, 3))
    refused(InvalidArgument, "dst_from_src", transform_boxes, torch.zeros(4), torch.eye(3))
    refused(InvalidType, "dst_from_src", transform_boxes, torch.zeros(1, 4), torch.eye(3, dtype=torch.int64))
