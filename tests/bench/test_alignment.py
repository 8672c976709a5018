"""What ``pellucid bench reach`` and ``register`` measure, on a few pictures."""

import pytest

pytest.importorskip("skimage")

from pellucid_bench import reach, register

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_scales_that_shrink_reach_further(monkeypatch):
    kept = dict(list(reach.pictures(160).items())[:4])
    monkeypatch.setattr(reach, "pictures", lambda *_: kept)
    monkeypatch.setattr(reach, "DISTANCES", (8.0,))
    names = ["pellucid, s = 0", "pellucid, anneal(8)"]
    rows = reach.measure_reach(only=names)
    assert [row["subject"] for row in rows] == names
    assert rows[1]["found"][0] > rows[0]["found"][0]
    assert len(reach.reach_table(rows).splitlines()) == 4


def test_known_maps_are_found(monkeypatch):
    kept = {side: dict(list(reach.pictures(side).items())[:3]) for side in (96, 220, 680)}
    monkeypatch.setattr(register, "pictures", kept.get)
    monkeypatch.setattr(register, "SHIFTS", (5.0,))
    monkeypatch.setattr(register, "_BENT", 64)
    monkeypatch.delenv("PELLUCID_DATA", raising=False)
    rows = [row for row in register.measure_register() if row["subject"] == "pellucid align"]
    assert [row["pairs"] for row in rows] == [3, 3, 3, 2, 1]  # the last two are photographs and slices, deformed
    assert all(row["within"] == 1 and row["median"] < 0.05 for row in rows[:3])
    assert "pellucid align 5 px" in register.register_table(rows)
