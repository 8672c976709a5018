"""What ``pellucid bench tones`` measures, on a few small pictures."""

import pytest

from pellucid_bench import tones


@pytest.mark.slow
def test_every_curve_is_timed_in_every_mode(monkeypatch):
    monkeypatch.setattr(tones, "OURS", {name: tones.OURS[name] for name in ("brightness", "gamma", "flip")})
    rows = tones.measure_tones(batch=2, size=24, budget=0.01)
    assert {(row["subject"], row["mode"]) for row in rows} == {(name, mode) for name in tones.OURS for mode in tones.MODES}
    assert all(row["ns"] > 0 for row in rows)
    brightness = tones.tones_table(rows).splitlines()[2]
    assert brightness.startswith("| brightness |")
    assert brightness.count("(1.00)") == len(tones.MODES)  # the colour pass is what the others are compared with
