"""Every code block of docs/gradient-safety.md runs, and every claim has one."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "gradient-safety.md"
TEXT = GUIDE.read_text(encoding="utf-8")
BLOCKS = [(TEXT[: m.start()].count("\n") + 2, m[1]) for m in re.finditer(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)]


@pytest.mark.parametrize(("line", "source"), BLOCKS[1:], ids=[f"line {line}" for line, _ in BLOCKS[1:]])
def test_block(line, source):
    space = {"__name__": "guide"}
    for start, text in (BLOCKS[0], (line, source)):
        exec(compile("\n" * (start - 1) + text, str(GUIDE), "exec"), space)


def test_every_claim_is_executed():
    sections = re.split(r"^### ", TEXT, flags=re.MULTILINE)[1:]
    assert len(sections) > 15
    for section in sections:
        title, _, body = section.partition("\n")
        if title != "So":
            blocks = re.findall(r"^```python\n(.*?)^```$", body, re.DOTALL | re.MULTILINE)
            assert any("assert " in block or "raises(" in block for block in blocks), title


def test_blocks_can_fail():
    with pytest.raises(AssertionError):
        test_block(1, "assert torch.zeros(1) == 1")
