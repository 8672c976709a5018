"""The generated page is the generator's."""

import json
from pathlib import Path

from pellucid_bench.learned.page import as_markdown

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_says_what_was_measured():
    rows = json.loads((DOCS / "learned-augmentation.json").read_text())["rows"]
    assert as_markdown(rows) in (DOCS / "learned-augmentation.md").read_text()
