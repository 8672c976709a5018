"""``pellucid demo --small`` writes a sheet and a report that hold up to a look."""

import re

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from pellucid.cli import app

pytest.importorskip("skimage")


def run_demo(folder, *options):
    result = CliRunner().invoke(app, ["demo", "--small", "--output", str(folder), *options])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "nested" / "demo"
    return folder, run_demo(folder)


def test_files_are_what_they_claim(report):
    folder, result = report
    assert sorted(path.name for path in folder.iterdir()) == ["index.html", "sheet.png"]  # no temporary file stays
    with Image.open(folder / "sheet.png") as sheet:
        assert sheet.format == "PNG"
        sheet.load()
        assert sheet.width > 500
        assert len(np.unique(np.asarray(sheet).reshape(-1, 3), axis=0)) > 500  # photographs, not a blank
    assert "worst relative error" in result.output


def test_page_is_whole_and_needs_no_other_file(report):
    page = (report[0] / "index.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    for tag in ("section", "table", "tr", "td", "th", "pre", "details", "figure"):
        assert len(re.findall(rf"<{tag}[ >]", page)) == page.count(f"</{tag}>"), tag
    assert page.count('src="data:image/png;base64,') == 2
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert not re.search(r"\$[a-z]", page)
    for word in ("astronaut", "coffee", "RandomPerspective", "one resample", "top_left_x", "order", "reference implementation"):
        assert word in page, word


def test_every_gradient_agrees(report):
    page = (report[0] / "index.html").read_text(encoding="utf-8")
    assert float(re.search(r'data-worst="([^"]+)"', page)[1]) < 1e-5
    table = page[page.index('id="gradients"') :]
    assert table.count('<td class="yes">') == 29  # all but a crop's ratio, which the picture's size limits in this draw
    assert '<td class="no">' not in table


def test_rerun_changes_nothing(report):
    folder, _ = report
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    run_demo(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_without_scikit_image_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "skimage", None)
    result = CliRunner().invoke(app, ["demo", "--small", "-o", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "pip install 'pellucid[demo]'" in result.output
    assert not (tmp_path / "out").exists()
