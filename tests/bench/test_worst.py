"""The study of worst draws runs, and counts what it evaluates."""

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
    rows = {row["search"]: row for row in json.loads((tmp_path / "worst-case.json").read_text())["rows"]}
    assert rows["random, 60"]["evaluations"] == 60
    assert rows["gradient, 28 + 3 x 9"]["evaluations"] == 55
    assert all(0 <= row["accuracy"] <= 1 for row in rows.values())
    assert (tmp_path / "img" / "worst-case.png").stat().st_size > 1000
