"""Polygons in a compiled graph: in rows of a fixed number, the same outlines."""

import pytest
import torch

import pellucid as P
from pellucid.functional import rasterize

QUAD = torch.tensor([[[[4.0, 5.0], [27.0, 3.0], [30.0, 26.0], [6.0, 29.0]]]])


@pytest.mark.parametrize("transform", [P.RandomAffine(30), P.RandomElastic(p=1.0)])
def test_a_graph_covers_the_same_pixels(transform):
    batch = {"image": torch.zeros(1, 3, 32, 32), "polygons": QUAD}
    augment, key = P.Pipeline([transform, P.CenterCrop(20)], seed=0), P.Key(1)
    expected = rasterize(augment(batch, key=key)["polygons"], (20, 20))
    found = torch.compile(lambda b: augment(b, key=key), fullgraph=True, backend="eager")(batch)["polygons"]
    assert (rasterize(found, (20, 20)) - expected).abs().max() < 0.02
    assert expected.sum() > 100
