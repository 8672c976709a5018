"""The pages about the functional interface run as they are printed, and their claims are asserted on the way."""

import re
from pathlib import Path

import pytest

from pellucid import functional as PF

DOCS = Path(__file__).parents[2] / "docs"


def _blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


PAGES = {
    "functional.md": 2,
    "corruptions.md": 3,
    "adversarial-warp.md": 5,
    "registration.md": 2,
    "cameras.md": 3,
    "views.md": 7,
    "equivariance.md": 3,
    "watermark.md": 2,
    "distillation.md": 2,
}


@pytest.mark.parametrize(("page", "least"), PAGES.items())
def test_pages_run(page, least, capsys):
    blocks = _blocks(page)
    assert len(blocks) >= least
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{page}, block {number}", "exec"), namespace)
    for name in ("losses", "losses_by_hand") if page == "adversarial-warp.md" else ():
        losses = namespace[name]
        assert sum(losses[-5:]) < 0.4 * sum(losses[:5])


def test_every_function_is_in_the_table():
    page = (DOCS / "functional.md").read_text()
    assert [name for name in PF.__all__ if f"`{name}`" not in page] == []
