"""albumentations' own benchmark: the spec file is one that it loads, and the table leaves losses in."""

import runpy

import numpy as np
import pytest

import pellucid_bench.their_benchmark as theirs
from pellucid_bench.their_rows import ALBUMENTATIONS, KORNIA, PILLOW, TORCHVISION

SPEC = runpy.run_path(str(theirs.SPEC))


def test_the_spec_file_has_what_their_loader_asks_for():
    assert isinstance(SPEC["LIBRARY"], str)
    assert callable(SPEC["__call__"])
    names = [one["name"] for one in SPEC["TRANSFORMS"]]
    assert len(set(names)) == len(names) >= 80
    for column in (ALBUMENTATIONS, KORNIA, PILLOW, TORCHVISION):
        assert set(column) <= set(names)


@pytest.mark.parametrize("row", SPEC["TRANSFORMS"], ids=lambda row: row["name"])
def test_every_row_takes_an_array_and_gives_one(row):
    array = np.random.default_rng(0).integers(0, 256, (96, 112, 3), dtype=np.uint8)
    out = SPEC["__call__"](row["transform"], array)
    assert out.flags["C_CONTIGUOUS"]
    assert out.shape[2] == 3
    assert out.dtype == (np.float32 if row["name"] == "Normalize" else np.uint8)


def test_the_table_counts_only_rows_that_a_peer_has():
    rows = [
        {"row": name, "subject": subject, "status": "ok", "images_s": rate}
        for name, subject, rate in (("A", "pellucid", 9.0), ("A", "kornia", 3.0), ("B", "pellucid", 1.0), ("C", "pellucid", 2.0))
    ]
    rows.append({"row": "C", "subject": "Pillow", "status": "ok", "images_s": 8.0})
    table = theirs.theirs_table(rows)
    assert "Fastest in 1 of 2 rows" in table
    assert "| A | **9** | 3 | - | 3.00 |" in table
    assert "| C | 2 | - | **8** | 0.25 |" in table
