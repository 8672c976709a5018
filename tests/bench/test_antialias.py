"""The benchmark of antialiasing runs, and shows what it is there to show."""

from __future__ import annotations

import pytest

pytest.importorskip("skimage")
pytest.importorskip("scipy")


@pytest.mark.slow
def test_every_map_is_integrated_and_no_other_library_does():
    from pellucid_bench.antialias import MAPS, antialias_table, measure_antialias

    rows = measure_antialias(count=1, budget=0.01, batch=1)
    quality = {(row["subject"], row["case"]): row for row in rows if "mean_db" in row}
    for case in MAPS:
        assert quality["pellucid", case]["least_db"] > 45.0
        assert quality["pellucid", case]["slope_error"] < 0.3
        others = [row["mean_db"] for (name, at), row in quality.items() if at == case and "pellucid" not in name]
        assert max(others) < quality["pellucid", case]["least_db"] - 5.0
    table = antialias_table(rows)
    assert all(name in table for name, _ in quality)
