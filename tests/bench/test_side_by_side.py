"""Ten common pipelines beside ours: how they are chosen, and what stands on the page."""

import re
from collections import Counter

from pellucid_bench.configurations import PIPELINES, TARGET
from pellucid_bench.side_by_side import COUNTS, END, SHEET, SHOWN, SIDE, START, _ranked, operations


def test_the_most_used_operations_come_first():
    for library in COUNTS:
        ranked = _ranked(library)
        sets = [tuple(sorted(set(operations(one)))) for one in ranked]
        assert len(sets) == len(set(sets)) > 10
        uses = Counter(name for one in PIPELINES if one.library == library for name in set(operations(one)))
        first, last = ({uses[name] for name in operations(one)} for one in (ranked[0], ranked[-1]))
        assert min(first) > min(last)


def test_the_page_has_ten_of_them_and_their_pictures():
    page = TARGET.read_text()
    rows = page[page.index(START) : page.index(END)].splitlines()[3:]
    found = [re.match(r"\| \d+ \| (\w+): ([\w, ]+) \| [\d.]+ \| [\d.]+ \| [01]\.\d\d \| \d+ \|$", row) for row in rows]
    assert Counter(row[1] for row in found) == COUNTS
    known = {(one.library, ", ".join(operations(one))) for one in PIPELINES}
    assert {(row[1], row[2]) for row in found} <= known
    from PIL import Image

    with Image.open(SHEET) as sheet:
        assert sheet.width > 2 * SHOWN * SIDE
        assert sheet.height > sum(COUNTS.values()) * SIDE
