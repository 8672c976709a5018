"""What belongs to a camera's scene, under every transform that moves: replayed, in lists, and brought back.

All other kinds are in ``test_every_way.py``. These go with few transforms unless a residual takes up what bends.
"""

import torch

import pellucid as P
from pellucid.targets.kinds import KINDS
from tests.cases import size_of
from tests.contract.test_targets import movers

DOUBLE = torch.float64


def scene(count, size):
    height, width = size
    camera = torch.tensor([[50.0, 0, width / 2], [0, 50, height / 2], [0, 0, 1]], dtype=DOUBLE)
    return {
        "image": torch.rand(count, 3, *size, dtype=DOUBLE),
        "intrinsics": camera.expand(count, 3, 3),
        "extrinsics": torch.eye(4, dtype=DOUBLE).expand(count, 4, 4),
        "lens": torch.tensor([0.1, 0.0, 0.01, 0.02], dtype=DOUBLE).expand(count, 4),
        "fisheye": torch.rand(count, 4, dtype=DOUBLE),
        "boxes3d": torch.rand(count, 1, 7, dtype=DOUBLE),
    }


def test_no_kind_is_left_out():
    scenes = {name for name, kind in KINDS.items() if not kind.space and not kind.interpolation and kind.scene is not None}
    assert scenes - set(scene(1, (8, 8))) <= {"residual"}


@movers
def test_scenes_replay_go_in_lists_and_come_back(case):
    batch, key = scene(2, size_of(case)), P.Key(1, 2, torch.tensor([5, 3]))
    augment = P.Pipeline([case.transform], cameras="residual")
    out, record = augment(batch, key=key, return_record=True)
    assert set(batch) <= set(out)
    again = augment.apply(batch, record)
    assert all(torch.equal(again[name], value) for name, value in out.items())
    if not augment.plan(P.types.ImageSpec(3, *size_of(case))).looking:
        listed = augment({name: list(value) for name, value in batch.items()}, key=key)
        for name, value in listed.items():
            assert all(torch.allclose(value[i], out[name][i], rtol=1e-9, atol=1e-9) for i in range(2)), name
    back = augment.inverse({name: value for name, value in out.items() if not name.endswith("valid")}, record)
    for name in batch.keys() - {"image"}:
        assert torch.allclose(back[name], batch[name], rtol=1e-6, atol=1e-6), name
