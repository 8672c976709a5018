"""The examples run, at small settings, and give the numbers that they name."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["simclr", "fixmatch", "dino", "dense", "segment_tta", "equivariant"])
def test_an_example_runs(name, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples" / "views"), *sys.path])
    example = importlib.import_module(name)
    try:
        result = example.main(steps=2)
    finally:
        for module in (name, "tasks"):
            sys.modules.pop(module, None)
    assert all(value == value for value in result.values())
    assert all(0 <= value <= 1 for key, value in result.items() if key != "loss" and "error" not in key)
    assert "\nMeasured: " in example.__doc__
