"""The GPU script's checks of the kernels, by the interpreter: what they ask holds before a GPU is at hand."""

import importlib.util
from pathlib import Path

import pytest

from pellucid.kernels import dispatch

from .interpreted import DEVICE, runs  # noqa: F401

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fields_close", "rounded_once", "noise_equal"])
def test_checks_pass(name, monkeypatch):
    spec = importlib.util.spec_from_file_location("benchmarks_gpu", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "DEVICE", DEVICE)
    monkeypatch.setattr(dispatch, "_runs_on", lambda impl, device: True)
    passed, detail = getattr(script, name)("triton")
    assert passed, detail
