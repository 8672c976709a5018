"""``pellucid bench patches``: rows for both modes and channel counts, and a check that both sides do the same."""

import pytest
import torch

from pellucid.features import frame_scale
from pellucid_bench import patches
from pellucid_bench.measure import Timing
from tests.bench.test_command import read, run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # peers warn as they like

SMALL = {"batch": 1, "size": 64, "count": 8, "patch": 16, "channels": (1,), "budget": 0.01, "impl": "auto"}


def test_the_command_writes_rows_for_every_case(tmp_path):
    options = ["--batch", "1", "--size", "64", "--frames", "8", "--patch", "16", "--budget", "0.01", "--no-strict"]
    page = tmp_path / "page.md"
    page.write_text("Before\n<!-- bench:patches -->\n<!-- /bench:patches -->\nAfter\n")
    result = run("patches", *options, "-o", str(tmp_path), "--docs", str(page))
    assert result.exit_code == 0, result.output
    rows = [row for row in read(tmp_path / "patches.json")["rows"] if row["status"] == "ok"]
    cases = {(row["channels"], row["mode"]) for row in rows if row["subject"] == "pellucid"}
    assert cases == {(1, "forward"), (1, "image+frames"), (3, "forward"), (3, "image+frames")}
    assert all(0 < row["q1_ms"] <= row["median_ms"] <= row["q3_ms"] for row in rows)
    assert "Pellucid is" in result.output
    assert "| 3 | forward | **pellucid** |" in page.read_text()


def test_the_frames_are_as_stated():
    frames = patches.random_frames(4, 500, 512)
    sides = 2 * frame_scale(frames)
    assert patches.FOOTPRINTS[0] <= sides.min() < 9
    assert 115 < sides.max() <= patches.FOOTPRINTS[1] * 1.0001
    assert (sides.log2().median() - 5).abs() < 0.2  # log-uniform from 2^3 to 2^7


def test_a_subject_that_differs_is_refused(monkeypatch):
    good, missing = patches._subjects(16, "auto")
    shifted = {**good, "kornia shifted": lambda image, frames: good["pellucid"](image, frames + 0.25)}
    monkeypatch.setattr(patches, "_subjects", lambda patch, impl: (shifted, missing))
    rows = patches.measure_patches(**SMALL)
    assert [row["status"] for row in rows if row["subject"] == "kornia shifted"] == ["refused"]
    assert "kornia shifted: refused" in patches.patches_table(rows)


def test_ratios_are_of_medians():
    timing = {"pellucid": 0.010, "pellucid (reference)": 0.5, "kornia extract_patches_from_pyramid": 0.045}
    rows = [patches._row(name, 1, "forward", Timing(s, s, s, 3, s)) for name, s in timing.items()]
    assert patches.speedups(rows) == {(1, "forward"): pytest.approx(4.5)}
    assert patches.speedups(rows[:2]) == {}


@pytest.mark.slow
def test_three_times_kornias_speed():
    pytest.importorskip("kornia")
    torch.set_num_threads(1)
    rows = patches.measure_patches(batch=4, size=512, count=512, patch=32, channels=(1, 3), budget=2.0, impl="cpu")
    ratios = patches.speedups(rows)
    assert len(ratios) == 4
    assert min(ratios.values()) >= patches.NEEDED, ratios
