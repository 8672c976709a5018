"""The commands, end to end on tiny images with whatever peers are installed, and the files they write."""

import json
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import pellucid.cli  # first: it loads the commands of a checkout, which import it
from pellucid_bench.calls import CallCount
from pellucid_bench.command import app
from pellucid_bench.documents import write_documents
from pellucid_bench.measure import Timing
from pellucid_bench.overhead import Overhead
from pellucid_bench.real import behind, real_table
from pellucid_bench.report import case_tables, insert, overhead_table
from pellucid_bench.scaling import AXES
from pellucid_bench.settings import SINGLES
from pellucid_bench.sizes import PIPELINES, ratios, sizes_table

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # peers warn as they like

TINY = ["--batch", "2", "--size", "16", "--budget", "0.01"]
LIGHT = ["--only", "pellucid", "--only", "torch", "--only", "kornia"]


def run(*arguments):
    threads = torch.get_num_threads()
    result = CliRunner().invoke(app, list(arguments))
    assert torch.get_num_threads() == threads
    return result


def read(path):
    data = json.loads(path.read_text())
    assert data["pellucid_bench"] == 1
    assert {"date", "pellucid", "torch", "python", "cpu", "cpus", "threads", "system"} <= set(data["environment"])
    return data


def check_rows(rows):
    for row in rows:
        assert row["status"] in ("ok", "raises", "missing", "refused")
        if row["status"] == "ok":
            assert row["mode"] in ("forward", "image", "image+parameters")
            assert 0 < row["q1_ms"] <= row["median_ms"] <= row["q3_ms"]
            assert row["images_per_s"] == pytest.approx(row["shape"][0] / row["median_ms"] * 1e3)
            assert row["copy_fraction"] > 0
            assert row["rounds"] >= 3
            assert row["regime"]
        else:
            assert row["note"]


def test_no_command_prints_help():
    text = run().output
    assert all(name in text for name in ("overhead", "pipelines", "warp", "singles", "scaling", "docs"))


def test_pipelines(tmp_path):
    result = run("pipelines", *TINY, *LIGHT, "--no-memory", "-o", str(tmp_path))
    assert result.exit_code == 0, result.output
    data = read(tmp_path / "pipelines.json")
    check_rows(data["rows"])
    ours = {(row["case"], row["mode"]) for row in data["rows"] if row["subject"] == "pellucid"}
    assert ours == {(case, mode) for case in ("flagship", "geometry") for mode in ("forward", "image", "image+parameters")}
    assert (tmp_path / "bench-pipelines.png").stat().st_size > 1000


def test_singles_and_their_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("".join(f"<!-- bench:{case} -->\n<!-- /bench:{case} -->\n" for case in SINGLES))
    result = run("singles", *TINY, *LIGHT, "--no-memory", "-o", str(tmp_path), "--docs", str(page))
    assert result.exit_code == 0, result.output
    rows = read(tmp_path / "singles.json")["rows"]
    check_rows(rows)
    assert {row["case"] for row in rows if row["subject"] == "pellucid" and row["status"] == "ok"} == set(SINGLES)
    assert page.read_text().count("**pellucid**") >= 2 * len(SINGLES)


def test_one_case_of_several():
    result = run("singles", *TINY, "--only", "pellucid", "--no-memory", "--case", "flips")
    assert result.exit_code == 0, result.output
    assert "flips" in result.output
    assert "jpeg" not in result.output
    assert run("singles", "--case", "flip").exit_code == 2


def test_warp_with_memory(tmp_path):
    result = run("warp", "--batch", "4", "--size", "128", "--budget", "0.01", "--only", "torch", "-o", str(tmp_path))
    assert result.exit_code == 0, result.output
    rows = read(tmp_path / "warp.json")["rows"]
    check_rows(rows)
    if not Path("/proc/self/clear_refs").exists():
        return
    given = {row["mode"]: row["peak_per_image_bytes"] for row in rows if row["subject"] == "torch grid_sample, grid given"}
    assert given["forward"] == pytest.approx(1.0, abs=0.15)  # its result and nothing else
    assert 2.0 < given["image"] < 3.5  # result, gradient, and the grid's


def test_scaling(tmp_path):
    arguments = ["--axis", "operations", "--axis", "threads", "--batch", "1", "--size", "16", "--budget", "0.01"]
    result = run("scaling", *arguments, *LIGHT, "-o", str(tmp_path))
    assert result.exit_code == 0, result.output
    rows = read(tmp_path / "scaling.json")["rows"]
    check_rows(rows)
    assert {row["value"] for row in rows if row["axis"] == "operations"} == {1, 2, 4, 6, 8, 10}
    assert (tmp_path / "bench-scaling.png").stat().st_size > 1000


def test_overhead(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- bench:overhead -->\n<!-- /bench:overhead -->\n")
    result = run("overhead", "--budget", "0.05", "--no-strict", "-o", str(tmp_path), "--docs", str(page))
    assert result.exit_code == 0, result.output
    assert "| flip: pellucid |" in page.read_text()
    rows = {row["subject"]: row for row in read(tmp_path / "overhead.json")["rows"]}
    assert rows["pellucid"]["calls"] > rows["pellucid"]["python_calls"] > 50
    missing = rows["kornia"]["status"] == "missing"
    assert ("calls" in rows["shares"]) != missing


def test_sizes(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- bench:sizes -->\n<!-- /bench:sizes -->\n")
    result = run("sizes", "--count", "4", "--longest", "240", "--no-strict", "-o", str(tmp_path), "--docs", str(page))
    assert result.exit_code == 0, result.output
    rows = read(tmp_path / "sizes.json")["rows"]
    assert {(row["subject"], row["size"]) for row in rows} == {(name, size) for name in PIPELINES for size in ("new", "seen")}
    assert all(0 < row["q1_ms"] <= row["median_ms"] <= row["q3_ms"] and row["rounds"] == 4 for row in rows)
    assert page.read_text().count("\n| ") >= len(PIPELINES)


def test_real(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- bench:real -->\n<!-- /bench:real -->\n")
    chosen = ["--pipeline", "classification, evaluation", "--pipeline", "DINO, local view"]
    result = run("real", "--batch", "2", "--budget", "0.01", *chosen, "-o", str(tmp_path), "--docs", str(page))
    assert result.exit_code == 0, result.output
    rows = [row for row in read(tmp_path / "real.json")["rows"] if row["status"] != "missing"]
    ours = [row for row in rows if row["subject"] == "pellucid"]
    assert len(ours) == 2 * 2 * 2 * 2  # pipelines, sizes, dtypes, regimes
    assert sum(row["subject"] == "pellucid antialias=False" for row in rows) == len(ours)
    assert all(row["status"] == "ok" and 0 < row["q1_ms"] <= row["median_ms"] <= row["q3_ms"] for row in ours)
    assert page.read_text().count("\n| DINO") == 4


def test_a_peer_that_is_faster_is_named():
    common = {"pipeline": "SimCLR", "size": "480x640", "dtype": "uint8", "batch": 8, "status": "ok"}
    rows = [
        {**common, "subject": "pellucid", "regime": "batch", "median_ms": 16.0},
        {**common, "subject": "torchvision", "regime": "one by one", "median_ms": 24.0},
        {**common, "subject": "pellucid antialias=False", "regime": "batch", "median_ms": 12.0},
        {**common, "subject": "kornia", "regime": "batch", "median_ms": 24.0},
    ]
    assert behind(rows) == []
    assert "| 1.50 | 2.00 |" in real_table(rows)
    rows.append({**common, "subject": "albumentations", "regime": "one by one", "median_ms": 8.0})
    assert behind(rows) == [("SimCLR", "480x640", "uint8", "not antialiased")]
    assert "| 1.50 | 0.67 |" in real_table(rows)
    turned = [{**row, "pipeline": "segmentation, turn"} for row in rows if "=" not in row["subject"]]
    assert behind(turned) == [("segmentation, turn", "480x640", "uint8", "")]  # nothing shrinks there: all do the same
    assert "| 0.50 |  |" in real_table(turned)


def test_a_new_size_that_costs_too_much_is_missed():
    span = {"q1_ms": 1.0, "q3_ms": 2.0}
    rows = [{"subject": "crop", "size": size, "median_ms": ms, **span} for size, ms in (("new", 1.2), ("seen", 1.0))]
    assert ratios(rows) == {"crop": 1.2}
    assert "**missed**" in sizes_table(rows)
    rows[0]["median_ms"] = 1.1
    assert "**missed**" not in sizes_table(rows)


@pytest.mark.parametrize("arguments", [["scaling", "--axis", "colour"], ["warp", "--only", "korniaa"]])
def test_unknown_names_are_refused(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "expected one of" in result.output


def overhead_of(seconds, calls, missing=None):
    time = {"pellucid": Timing(seconds, seconds, seconds, 3, seconds), "kornia": Timing(1.0, 1.0, 1.0, 3, 1.0)}
    counts = {"pellucid": CallCount(calls, calls // 2), "kornia": CallCount(1000, 500)}
    return Overhead(time, time, time, counts, missing)


@pytest.mark.parametrize(("seconds", "calls", "met"), [(0.2, 200, True), (0.3, 200, False), (0.2, 300, False)])
def test_overhead_budget_needs_both_time_and_calls(seconds, calls, met):
    result = overhead_of(seconds, calls)
    assert result.met() is met
    assert ("met" if met else "**missed**") in overhead_table(result)


def test_missed_overhead_exits_with_one(monkeypatch):
    monkeypatch.setattr("pellucid_bench.command.measure_overhead", lambda impl, budget: overhead_of(0.5, 100))
    assert run("overhead").exit_code == 1


def test_without_kornia_no_figure_of_it_is_printed(monkeypatch, tmp_path):
    result = overhead_of(0.1, 673, "No module named 'kornia'")
    for name in ("time", "small", "tiny", "calls"):
        getattr(result, name).pop("kornia", None)
    assert result.shares() == {}
    text = overhead_table(result)
    assert "kornia is missing (No module named 'kornia')" in text
    assert "%" not in text
    assert "met" not in text
    monkeypatch.setattr("pellucid_bench.command.measure_overhead", lambda impl, budget: result)
    assert run("overhead", "-o", str(tmp_path)).exit_code == 0
    rows = {row["subject"]: row for row in read(tmp_path / "overhead.json")["rows"]}
    assert rows["shares"] == {"subject": "shares", "status": "unknown"}
    assert rows["kornia"]["status"] == "missing"


@pytest.mark.parametrize("arguments", [["warp", "-o", "x"], ["scaling", "-o", "x"], ["docs", "x"]])
def test_pictures_ask_for_matplotlib_before_anything_is_measured(arguments, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("compare", "scaling", "write_documents"):
        monkeypatch.setattr(f"pellucid_bench.command.{name}", lambda *_, **__: pytest.fail("measured"))
    result = CliRunner().invoke(pellucid.cli.app, ["bench", *arguments])  # the whole program words errors
    assert result.exit_code == 2
    assert "matplotlib" in result.output


def test_losses_stay_in_the_table():
    common = {"case": "warp", "regime": "r", "mode": "forward", "status": "ok", "images_per_s": 1.0, "copy_fraction": 0.5}
    timed = (("pellucid", 2.0), ("fast", 1.0), ("slow", 6.0))
    rows = [{**common, "subject": name, "median_ms": ms, "q1_ms": ms, "q3_ms": ms} for name, ms in timed]
    rows.append({"case": "warp", "subject": "broken", "regime": "r", "mode": "forward", "status": "raises", "note": "cannot"})
    text = case_tables(rows)
    assert text.index("| fast |") < text.index("**pellucid**") < text.index("| slow |") < text.index("raises: cannot")
    assert "2.00 x slower" in text
    assert "3.00 x faster" in text


def test_insert_replaces_one_section_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- bench:x -->\nold\n<!-- /bench:x -->\nb <!-- bench:y --><!-- /bench:y -->\n")
    for text in ("new", "newer"):
        insert(page, "x", text)
        assert page.read_text() == f"a\n<!-- bench:x -->\n{text}\n<!-- /bench:x -->\nb <!-- bench:y --><!-- /bench:y -->\n"
    with pytest.raises(ValueError, match="bench:z"):
        insert(page, "z", "")


def test_documents_fill_every_section(tmp_path, monkeypatch):
    """On the page that is published, so that a section without a table is noticed."""
    page = tmp_path / "performance.md"
    page.write_text((Path(__file__).parents[2] / "docs" / "performance.md").read_text())
    for name in AXES:
        monkeypatch.setitem(AXES, name, (16,) if name == "size" else (1,))
    monkeypatch.setattr("pellucid_bench.compare.MODULES", {"pellucid": "ours"})
    monkeypatch.setattr("pellucid_bench.peers.MODULES", {"pellucid": "ours"})
    write_documents(tmp_path, batch=2, size=16, budget=0.01, impl="auto", memory=False, full=False, say=lambda text: None)
    for part in page.read_text().split("<!-- bench:")[1:]:
        name, _, rest = part.partition(" -->\n")
        body = rest.partition("\n<!-- /bench:")[0]
        assert name == "gpu" or len(body) > 40, name
    assert read(tmp_path / "performance.json")["command"] == "docs"
    assert (tmp_path / "img" / "bench-cases.png").exists()
    assert (tmp_path / "img" / "bench-scaling.png").exists()


def test_loader_measures_who_is_there(tmp_path):
    pytest.importorskip("skimage")
    page = tmp_path / "page.md"
    page.write_text("<!-- bench:loader -->\nold\n<!-- /bench:loader -->\n")
    command = ["loader", "--images", "32", "--workers", "0", "--rounds", "1", "--output", str(tmp_path), "--docs", str(page)]
    result = run(*command)
    assert result.exit_code == 0, result.output
    rows = {row["subject"]: row for row in read(tmp_path / "loader.json")["rows"]}
    assert rows["pellucid"]["images_per_s"] < rows["decoding alone (Pillow)"]["images_per_s"]
    assert all(row["status"] in ("ok", "missing") for row in rows.values())
    assert "| pellucid | antialiased, drafts |" in page.read_text()


def test_the_loaders_folder_is_the_same_again(tmp_path):
    pytest.importorskip("skimage")
    from pellucid_bench.loader import make_folder

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, again = (make_folder(tmp_path / name, 3) for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
