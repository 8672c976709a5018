"""What ``pellucid bench mixing`` measures, on a few small pictures."""

import pytest

from pellucid_bench import mixing
from tests.peers import torchvision_functional


@pytest.mark.slow
def test_every_way_of_mixing_is_timed_beside_those_who_have_it(monkeypatch):
    torchvision_functional()
    monkeypatch.setattr(mixing, "OURS", {name: mixing.OURS[name] for name in ("CutMix", "GridShuffle")})
    rows = mixing.measure_mixing(batch=4, size=16, budget=0.01)
    found = {(row["case"], row["dtype"], row["subject"]): row for row in rows}
    assert len(found) == len(rows) == 2 * 2 * 4
    assert all(row["status"] == "ok" and row["median_ms"] > 0 for key, row in found.items() if key[2] == "pellucid")
    assert found["CutMix", "float32", "torchvision"]["status"] == "ok"
    assert found["GridShuffle", "float32", "torchvision"]["note"] == "has none"
    assert found["CutMix", "uint8", "albumentations"]["status"] == "missing"
    assert mixing.mixing_table(rows).count("\n") == 5
