"""Scaling, flipping and refining boxes: closed forms."""

import pytest
import torch

from pellucid.boxes import convert_boxes, transform_boxes
from pellucid.detection import flip_boxes, normalize_boxes, refine_boxes, scale_boxes
from pellucid.errors import InvalidArgument
from tests.refusals import refused

from .test_overlap import random_boxes, rotated

SIZE = (13, 17)


def test_scaling_uses_each_images_own_height_and_width():
    boxes = torch.rand(3, 5, 4)
    sizes = torch.tensor([[480, 640], [100, 50], [7, 9]])
    got = scale_boxes(boxes, sizes)
    for i, (height, width) in enumerate(sizes.tolist()):
        assert torch.equal(got[i, :, 0::2], boxes[i, :, 0::2] * width)
        assert torch.equal(got[i, :, 1::2], boxes[i, :, 1::2] * height)
    assert torch.allclose(normalize_boxes(got, sizes), boxes)
    assert scale_boxes(boxes.half(), sizes).dtype == torch.float32


@pytest.mark.parametrize("form", ["xyxy", "xywh", "cxcywh", "cxcywhr"])
@pytest.mark.parametrize(("horizontal", "vertical"), [(True, False), (False, True), (True, True)])
def test_flips_equal_the_matrix_and_undo_themselves(form, horizontal, vertical):
    boxes = rotated(2, 6) if form == "cxcywhr" else convert_boxes(random_boxes(2, 6), "xyxy", form)
    height, width = SIZE
    matrix = torch.tensor(
        [
            [-1.0 if horizontal else 1.0, 0.0, (width - 1.0) * horizontal],
            [0.0, -1.0 if vertical else 1.0, (height - 1.0) * vertical],
            [0, 0, 1],
        ],
        dtype=torch.float64,
    )
    got = flip_boxes(boxes, SIZE, form, horizontal=horizontal, vertical=vertical)
    want = transform_boxes(boxes, matrix.expand(2, 3, 3), form)
    difference = got - want
    if form == "cxcywhr":  # a rectangle is itself after half a turn
        difference = torch.cat([difference[..., :4], difference[..., 4:].sin()], -1)
    assert difference.abs().max() < 1e-12
    again = flip_boxes(got, SIZE, form, horizontal=horizontal, vertical=vertical)
    assert torch.allclose(again, boxes, rtol=0, atol=1e-13)


def test_refining_moves_in_logit_space():
    reference, delta = torch.rand(7, 4, dtype=torch.float64), torch.randn(7, 4, dtype=torch.float64)
    assert torch.allclose(refine_boxes(reference, delta), torch.sigmoid(torch.logit(reference) + delta), rtol=0, atol=1e-14)
    edge = torch.tensor([0.0, 1.0, -0.5, 1.5], dtype=torch.float16, requires_grad=True)
    out = refine_boxes(edge, torch.zeros(4, dtype=torch.float16))
    out.sum().backward()
    assert out.isfinite().all()
    assert edge.grad.tolist() == [0.0] * 4


def test_errors_say_what_to_do():
    refused(InvalidArgument, r"sizes: expected \(height, width\) per image", scale_boxes, torch.zeros(2, 3, 4), torch.zeros(3, 2))
    refused(InvalidArgument, "delta: expected the shape of reference", refine_boxes, torch.zeros(2, 4), torch.zeros(3, 4))
    refused(InvalidArgument, "horizontal=True, vertical=True or both, got neither", flip_boxes, torch.zeros(2, 4), SIZE)
    refused(InvalidArgument, r"size: expected \(height, width\)", flip_boxes, torch.zeros(2, 4), 13, horizontal=True)
