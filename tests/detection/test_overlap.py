"""IoU, generalised IoU and rotated IoU against scalar loops and polygon clipping, and where they are easy to get wrong."""

import math

import pytest
import torch

from pellucid.boxes import convert_boxes, transform_boxes
from pellucid.detection import box_iou, generalized_box_iou, rotated_box_iou
from pellucid.errors import InvalidArgument, InvalidType
from tests.refusals import refused

LOSSES = {"iou": box_iou, "giou": generalized_box_iou}
each = pytest.mark.parametrize("name", LOSSES)


def random_boxes(*shape, dtype=torch.float64, spread=6.0):
    lead = torch.rand(*shape, 2, dtype=dtype) * spread
    return torch.cat([lead, lead + 0.5 + torch.rand(*shape, 2, dtype=dtype) * 5], -1)


def rotated(*shape, dtype=torch.float64, spread=6.0):
    upright = convert_boxes(random_boxes(*shape, dtype=dtype, spread=spread), "xyxy", "cxcywh")
    return torch.cat([upright, torch.randn(*shape, 1, dtype=dtype) * 2], -1)


def oracle(a, b):
    width = max(min(a[2], b[2]) - max(a[0], b[0]), 0)
    height = max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    inter = width * height
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter
    hull = (max(a[2], b[2]) - min(a[0], b[0])) * (max(a[3], b[3]) - min(a[1], b[1]))
    return {"iou": inter / union, "giou": inter / union - (hull - union) / hull}


@each
@pytest.mark.parametrize("form", ["xyxy", "xywh", "cxcywh"])
def test_equals_a_scalar_loop(name, form):
    a, b = random_boxes(2, 7), random_boxes(2, 5)
    first, second = convert_boxes(a, "xyxy", form), convert_boxes(b, "xyxy", form)
    got = LOSSES[name](first, second, form)
    want = [[[oracle(p, q)[name] for q in b[i].tolist()] for p in a[i].tolist()] for i in range(2)]
    assert torch.allclose(got, torch.tensor(want, dtype=torch.float64), rtol=0, atol=1e-13)
    rows = LOSSES[name](first[:, :5], second, form, pairwise=False)
    assert torch.allclose(rows, got[:, :5].diagonal(dim1=1, dim2=2), rtol=0, atol=1e-15)


def shapely_free_iou(p, q):
    """Rotated IoU by clipping one polygon with the other."""

    def corners(cx, cy, w, h, r):
        local = [(-w / 2, -h / 2), (w / 2, -h / 2), (w / 2, h / 2), (-w / 2, h / 2)]
        return [(cx + math.cos(r) * x + math.sin(r) * y, cy - math.sin(r) * x + math.cos(r) * y) for x, y in local]

    polygon, window = corners(*p), corners(*q)
    for (ax, ay), (bx, by) in zip(window, window[1:] + window[:1], strict=True):
        side = [(bx - ax) * (y - ay) - (by - ay) * (x - ax) for x, y in polygon]
        kept = []
        for i, (x, y) in enumerate(polygon):
            j = (i + 1) % len(polygon)
            if side[i] >= 0:
                kept.append((x, y))
            if side[i] * side[j] < 0:
                t = side[i] / (side[i] - side[j])
                kept.append((x + t * (polygon[j][0] - x), y + t * (polygon[j][1] - y)))
        polygon = kept
    area = abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in zip(polygon, polygon[1:] + polygon[:1], strict=True))) / 2
    return area / (p[2] * p[3] + q[2] * q[3] - area)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 3e-6)])
def test_rotated_equals_polygon_clipping(dtype, tolerance):
    a, b = rotated(40, dtype=dtype), rotated(40, dtype=dtype)
    got = rotated_box_iou(a, b)
    want = torch.tensor([[shapely_free_iou(p, q) for q in b.tolist()] for p in a.tolist()], dtype=dtype)
    assert (want > 0.1).sum() > 100
    assert (got - want).abs().max() < tolerance
    assert torch.equal(rotated_box_iou(a, b, pairwise=False), got.diagonal())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("where", [0.0, 1000.0])
def test_rotated_boxes_that_share_edges_lose_no_area(dtype, where):
    # Slide a box along its own axis: two edges stay on common lines, where rounding decides on which side a corner lies.
    angle = torch.linspace(-4, 4, 161, dtype=dtype)
    base = torch.stack([torch.full_like(angle, where)] * 2 + [torch.full_like(angle, 4.0), torch.full_like(angle, 2.0), angle], -1)
    for step, want in ((0.0, 1.0), (1.0, 3 / 5), (2.0, 2 / 6), (3.9, 0.1 / 7.9)):
        moved = base + torch.stack([step * angle.cos(), -step * angle.sin(), *[0 * angle] * 3], -1)
        assert (rotated_box_iou(base, moved, pairwise=False) - want).abs().max() < (1e-4 if dtype == torch.float32 else 1e-11)


def test_rotated_agrees_with_upright_and_ignores_common_motion():
    a, b = random_boxes(6), random_boxes(6)
    p, q = convert_boxes(a, "xyxy", "cxcywhr"), convert_boxes(b, "xyxy", "cxcywhr")
    want = box_iou(a, b)
    assert torch.allclose(rotated_box_iou(p, q), want, atol=1e-12)
    motion = torch.tensor([[1.5, 1.0, 3.0], [-1.0, 1.5, -2.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    turned = (transform_boxes(v, motion, "cxcywhr") for v in (p, q))
    assert torch.allclose(rotated_box_iou(*turned), want, atol=1e-12)


def test_giou_pulls_boxes_that_do_not_meet():
    a = torch.tensor([[0.0, 0.0, 1.0, 1.0]], requires_grad=True)
    b = torch.tensor([[3.0, 0.0, 4.0, 1.0]])
    (pull,) = torch.autograd.grad(generalized_box_iou(a, b).sum(), a)
    (none,) = torch.autograd.grad(box_iou(a, b).sum(), a)
    assert pull[0, 2] > 0  # the right edge wants to move right
    assert (none == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("box", [[0.0] * 4, [5.0, 5.0, 1.0, 1.0], [0.0, 0.0, 0.0, 9.0], [-6e4, -6e4, 6e4, 6e4]])
def test_degenerate_boxes_are_finite(dtype, box):
    a = torch.tensor([box, [0.0, 0.0, 2.0, 2.0]], dtype=dtype, requires_grad=True)
    turned = torch.cat([a.detach(), torch.tensor([[0.5], [0.0]], dtype=dtype)], -1).requires_grad_()
    for function, x in ((box_iou, a), (generalized_box_iou, a), (rotated_box_iou, turned)):
        value = function(x, x.detach())
        (gradient,) = torch.autograd.grad(value.sum(), x)
        assert value.dtype == torch.float32
        assert value.isfinite().all()
        assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("form", ["xywh", "cxcywh"])
def test_half_precision_is_widened_before_formats_are_converted(form, dtype):
    a = torch.tensor([[2001.0, 1001.0, 3.0, 3.0], [300.5, 7.0, 6.0, 2.5]]).to(dtype)
    b = torch.tensor([[2003.0, 1001.0, 3.0, 3.0], [303.5, 7.0, 6.0, 2.5]]).to(dtype)
    for function in (box_iou, generalized_box_iou):
        assert (function(a, b, form) - function(a.double(), b.double(), form)).abs().max() < 1e-4


@pytest.mark.parametrize("angle", [0.0, 0.3, math.pi / 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_boxes_without_width_overlap_with_nothing(angle, dtype):
    thin = [
        [5.0, 5.0, 0.0, 0.0],
        [5.0, 5.0, 0.0, 4.0],
        [-300.0, -300.0, 0.0, 0.0],
        [-300.0, 5.0, 1e-7, 900.0],
        [5.0, 5.0, -3.0, -2.0],
    ]
    boxes = torch.tensor([[*box, angle] for box in thin], dtype=dtype)
    whole = torch.tensor([[5.0, 5.0, 8.0, 6.0, 0.2], [0.0, 0.0, 2000.0, 2000.0, 1.0]], dtype=dtype)
    assert rotated_box_iou(boxes, whole).abs().max() < 1e-6
    assert rotated_box_iou(boxes[[0, 1, 2, 4]], boxes).abs().max() == 0
    nearly = boxes[3:4] + torch.tensor([2e-4, 0, 0, 0, 0], dtype=dtype)  # apart by less than the corners' rounding
    assert 0 <= float(rotated_box_iou(boxes[3:4], nearly)) <= 1


@pytest.mark.parametrize("function", [box_iou, generalized_box_iou, rotated_box_iou])
def test_nothing_overlaps_with_nothing(function):
    a, b = ((rotated if function is rotated_box_iou else random_boxes)(2, count) for count in (3, 4))
    assert function(a[:, :0], b).shape == (2, 0, 4)
    assert function(a, b[:, :0]).shape == (2, 3, 0)


def test_errors_say_what_to_do():
    refused(InvalidArgument, "rotated_box_iou", box_iou, torch.zeros(1, 5), torch.zeros(1, 5), "cxcywhr")
    refused(InvalidArgument, "second: expected boxes of the same batch", box_iou, torch.zeros(2, 1, 4), torch.zeros(3, 1, 4))
    refused(InvalidArgument, "second", rotated_box_iou, torch.zeros(2, 5), torch.zeros(3, 5), pairwise=False)
    refused(InvalidType, "floating-point", box_iou, torch.zeros(2, 4).long(), torch.zeros(2, 4))
