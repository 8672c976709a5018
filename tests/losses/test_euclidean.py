"""The distance transform is scipy's, batched, in two and three dimensions."""

import numpy as np
import pytest
import torch
from scipy import ndimage

from pellucid.errors import InvalidArgument, InvalidType
from pellucid.losses import distance_transform
from tests.refusals import refused


def oracle(mask, spatial_dims, spacing):
    flat = mask.reshape(-1, *mask.shape[mask.ndim - spatial_dims :]).numpy()
    return torch.from_numpy(np.stack([ndimage.distance_transform_edt(m, sampling=spacing) for m in flat])).reshape(mask.shape)


@pytest.mark.parametrize(
    ("shape", "spatial_dims", "spacing"),
    [
        ((3, 2, 17, 23), 2, None),
        ((2, 1, 1, 9), 2, None),
        ((2, 2, 9, 7, 8), 3, None),
        ((4, 12, 11), 2, (0.5, 2.0)),
        ((2, 6, 7, 8), 3, (3.0, 1.0, 0.7)),
        ((5, 31), 1, None),
    ],
)
@pytest.mark.parametrize("density", [0.1, 0.5, 0.97])
def test_equals_scipy(shape, spatial_dims, spacing, density):
    mask = torch.rand(shape) < density
    space = tuple(range(len(shape) - spatial_dims, len(shape)))
    mask &= (
        torch.arange(mask.numel()).reshape(shape) % int(np.prod([shape[i] for i in space]))
    ) != 3  # never without a False pixel
    got = distance_transform(mask, spatial_dims=spatial_dims, spacing=spacing, dtype=torch.float64)
    assert torch.allclose(got, oracle(mask, spatial_dims, spacing), rtol=0, atol=1e-12)
    assert (distance_transform(mask, spatial_dims=spatial_dims, spacing=spacing) - got).abs().max() < 1e-5


def test_blocks_larger_than_the_table_agree_with_small_ones(monkeypatch):
    mask = torch.rand(3, 20, 30) < 0.8
    whole = distance_transform(mask)
    monkeypatch.setattr("pellucid.losses.euclidean._CHUNK", 1)
    assert torch.equal(distance_transform(mask), whole)


def test_an_image_without_background_is_infinitely_far_and_alone():
    mask = torch.ones(2, 4, 5, dtype=torch.bool)
    mask[1, 0, 0] = False
    got = distance_transform(mask)
    assert got[0].isinf().all()
    assert got[1].isfinite().all()


def test_compile_vmap_and_empty_batch():
    mask = torch.rand(3, 8, 9) < 0.7
    want = distance_transform(mask)
    assert torch.equal(torch.compile(distance_transform, fullgraph=True, backend="aot_eager")(mask), want)
    assert torch.equal(torch.vmap(distance_transform)(mask), want)
    assert distance_transform(mask[:0]).shape == (0, 8, 9)


def test_errors_say_what_to_do():
    refused(InvalidType, "Compare first", distance_transform, torch.zeros(4, 4))
    refused(InvalidArgument, "spatial_dims", distance_transform, torch.zeros(4, dtype=torch.bool))
    with pytest.raises(InvalidArgument, match="spacing: expected 2 positive numbers"):
        distance_transform(torch.zeros(4, 4, dtype=torch.bool), spacing=(1.0, 0.0))
