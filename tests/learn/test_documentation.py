"""The guide runs as it is printed, its links lead somewhere, and the generated page is the generator's."""

import json
import re
from itertools import product
from pathlib import Path

import pytest

from pellucid_bench.augmentation.page import study_page

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("learning.md", "learned-augmentation.md", "adr/0010-learning-recipes.md")


def test_the_guide_runs(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / "learning.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 3
    scope: dict = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"learning.md, block {number}", "exec"), scope)
    assert "degrees" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((DOCS / page).parent / link).exists(), link
    for anchor in re.findall(r"\]\(#([^)]+)\)", text):
        assert any(line.startswith("#") and line.strip("# \n").lower().replace(" ", "-") == anchor for line in text.splitlines())


def test_the_page_says_what_was_measured():
    results = json.loads((DOCS / "learned-augmentation.json").read_text())
    about = [(r["about"]["arm"], r["about"]["images"], r["about"]["seed"]) for r in results]
    assert sorted(about) == sorted(product(*map(set, zip(*about, strict=True))))  # whole seeds
    page = (DOCS / "learned-augmentation.md").read_text()
    again = study_page(results, data="fashion_mnist", command="X", picture="img/learned-augmentation.png")
    # Versions and the machine may differ; every other word may not.
    assert page[page.index("`fashion_mnist`:") :].split() == again[again.index("`fashion_mnist`:") :].split()
