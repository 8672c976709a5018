"""Holes that hide boxes, and fills of masks, in compiled graphs."""

import torch

import pellucid as P
from pellucid import Key, Pipeline


def test_one_graph():
    shift = P.RandomTranslate(((0.25, 0.25), (0, 0)), mask_fill=9)
    hole = P.CoarseDropout((1, 5), height=(0.1, 0.6), width=(0.1, 0.6), p=0.8, mask_fill=7, hides=True)
    pipeline = Pipeline([shift, hole, P.RandomVerticalFlip()], mask_fill=3)
    batch = {
        "image": torch.rand(3, 3, 20, 24),
        "mask": torch.ones(3, 20, 24, dtype=torch.int64),
        "boxes": torch.tensor([[[2.0, 3.0, 9.0, 12.0], [1.0, 8.0, 18.0, 19.0]]]).repeat(3, 1, 1),
        "keypoints": torch.tensor([[[4.0, 5.0], [12.0, 9.0]]]).repeat(3, 1, 1),
    }
    torch.compiler.reset()
    found = torch.compile(pipeline, backend="eager", fullgraph=True)(batch, key=Key(seed=3))
    wanted = pipeline(batch, key=Key(seed=3))
    for key in ("mask", "boxes_valid", "keypoints_valid"):
        assert torch.equal(found[key], wanted[key]), key
    assert (found["boxes"] - wanted["boxes"]).abs().max() < 1e-3


def test_choices_are_one_graph():
    """Planning copies what it knows of a row of warps in a way that Dynamo traces."""
    pipeline = Pipeline([P.OneOf([[P.RandomInvert(p=1.0)], [P.RandomTranslate((0.25, 0.25))]])])
    images = torch.rand(3, 3, 12, 16)
    torch.compiler.reset()
    found = torch.compile(pipeline, backend="eager", fullgraph=True)(images, key=Key(seed=3))
    assert (found - pipeline(images, key=Key(seed=3))).abs().max() < 1e-5
