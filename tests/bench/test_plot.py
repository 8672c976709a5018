"""Pictures of measurements: nothing is missing without a word, and no label leaves the figure."""

import json
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
plot = pytest.importorskip("pellucid_bench.plot")

from pellucid_bench.settings import SINGLES  # noqa: E402

STORED = Path(__file__).parents[2] / "docs" / "performance.json"


def test_bars_of_the_stored_measurements(tmp_path, monkeypatch):
    rows = [row for row in json.loads(STORED.read_text())["rows"] if "axis" not in row and row["case"] not in SINGLES]
    figures, plt = [], plot.pyplot()
    monkeypatch.setattr(plt, "close", figures.append)
    plot.draw_cases(rows, tmp_path / "cases.png")
    (figure,) = figures
    for mode, column in (("forward", 0), ("image", 1)):
        axes = figure.axes[column]
        raising = {row["subject"] for row in rows if (row["case"], row.get("mode"), row["status"]) == ("flagship", mode, "raises")}
        shown = {label.get_text() for label in axes.get_yticklabels()}
        assert raising <= shown
        assert sum(text.get_text() == "raises" for text in axes.texts) == len(raising)
    assert raising
    figure.canvas.draw()
    room = figure.bbox.width
    for axes in figure.axes:
        for label in axes.get_yticklabels():
            extent = label.get_window_extent()
            assert extent.x0 > 0.004 * room, label.get_text()
    monkeypatch.undo()
    plt.close(figure)
