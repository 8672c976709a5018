"""Every kind of target under every transform: replayed, in lists, and brought back."""

import torch

import pellucid as P
from pellucid.targets.kinds import KINDS
from tests.cases import size_of
from tests.contract.test_polygons import blobs
from tests.contract.test_targets import movers

DOUBLE = torch.float64


def sample_of_every_kind(count, size):
    """Something of each kind that goes with pictures, in the middle of the picture."""
    height, width = size
    middle = torch.tensor([width / 2, height / 2], dtype=DOUBLE)
    outlines = blobs(count, size, corners=6, reach=0.2)
    camera = torch.tensor([[50.0, 0, width / 2], [0, 50, height / 2], [0, 0, 1]], dtype=DOUBLE).expand(count, 3, 3)
    vectors = torch.rand(count, 3, *size, dtype=DOUBLE)
    return {
        "image": torch.rand(count, 3, *size, dtype=DOUBLE),
        "mask": (vectors[:, 0] > 0.5).long(),
        "boxes": torch.cat((middle - 2, middle + 2)).expand(count, 1, 4),
        "keypoints": middle + torch.rand(count, 3, 2, dtype=DOUBLE) - 1,
        "polygons": outlines,
        "polylines": outlines.clone(),
        "quads": outlines[..., :4, :],
        "heatmap": vectors[:, :2],
        "depth": vectors[:, :1],
        "flow": vectors[:, :2],
        "normals": vectors / vectors.square().sum(1, keepdim=True).sqrt(),
        "disparity": vectors[:, 0],
        "distance": vectors[:, 1],
        "pointmap": vectors,
        "rays": vectors,
        "uv": vectors[:, :2],
        "intrinsics": camera,
        "projection": torch.cat((camera, camera[..., :1]), -1),
        "extrinsics": torch.eye(4, dtype=DOUBLE).expand(count, 4, 4),
        "lens": torch.tensor([0.1, 0.0, 0.01, 0.02], dtype=DOUBLE).expand(count, 4),
        "fisheye": torch.rand(count, 4, dtype=DOUBLE),
        "boxes3d": torch.rand(count, 1, 7, dtype=DOUBLE),
        "labels": torch.arange(count),
        "keypoint_labels": torch.arange(count),
    }


def test_no_kind_is_left_out():
    flat = {name for name, kind in KINDS.items() if not kind.space}
    assert flat - {"residual"} == set(sample_of_every_kind(1, (8, 8)))


def _same(found, wanted, name, close=0.0):
    assert found.shape == wanted.shape, name
    assert found.dtype == wanted.dtype, name
    if found.is_floating_point():
        assert torch.allclose(found.nan_to_num(-7.0), wanted.nan_to_num(-7.0), rtol=close, atol=close), name
    else:
        assert torch.equal(found, wanted), name


@movers
def test_every_kind_replays_goes_in_lists_and_comes_back(case):
    size = size_of(case)
    batch, key = sample_of_every_kind(2, size), P.Key(1, 2, torch.tensor([5, 3]))
    augment = P.Pipeline([case.transform], cameras="residual", return_valid=True)
    out, record = augment(batch, key=key, return_record=True)
    assert set(batch) <= set(out)
    again = augment.apply(batch, record)
    for name, value in again.items():
        _same(value, out[name], name)
    if not augment.plan(P.types.ImageSpec(3, *size)).looking:
        listed = augment({name: list(value) for name, value in batch.items()}, key=key)
        for name, value in listed.items():
            for i in range(2):
                mine = out[name][i]
                theirs = value[i][: mine.shape[0], : mine.shape[1]] if KINDS.get(name) and KINDS[name].corners else value[i]
                mine = mine[:, : theirs.shape[1]] if KINDS.get(name) and KINDS[name].corners else mine
                _same(theirs, mine, name, 1e-9)
    back = augment.inverse({name: value for name, value in out.items() if not name.endswith("valid")}, record)
    for name, value in batch.items():
        kind = KINDS[name]
        if name in ("keypoints", "quads", "intrinsics", "projection", "extrinsics", "lens", "fisheye", "boxes3d", "labels"):
            _same(back[name], value, name, 1e-6)
        elif not kind.corners:
            assert back[name].shape == value.shape, name
            assert back[name].dtype == value.dtype, name
