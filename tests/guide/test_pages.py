"""The guide's pages run as printed, and every page of the documentation has its place on the site."""

import re

import pytest

from pellucid import functional
from tests.guide.pages import DOCS, FENCE, follow

ROOT = DOCS.parent
PAGES = {
    "index.md": 1,
    "whats-new.md": 1,
    "how-do-i.md": 55,
    "two-frames.md": 2,
    "clips.md": 3,
    "volumes.md": 7,
    "worst-case.md": 1,
    "polygons.md": 5,
    "start.md": 5,
    "targets.md": 7,
    "detection.md": 7,
    "segmentation.md": 6,
    "speed.md": 2,
    "seeds.md": 4,
    "records.md": 6,
    "compile.md": 4,
    "export.md": 5,
    "trust.md": 2,
    "detectors.md": 0,
    "features.md": 1,
    "learning.md": 2,
    "policies.md": 0,
    "mixing.md": 0,
    "cameras.md": 4,
    "equivariance.md": 1,
    **dict.fromkeys(("functional.md", "corruptions.md", "adversarial-warp.md", "registration.md", "views.md"), 0),
    **dict.fromkeys(("watermark.md", "distillation.md", "losses.md", "normalization.md"), 0),
    "estimators.md": 1,
}
"""With how many printed results stand on each, at least."""
MADE = {"contributing.md", "architecture.md", "changelog.md", "security.md", "adr/index.md", "gallery/index.md"}
"""Pages that are written when the site is built."""


@pytest.mark.parametrize("page", PAGES)
def test_the_page_prints_what_it_says(page, tmp_path, monkeypatch):
    if "skimage" in (DOCS / page).read_text():
        pytest.importorskip("skimage")
    monkeypatch.chdir(tmp_path)
    assert follow(page) >= PAGES[page]


def test_a_wrong_print_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.guide.pages.DOCS", tmp_path)
    (tmp_path / "page.md").write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    with pytest.raises(AssertionError, match="printed"):
        follow("page.md")


@pytest.mark.parametrize("page", sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")))
def test_links_lead_somewhere(page):
    text = (DOCS / page).read_text()
    for link, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", text):
        target = (DOCS / page).parent / link if link else DOCS / page
        assert target.exists() or link in MADE or link.startswith("reference/"), link
        if anchor and target.suffix == ".md" and target.exists():
            headings = re.findall(r"^#+ (.*)$", target.read_text().lower(), flags=re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in headings], anchor


def test_every_function_is_in_the_table_of_functions():
    page = (DOCS / "functional.md").read_text()
    assert [name for name in functional.__all__ if f"`{name}`" not in page] == []


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    listed = re.findall(r"([\w/-]+\.md)$", nav, flags=re.MULTILINE)
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if path.parent.name != "adr"}
    missing = sorted(pages - set(listed))
    assert not missing, f"{missing}: give each a line under nav: in mkdocs.yml"
    gone = sorted(page for page in set(listed) - pages - MADE if not page.startswith("reference/"))
    assert not gone, f"{gone} stand in mkdocs.yml, but not in docs/"
    assert len(listed) == len(set(listed))


def test_every_block_of_python_is_run_by_some_test():
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    for path in DOCS.glob("*.md"):
        if any(match["kind"] == "python" for match in FENCE.finditer(path.read_text())):
            assert path.name in tests, f"no test names {path.name}, which has blocks of Python"
