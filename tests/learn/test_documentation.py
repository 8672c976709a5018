"""The guide's links lead somewhere, and the generated page is the generator's."""

import json
import re
from pathlib import Path

import pytest

from pellucid_bench.learned.page import as_markdown

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("learning.md", "learned-augmentation.md", "adr/0010-learning-recipes.md", "adr/0093-a-study-at-equal-cost.md")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((DOCS / page).parent / link).exists(), link
    for anchor in re.findall(r"\]\(#([^)]+)\)", text):
        assert any(line.startswith("#") and line.strip("# \n").lower().replace(" ", "-") == anchor for line in text.splitlines())


def test_the_page_says_what_was_measured():
    rows = json.loads((DOCS / "learned-augmentation.json").read_text())["rows"]
    assert as_markdown(rows) in (DOCS / "learned-augmentation.md").read_text()
