"""What ``pellucid bench volumes`` measures of nnU-Net's operations, on a small volume."""

import pytest

from pellucid_bench import recipes


@pytest.mark.slow
def test_operations_are_timed_with_labels(monkeypatch):
    monkeypatch.setattr(recipes, "_MAKERS", {"pellucid": recipes._pellucid})
    rows = recipes.measure_recipe(size=16, budget=0.001)
    ours = {row["case"]: row for row in rows if row["status"] == "ok"}
    assert set(ours) == {
        *(recipes.TURN, recipes.SHARES, recipes.BENT, recipes.WINDOW, recipes.MIRROR, recipes.RECIPE, recipes.PUBLISHED),
        *recipes.OFTEN,
    }
    assert all(row["median_ms"] > 0 for row in ours.values())
    assert {row["case"] for row in rows if row["status"] == "memory"} <= {recipes.BENT, recipes.RECIPE}
    assert recipes.recipe_table(rows).splitlines()[0].startswith("| ms a sample | pellucid |")


def test_each_call_of_ours_does_its_work():
    volume, labels = recipes.volume_and_labels(16)
    calls = recipes._pellucid(volume, labels)
    for name, call in calls.items():
        out = call()
        side = 8 if name == recipes.WINDOW else 16
        assert out["volume"].shape == (1, 1, side, side, side)
        assert name == recipes.PUBLISHED or side == 8 or not (out["volume"][0] == volume).all(), name
        moves = name in {recipes.TURN, recipes.SHARES, recipes.BENT, recipes.MIRROR, recipes.RECIPE}
        assert name in {recipes.PUBLISHED, recipes.WINDOW} or moves != (out["labelmap"][0] == labels).all(), name
