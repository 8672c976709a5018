"""The table of other libraries' transforms: every name it claims exists, and every class of torchvision's is looked at."""

import re
from functools import reduce

import pytest

from pellucid_bench.coverage import (
    END,
    FUNCTIONS,
    LIBRARIES,
    MISSING,
    OURS,
    README,
    START,
    TARGET,
    badges,
    classes_of,
    functions_of,
    how_imported,
    ours_of,
)
from tests.peers import torchvision_functional


@pytest.mark.parametrize("names", sorted(set(OURS.values())))
def test_what_is_claimed_exists(names):
    import pellucid.boxes
    import pellucid.corruptions
    import pellucid.policy

    for name in names.split(", "):
        assert callable(reduce(getattr, name.split("."), pellucid)), name


def test_nothing_is_both_had_and_missing():
    assert [name for name in MISSING if ours_of(name)] == []


def test_every_transform_of_torchvisions_is_looked_at():
    torchvision_functional()  # skips where it is not installed
    assert [name for name in classes_of("torchvision") if not ours_of(name) and name not in MISSING] == []


def test_every_function_of_torchvisions_is_looked_at():
    torchvision_functional()
    from pellucid import functional

    names = functions_of()
    assert len(names) > 45
    assert [name for name in names if not hasattr(functional, name) and name not in FUNCTIONS] == []
    assert [name for name in FUNCTIONS if hasattr(functional, name) or name not in names] == []


def test_the_page_counts_what_the_importers_take_and_the_badges_say_so():
    text = TARGET.read_text()
    sections = re.findall(
        r"^## (\w+) [\d.]+: (\d+) of (\d+) imported, (\d+) of them exactly\n(.*?)(?=^## )", text, re.DOTALL | re.MULTILINE
    )
    assert tuple(section[0] for section in sections) == LIBRARIES
    for library, taken, of, exact, rows in sections:
        said = dict(re.findall(r"^\| (\w+) \|.*\| (\w*) \|$", rows, re.MULTILINE))
        said.pop("theirs")
        assert said == {name: how_imported(library, name) for name in said}
        assert [len(said), sum(map(bool, said.values())), [*said.values()].count("exact")] == [int(of), int(taken), int(exact)]
    readme = README.read_text()
    assert readme[readme.index(START) + len(START) : readme.index(END)].strip() == badges(text)
