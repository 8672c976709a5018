"""The GPU script: it ends politely without a GPU, and with one its checks pass."""

import pytest
import torch

from tests.scripts import BENCHMARKS, loaded

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # peers warn as they like


@pytest.fixture(scope="module")
def script():
    return loaded(BENCHMARKS / "gpu.py")


def test_without_cuda_it_says_so(script, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["gpu.py"])
    assert script.main() == 0
    assert "No CUDA device" in capsys.readouterr().out


def test_table_names_failures_and_losses(script):
    checks = [{"check": "Bits.", "name": "same_bits", "passed": False, "detail": "differ"}]
    ok = {"subject": "a", "status": "ok", "median_us": 10.0, "q1_us": 9.0, "q3_us": 11.0, "images_per_s": 1e5}
    ok |= {"device_us": 8.0, "host_us": 5.0, "launches": 3, "first_s": 1.0}
    rows = [ok | {"copy_fraction": 0.5, "peak_per_image_bytes": 1.0}, {"subject": "b", "status": "raises", "note": "no"}]
    text = script.table(checks, rows, 8, 32)
    assert "**failed**" in text
    assert "raises: no" in text
    assert "| 8 | 5 | 3 | 1.0 s | 100,000 | 50% | 1.0 x |" in text
    ours = script.table(checks, [rows[0] | {"subject": "pellucid warp"}], 8, 32)
    assert "| pellucid warp (**a check failed**) | 10 (9 to 11)" in ours


def test_targets_are_judged_by_the_rows(script):
    names = {name for _, name, against, _ in script.TARGETS for name in (name, against)}
    ok = {"status": "ok", "median_us": 10.0, "copy_fraction": 0.6}
    rows = [{"subject": name, **ok} for name in names if "kornia" not in name]
    by_name = {v["target"]: v for v in script.judge(rows)}
    assert by_name["the warp moves at least half of the copy limit"] | {"target": ""} == {
        "target": "",
        "measured": "60% of it",
        "met": True,
    }
    assert by_name["the flagship is 20 times as fast as kornia"]["met"] is None
    rows += [{"subject": "kornia, flagship", "status": "ok", "median_us": 150.0, "copy_fraction": 0.1}]
    by_name = {v["target"]: v for v in script.judge(rows)}
    assert by_name["the flagship is 20 times as fast as kornia"]["met"] is False
    text = script.verdict_table(script.judge(rows))
    assert "| the flagship is 20 times as fast as kornia | 15.0 times as fast | **missed** |" in text
    assert "| 1.00 times | reached |" in text
    assert "| not measured | unknown |" in text


def test_every_target_has_its_rows(script, monkeypatch):
    monkeypatch.setattr(script, "DEVICE", "cpu")
    calls = {*script.calls_for(script.photographs(2, 16), "reference"), "pellucid, flagship, CUDA graph"}
    wanted = {name for _, name, against, _ in script.TARGETS for name in (name, against)}
    assert {name for name in wanted - calls if "kornia" not in name} == set()


@pytest.mark.parametrize("name", ["forward_close", "draws_equal", "gradients_close"])
def test_checks_pass_on_the_cpu_too(script, monkeypatch, name):
    """What they ask holds on every device, so a mistake in the script shows without a GPU."""
    monkeypatch.setattr(script, "DEVICE", "cpu")
    passed, detail = getattr(script, name)("auto")
    assert passed, detail


@pytest.mark.parametrize("name", ["fields_close", "rounded_once", "same_bits", "noise_equal"])
def test_checks_of_fields_and_dtypes_pass_by_the_reference(script, monkeypatch, name):
    monkeypatch.setattr(script, "DEVICE", "cpu")
    monkeypatch.setattr(script, "REPEATS", 2)
    passed, detail = getattr(script, name)("reference")
    assert passed, detail


def again(call):
    """What a graph does, without a GPU: the same call, into the same memory."""
    results = [result.clone() for result in call()]

    def replay():
        for kept, fresh in zip(results, call(), strict=True):
            kept.copy_(fresh)

    return replay, results


@pytest.mark.parametrize("name", ["graph_captured", "backward_captured"])
def test_what_is_asked_of_graphs_holds_for_calls(script, monkeypatch, name):
    monkeypatch.setattr(script, "DEVICE", "cpu")
    monkeypatch.setattr(script, "captured", again)
    passed, detail = getattr(script, name)("reference")
    assert passed, detail
    # A graph that keeps its draws, or its gradients, is told.
    monkeypatch.setattr(script, "captured", lambda call: (lambda: None, [torch.zeros_like(result) for result in call()]))
    assert not getattr(script, name)("reference")[0]


def test_every_timed_call_runs(script, monkeypatch):
    monkeypatch.setattr(script, "DEVICE", "cpu")
    calls = script.calls_for(script.photographs(2, 16), "reference")
    for name, (call, _) in calls.items():
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
def test_checks_pass(script):
    for check in script.CHECKS:
        passed, detail = check("auto")
        assert passed, f"{check.__name__}: {detail}"


@pytest.mark.gpu
def test_timings_have_every_row(script):
    rows = [row for group in script.GROUPS for row in script.run_timings(8, 64, "auto", 0.01, group, lambda rows: None)]
    assert {"copy limit", "pellucid warp", "pellucid, flagship"} <= {row["subject"] for row in rows if row["status"] == "ok"}
