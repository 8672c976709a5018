"""The study of watermarks runs, goes on where it was stopped, and its rows are what the page says."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from pellucid_bench.runs import example, run_all
from pellucid_bench.watermark import as_markdown

DOCS = Path(__file__).parents[2] / "docs"


def test_a_study_goes_on_where_it_was_stopped(tmp_path):
    path, ran = tmp_path / "rows.json", []

    def run(arm, seed):
        if (arm, seed) == ("b", 1) and len(ran) == 3:
            raise KeyboardInterrupt
        ran.append((arm, seed))
        return {"value": seed + 0.5}

    def study(about):
        return run_all(run, ("a", "b"), 2, about=about, path=path, say=str)

    with pytest.raises(KeyboardInterrupt):
        study({"steps": 1})
    assert len(json.loads(path.read_text())["rows"]) == 3
    ran.append("again")
    rows = study({"steps": 1})
    assert ran == [("a", 0), ("b", 0), ("a", 1), "again", ("b", 1)]
    assert [(row["arm"], row["seed"], row["value"]) for row in rows] == [("a", 0, 0.5), ("b", 0, 0.5), ("a", 1, 1.5), ("b", 1, 1.5)]
    study({"steps": 2})
    assert len(ran) == 9  # other settings: all of them
    assert len(json.loads((tmp_path / "rows-before.json").read_text())["rows"]) == 4  # and nothing is lost


def test_the_search_finds_where_the_decoder_is_surest():
    pytest.importorskip("skimage")
    made, seen = example("watermark"), torch.zeros(2, 3, 64, 64)
    seen[0, :, 27:29, 27:29] = seen[1, :, 31:33, 31:33] = 1.0  # the first where a crop's centre may lie

    def middle(images):
        return 4 * images[:, 0, 31:33, 31:33].mean((1, 2))[:, None].expand(-1, made.BITS)

    found = made.search(middle, seen + 0.5)
    assert made.decode(middle, seen + 0.5)[0].max() < 0.1
    assert found.min() > 2.5


def test_several_runs_at_a_time_give_the_same_rows(tmp_path):
    path, offset = tmp_path / "rows.json", 0.5
    rows = run_all(lambda arm, seed: {"value": seed + offset}, ("a", "b"), 3, about={}, path=path, say=str, jobs=2)
    alone = run_all(lambda arm, seed: {"value": seed + offset}, ("a", "b"), 3, about={}, path=None, say=str)
    assert [(row["arm"], row["seed"], row["value"]) for row in rows] == [(row["arm"], row["seed"], row["value"]) for row in alone]
    assert json.loads(path.read_text())["rows"] == rows


def test_the_page_has_the_table_of_its_file():
    rows = json.loads((DOCS / "watermark.json").read_text())["rows"]
    assert as_markdown(rows) in (DOCS / "watermark.md").read_text()


@pytest.mark.slow
def test_the_study_runs(tmp_path):
    pytest.importorskip("skimage")
    from pellucid.cli import app

    result = CliRunner().invoke(
        app, ["study", "watermark", "--quick", "--seeds", "1", "--arms", "nothing,proximity", "--write", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    rows = {row["arm"]: row for row in json.loads((tmp_path / "watermark.json").read_text())["rows"]}
    assert set(rows) == {"nothing", "proximity"}
    assert all(33.9 < row["PSNR"] < 36 and 0 <= row["JPEG 50"] <= 1 for row in rows.values())
    assert (tmp_path / "img" / "watermark.png").stat().st_size > 1000
    wrong = CliRunner().invoke(app, ["study", "watermark", "--arms", "both"])
    assert wrong.exit_code != 0
