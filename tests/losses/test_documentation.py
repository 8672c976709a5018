"""The examples of docs/losses.md run, and the files it shows exist."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "losses.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("index", range(len(BLOCKS)))
def test_example_runs(index):
    exec(compile(BLOCKS[index], f"losses.md, block {index}", "exec"), {"__name__": "docs"})


@pytest.mark.parametrize("page", ["losses.md", "adr/0006-hausdorff-variants.md"])
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", (DOCS / page).read_text(encoding="utf-8"))
    assert links
    for link in links:
        assert ((DOCS / page).parent / link).exists(), link
