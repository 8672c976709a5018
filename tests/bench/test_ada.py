"""The study of adaptive augmentation runs, and its rows are what the page says."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from pellucid.learn.data import Pictures, Task
from pellucid_bench.ada import ARMS, _distance, as_markdown, run

DOCS = Path(__file__).parents[2] / "docs"


def pictures(count=80):
    x = torch.randint(0, 256, (count, 1, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    y = torch.arange(count) % 2
    return Pictures("noise", x, y, x, y)


def test_the_controller_moves_p_only_where_pictures_are_augmented():
    rows = {arm: run(pictures(), arm, 0, steps=8, images=40) for arm in ARMS}
    assert rows[ARMS[0]]["p"] == 0.0
    assert 0.0 < rows["ADA"]["p"] < 1.0
    for row in rows.values():
        assert all(-1 <= one["r_t"] <= 1 and -1 <= one["r_h"] <= 1 for one in row["trace"])
    assert rows["ADA"] == run(pictures(), "ADA", 0, steps=8, images=40)  # the same again


def test_the_distance_is_frechets():
    """Of normal pictures with known means and deviations: the sum of the squared differences of both."""
    draw = torch.Generator().manual_seed(0)
    scale = torch.linspace(0.5, 2, 16).reshape(1, 1, 4, 4)
    test = scale * torch.randn(40_000, 1, 4, 4, generator=draw)
    none = test[:0]
    task = Task("normal", 2, none, torch.zeros(0), none, torch.zeros(0), test, torch.zeros(0))

    class Made(torch.nn.Module):
        def forward(self, noise):
            return 1.5 * scale * noise[:, :16].reshape(-1, 1, 4, 4) + 0.25

    torch.manual_seed(0)
    wanted = 16 * 0.25**2 + float((0.5 * scale).square().sum())
    assert _distance(Made(), task, components=16) == pytest.approx(wanted, rel=0.05)


def test_the_page_has_the_table_of_its_file():
    rows = json.loads((DOCS / "ada.json").read_text())["rows"]
    assert as_markdown(rows) in (DOCS / "ada.md").read_text()


@pytest.mark.long
def test_the_study_runs(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    from pellucid.cli import app

    monkeypatch.setattr("pellucid.learn.data.find_data", lambda name: None)
    result = CliRunner().invoke(app, ["study", "ada", "--quick", "--seeds", "1", "--write", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert [row["arm"] for row in json.loads((tmp_path / "ada.json").read_text())["rows"]] == list(ARMS)
    assert (tmp_path / "img" / "ada.png").stat().st_size > 1000
