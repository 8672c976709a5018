"""The default compiler, not only its front half: one graph, the same values and gradients."""

import pytest
import torch

from pellucid.boxes import clip_boxes, transform_boxes
from pellucid.detection import DetectionDecoder, generalized_box_iou, rotated_box_iou
from pellucid.losses import (
    hardest_triplet_loss,
    hausdorff_distance_loss,
    hausdorff_erosion_loss,
    hausdorff_level_loss,
    second_order_similarity_loss,
)

TARGET = torch.zeros(2, 1, 12, 13)
TARGET[..., 3:7, 4:9] = 1
CASES = {
    "erosion": (lambda q: hausdorff_erosion_loss(q, TARGET, iterations=2), lambda: torch.rand(2, 1, 12, 13)),
    "distance": (lambda q: hausdorff_distance_loss(q, TARGET), lambda: torch.rand(2, 1, 12, 13)),
    "level": (lambda q: hausdorff_level_loss(q, TARGET), lambda: torch.rand(2, 1, 12, 13)),
    "triplet": (lambda x: hardest_triplet_loss(x, x.flip(1)), lambda: torch.randn(8, 4)),
    "second order": (lambda x: second_order_similarity_loss(x, x.square(), neighbours=3), lambda: torch.randn(8, 4)),
    "giou": (lambda b: generalized_box_iou(b, b.flip(0)), lambda: torch.rand(5, 4) + torch.tensor([0.0, 0.0, 1.0, 1.0])),
    "rotated iou": (lambda b: rotated_box_iou(b, b.flip(0)), lambda: torch.rand(5, 5) + torch.tensor([0.0, 0.0, 1.0, 1.0, 0.0])),
    "transform": (lambda b: transform_boxes(b, torch.eye(3).flip(0).flip(1) + 0.1, "cxcywhr"), lambda: torch.rand(5, 5) + 1),
    "clip": (lambda b: clip_boxes(b * 4, (4, 3), "cxcywhr"), lambda: torch.rand(5, 5) + 0.1),
    "decoder": (
        lambda x: DetectionDecoder(4, threshold=0.4)(x, x[..., :4].sigmoid(), torch.tensor([[30, 40], [5, 6]])).boxes,
        lambda: torch.randn(2, 5, 6),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_inductor_agrees_with_eager(name):
    function, make = CASES[name]
    x = make().requires_grad_()
    want = function(x)
    got = torch.compile(function, fullgraph=True)(x)
    assert torch.allclose(got, want, rtol=1e-4, atol=1e-5)
    (expected,), (found,) = torch.autograd.grad(want.sum(), x), torch.autograd.grad(got.sum(), x)
    assert torch.allclose(found, expected, rtol=1e-3, atol=1e-4)
