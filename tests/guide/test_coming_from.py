"""The page on other libraries: every line of its tables is imported, and its figures are those of the command."""

import re

import pytest

import pellucid
from pellucid import interop
from pellucid_bench.configurations import END, PIPELINES, START, TARGET, imported, table
from tests.guide.pages import follow

ROWS = []
for _section in TARGET.read_text().split("\n### ")[1:]:
    _library = _section.partition("\n")[0]
    for _line in _section.split("\n## ")[0].splitlines():
        _found = re.match(r"\| `(\w+)\((.*)\)` \| (refused|`.*`) \|", _line)
        if _found:
            ROWS.append((_library, *_found.groups()))


def test_the_page_prints_what_it_says():
    assert follow("coming-from.md") >= 1


@pytest.mark.parametrize(("library", "name", "options", "ours"), ROWS, ids=[f"{row[0]}-{row[1]}({row[2]})" for row in ROWS])
def test_every_line_is_what_comes_out(library, name, options, ours):
    read = getattr(interop, f"read_{library}")
    found = read({"name": name, **eval(f"dict({options})")}, match="exact")
    if ours == "refused":
        assert [one.name for one in found.missing] == [name]
    else:
        assert not found.missing
        assert found.pipeline.transforms == (eval(ours.strip("`"), vars(pellucid)),)


def test_there_are_lines_for_each_library():
    assert {library: sum(row[0] == library for row in ROWS) for library in ("torchvision", "albumentations", "kornia")} == {
        "torchvision": 12,
        "albumentations": 15,
        "kornia": 9,
    }


def test_the_shares_are_those_of_the_command():
    page = TARGET.read_text()
    assert page[page.index(START) + len(START) : page.index(END)].strip() == table()
    assert len(PIPELINES) >= 130
    for one in PIPELINES:
        found = imported(one)
        assert found.total >= 4
        assert all(each.reason for each in found.missing)
