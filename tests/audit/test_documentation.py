"""The numbers in docs/audit.md are those of the corpus, whose tests demand that all bugs are found and no alarm is false."""

from importlib.util import find_spec
from pathlib import Path

from clean_functions import CLEAN
from corpus import BUGS, SECOND
from edition import EDITION
from edition_clean import EDITION_CLEAN
from second_batch import SECOND_CLEAN

from pellucid.audit import Category

TEXT = " ".join((Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8").split())


def test_the_two_numbers_are_those_of_the_corpus():
    assert f"planted bugs found: {len(BUGS)} of {len(BUGS)}" in TEXT
    assert f"clean functions with a false alarm: 0 of {len(CLEAN)}" in TEXT
    if find_spec("torchvision"):  # four cases are torchvision's
        assert f"{len(EDITION)} of {len(EDITION)} and 0 of {len(EDITION_CLEAN)}" in TEXT
    assert f"{len(SECOND)} of {len(SECOND)} and 0 of {len(SECOND_CLEAN)}" in TEXT


def test_every_category_is_documented():
    table = TEXT.split("## What it finds")[1].split("## How well")[0]
    assert not [c for c in Category if f"`{c}`" not in table and c is not Category.RANDOM]
