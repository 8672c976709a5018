"""The studies of worst draws, views and cameras run, and count what they evaluate."""

import json

import pytest
from typer.testing import CliRunner


@pytest.mark.slow
def test_the_study_runs(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    from pellucid.cli import app

    monkeypatch.setenv("PELLUCID_DATA", str(tmp_path))  # no data set there: digits
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["study", "worst", "--quick", "--seeds", "1", "--write", str(tmp_path)])
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "worst-case.json").read_text())
    rows = {row["arm"]: row for row in written["rows"]}
    tuned = [row for row in rows.values() if "grid" in row]
    assert len(tuned) == 5
    assert all(0 <= row["grid"] <= 1 for row in tuned)
    assert {arm for arm, row in rows.items() if "success" in row} == {"without draws", "8 draws a step"}
    assert rows["random, 60"]["evaluations"] == 60
    assert rows["gradient, 28 + 3 x 9"]["evaluations"] == 55
    assert all(0 <= row["accuracy"] <= 1 for row in rows.values() if "accuracy" in row)
    assert (tmp_path / "img" / "worst-case.png").stat().st_size > 1000


@pytest.mark.slow
def test_the_study_of_views_runs_every_example(tmp_path):
    pytest.importorskip("sklearn")
    from pellucid.cli import app

    result = CliRunner().invoke(app, ["study", "views", "--quick", "--seeds", "1", "--write", str(tmp_path)])
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "views.json").read_text())["rows"]
    assert {row["example"] for row in rows} == {"simclr", "dino", "fixmatch", "dense", "segment_tta"}
    assert all(0 <= row[name] <= 1 for row in rows for name in ("without", "with"))
    assert "| IoU, one view and four merged |" in result.output


@pytest.mark.slow
def test_the_study_of_cameras_runs(tmp_path):
    from pellucid.cli import app

    result = CliRunner().invoke(app, ["study", "camera", "--quick", "--seeds", "1", "--write", str(tmp_path)])
    assert result.exit_code == 0, result.output
    rows = [row for row in json.loads((tmp_path / "camera.json").read_text())["rows"] if row["method"] == "fit_camera"]
    assert len(rows) == 4
    assert all(row["rms"] < 0.1 for row in rows)
