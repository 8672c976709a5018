"""The table of single operations, and what is said of its times."""

import pytest
import torch

import pellucid as P
from pellucid_bench.every import SIZES, WAYS, behind, every_table
from pellucid_bench.operations import OPERATIONS

ELSEWHERE = {
    **dict.fromkeys(("MixUp", "CutMix", "Mosaic", "CopyPaste"), "mix samples: `bench mixing`"),
    **dict.fromkeys(("Apply", "OneOf", "Shuffle", "SomeOf", "Mixture", "PerPatch"), "choose among others"),
    **dict.fromkeys(("RicianNoise", "RandomGammaInRange", "RandomLowResolution", "RandomBiasField"), "scans: `bench volumes`"),
    **dict.fromkeys(("RandomBoxSafeCrop", "RandomIoUCrop", "RandomMaskCrop"), "read boxes or masks"),
    **dict.fromkeys(("RandomCropFromBorders", "RandomRescale", "RandomShortestSize"), "draw their sizes"),
}
"""Transforms that a peer has and that the table does not time, with the reason."""


def row(subject, ms, *, operation="invert", size="224x224", way="batch", status="ok"):
    return {"operation": operation, "size": size, "way": way, "subject": subject, "status": status, "least_ms": ms}


def test_every_transform_that_a_peer_has_is_timed_or_said_to_be_elsewhere():
    timed = {type(operation.ours) for operation in OPERATIONS.values()}
    theirs = {kind for kind in P.ALL if getattr(kind, "like", None)}
    assert len(theirs) > 50
    assert {kind.__name__ for kind in theirs - timed} <= set(ELSEWHERE)


@pytest.mark.parametrize("name", ["invert", "pad 10", "downscale"])
def test_our_column_takes_bytes(name):
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    assert P.Pipeline([OPERATIONS[name].ours], seed=0)(images).dtype == torch.uint8


def test_an_operation_is_behind_where_the_fastest_peer_that_copies_is_faster():
    rows = [row("pellucid", 2.0), row("albumentations", 1.0), row("torchvision", 3.0)]
    assert behind(rows) == [("224x224", "batch", "invert")]
    rows[1]["status"] = "view"
    assert behind(rows) == []
    text = every_table(rows)
    assert "| invert | 1.50 |" in text
    assert "| **behind in** | 0 of 1 |" in text
    assert "albumentations, invert: hands back a view" in text


def test_what_is_missing_or_refused_is_told():
    rows = [
        {"subject": "kornia", "status": "missing", "note": "No module named 'kornia'"},
        {**row("torchvision", 0.0, operation="JPEG", status="refused"), "note": "RuntimeError: no image extension"},
    ]
    assert every_table(rows).splitlines() == [
        "* kornia is missing: No module named 'kornia'",
        "* torchvision, JPEG: RuntimeError: no image extension",
    ]


def test_sizes_and_ways_have_names_that_the_command_takes():
    assert list(SIZES) == ["32x32", "224x224", "480x640", "1080x1920"]
    assert set(WAYS) == {"batch", "singly", "arrays", "floats", "backward"}
