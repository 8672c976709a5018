"""What ``pellucid bench policies`` measures, on a few small pictures."""

import pytest

from pellucid_bench import policies
from tests.peers import torchvision_functional


@pytest.mark.slow
def test_every_policy_is_timed_beside_torchvisions(monkeypatch):
    torchvision_functional()
    monkeypatch.setattr(policies, "OURS", {"TrivialAugmentWide": policies.OURS["TrivialAugmentWide"]})
    rows = policies.measure_policies(batch=2, size=24, budget=0.01)
    assert [(row["subject"], row["status"]) for row in rows] == [("pellucid", "ok"), ("torchvision", "ok")]
    assert all(row["median_ms"] > 0 for row in rows)
    assert policies.policies_table(rows).count("\n") == 2
