"""What ``pellucid bench reach`` and ``register`` measure, on a few pictures."""

import json
from functools import partial

import pytest
import torch

pytest.importorskip("skimage")

from pellucid_bench import reach, register

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.slow
def test_scales_that_shrink_reach_further(monkeypatch):
    kept = dict(list(reach.pictures(160).items())[:4])
    monkeypatch.setattr(reach, "pictures", lambda **_: kept)
    monkeypatch.setattr(reach, "DISTANCES", (8.0,))
    names = ["pellucid, s = 0", "pellucid, anneal(8)"]
    rows = reach.measure_reach(only=names)
    assert [row["subject"] for row in rows] == names
    assert rows[1]["found"][0] > rows[0]["found"][0]
    assert len(reach.reach_table(rows).splitlines()) == 4


@pytest.fixture
def few(monkeypatch):
    kept = {side: dict(list(reach.pictures(side).items())[:3]) for side in (96, 220, 340, 680)}
    monkeypatch.setattr(register, "_pictures", kept.get)
    monkeypatch.setattr(register, "SHIFTS", (5.0,))
    monkeypatch.setattr(register, "_BENT", 64)
    whole = register._volumes()["smooth noise"][:25]
    monkeypatch.setattr(register, "_volumes", lambda: {"smooth noise": whole})
    monkeypatch.setattr(register, "_PAIRS", 1)
    monkeypatch.delenv("PELLUCID_DATA", raising=False)


@pytest.mark.slow
def test_known_maps_are_found(few, monkeypatch):
    real = register.methods
    monkeypatch.setattr(register, "methods", lambda model: {register.OURS: real(model)[register.OURS]})
    rows = register.measure_register()
    assert [len(row["pairs"]) for row in rows] == [3] * 9 + [3, 1, 2] + [1, 1]  # volume, slices and photographs, bent; volumes
    assert all(max(row["errors"]) < 0.05 for row in rows[:3] + rows[-2:])
    table = register.register_table(rows)
    assert "2 of" not in table
    assert "* Asked, turns to 10, scales to 1.1, shifts to 8 px: 95 % within a pixel, median 0.02 px: 100 %" in table


def test_a_stopped_run_goes_on_where_it_was(few, monkeypatch, tmp_path):
    calls = []

    def method(name, *given):
        calls.append(name)
        if calls.count("slow peer") == 2 and len(calls) < 40:
            raise KeyboardInterrupt
        return None if name == "slow peer" else torch.eye(3)

    monkeypatch.setattr(register, "methods", lambda _: {name: partial(method, name) for name in (register.OURS, "slow peer")})
    path = tmp_path / "new" / "register.json"
    options = {"only": ["turns", "corners"], "slow": 2, "path": path}
    assert not register.measure_register(**options, subjects=["nobody"])
    with pytest.raises(KeyboardInterrupt):
        register.measure_register(**options)
    before = json.loads(path.read_text())["rows"]
    assert [row["subject"] for row in before] == [register.OURS] * 5
    calls += ["begun again"] * 40
    rows = register.measure_register(**options)
    assert calls[-1] == "slow peer"
    assert register.OURS not in calls[calls.index("begun again") :]
    assert [row for row in rows if row["subject"] == register.OURS] == before
    theirs = [(len(row["pairs"]), row["of"], row["errors"][0]) for row in rows if row["subject"] != register.OURS]
    assert theirs == [(3, 3, None)] * 4 + [(2, 3, None)]
    table = register.register_table(rows)
    assert "| slow peer | 2 of 3; `align` on them: 0 %" in table
    assert "**missed**" in table
    other = register.measure_register(**{**options, "slow": 1, "only": ["corners"]})  # other settings: measured anew
    assert len(other) == 2
    monkeypatch.setattr(register, "PARTS", ("corners",))
    assert register.measure_register(**{**options, "slow": 3, "only": ()}, subjects=["slow"])[0]["subject"] == "slow peer"
    (ours, peer) = register.measure_register(**{**options, "slow": 3, "only": ()})
    assert [ours["subject"], peer["subject"]] == [register.OURS, "slow peer"]  # in the table's order, whoever came first
