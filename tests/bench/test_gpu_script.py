"""The GPU script: it ends politely without a GPU, and with one its checks pass."""

import importlib.util
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")  # peers warn as they like

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("benchmarks_gpu", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_cuda_it_says_so(script, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["gpu.py"])
    assert script.main() == 0
    assert "No CUDA device" in capsys.readouterr().out


def test_table_names_failures_and_losses(script):
    checks = [{"check": "Bits.", "name": "same_bits", "passed": False, "detail": "differ"}]
    ok = {"subject": "a", "status": "ok", "median_us": 10.0, "q1_us": 9.0, "q3_us": 11.0, "images_per_s": 1e5}
    rows = [ok | {"copy_fraction": 0.5, "peak_per_image_bytes": 1.0}, {"subject": "b", "status": "raises", "note": "no"}]
    text = script.table(checks, rows, 8, 32)
    assert "**failed**" in text
    assert "raises: no" in text
    assert "| 100,000 | 50% | 1.0 x |" in text


@pytest.mark.parametrize("name", ["forward_close", "draws_equal", "gradients_close", "same_bits"])
def test_checks_pass_on_the_cpu_too(script, monkeypatch, name):
    """What they ask holds on every device, so a mistake in the script shows without a GPU."""
    monkeypatch.setattr(script, "DEVICE", "cpu")
    monkeypatch.setattr(script, "REPEATS", 2)
    passed, detail = getattr(script, name)("auto")
    assert passed, detail


def test_every_timed_call_runs(script, monkeypatch):
    monkeypatch.setattr(script, "DEVICE", "cpu")
    calls = script.calls_for(script.photographs(2, 16), "auto")
    for name, call in calls.items():
        if "compile" not in name:
            call()


def test_operators_behave_under_the_interpreter(script, monkeypatch):
    pytest.importorskip("triton", reason="Triton is not installed")
    monkeypatch.setattr(script, "DEVICE", "cpu")
    monkeypatch.setattr(script, "photographs", lambda count, size: torch.rand(count, 3, 4, 4))
    # In full it is part of tests/kernels; here the operators run once on what the script gives them.
    monkeypatch.setattr(torch.library, "opcheck", lambda op, arguments: op(*arguments))
    passed, _ = script.operators_behave("auto")
    assert passed


@pytest.mark.gpu
@pytest.mark.parametrize(
    "name", ["forward_close", "draws_equal", "gradients_close", "same_bits", "operators_behave", "graph_captured"]
)
def test_checks_pass(script, name):
    passed, detail = getattr(script, name)("auto")
    assert passed, detail


@pytest.mark.gpu
def test_timings_have_every_row(script):
    rows = script.run_timings(8, 64, "auto", 0.01)
    assert {"copy limit", "pellucid warp", "pellucid, flagship"} <= {row["subject"] for row in rows if row["status"] == "ok"}
