"""The GPU script's checks of the kernels, by the interpreter: what they ask holds before a GPU is at hand."""

import json
import subprocess
import sys

import pytest

from pellucid.kernels import dispatch
from tests.scripts import BENCHMARKS, loaded

from .interpreted import DEVICE, runs  # noqa: F401

SCRIPT = BENCHMARKS / "gpu.py"


@pytest.fixture
def script(monkeypatch):
    script = loaded(SCRIPT)
    monkeypatch.setattr(script, "DEVICE", DEVICE)
    monkeypatch.setattr(dispatch, "_runs_on", lambda impl, device: True)
    return script


NAMES = (
    *(
        "labels_beyond_32_bits",
        "fields_close",
        "rounded_once",
        "noise_equal",
        "colors_close",
        "windows_and_channels_close",
        "labels_equal",
        "resizes_close",
        "nan_shows",
    ),
    *("colour_kernels_close", "chains_close"),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_checks_pass(name, script):
    row = script.run_check(name, "triton")
    assert row["passed"], row["detail"]


@pytest.mark.slow
def test_a_wrong_kernel_does_not_pass(script, monkeypatch):
    """The check of the flagship's pass compares values: a gain of one in ten thousand is seen."""
    warp_kernel = script.warp_kernel
    monkeypatch.setattr(
        script,
        "warp_kernel",
        lambda *given, impl="auto", **rest: warp_kernel(*given, impl=impl, **rest) * (1.0001 if impl == "triton" else 1),
    )
    assert not script.run_check("colors_close", "triton")["passed"]


CHILDREN = {
    "works": "import json, sys; open(sys.argv[-1], 'w').write(json.dumps([1, 2]))",
    "raises": "raise RuntimeError('an illegal memory access')",
    "hangs": "import time; print('began', flush=True); time.sleep(60)",
    "crashes": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "blocks": "import os; print(*range(99), os.environ.get('CUDA_LAUNCH_BLOCKING'), sep='\\n'); raise SystemExit(3)",
}


def test_parts_that_fail_leave_the_rest_and_a_report(script):
    written = []
    parts = script.Parts(600, lambda: written.append(len(parts.failures)))
    results = {name: parts.run(name, [sys.executable, "-c", code, "--part"], 3) for name, code in CHILDREN.items()}
    assert results == {"works": [1, 2], "raises": None, "hangs": None, "crashes": None, "blocks": None}
    lost = {failure["part"]: failure for failure in parts.failures}
    assert written == [1, 2, 3, 4]
    assert "an illegal memory access" in lost["raises"]["lines"][-1]
    assert lost["hangs"] == {"part": "hangs", "happened": "not ended after 3 s", "lines": ["began"]}
    assert lost["crashes"]["happened"] == "exit -11"
    assert lost["blocks"]["lines"][-2:] == ["98", "1"]
    assert len(lost["blocks"]["lines"]) == 20


def test_rows_of_a_part_that_hangs_are_kept(script):
    """They stand in the file of the part, and so in the report, before the part is ended; what it has not begun is lost."""
    seen = []
    parts = script.Parts(600, lambda: None)
    code = "import sys, time; open(sys.argv[-1], 'w').write('[1]'); time.sleep(60)"
    assert parts.run("hangs", [sys.executable, "-c", code, "--part"], 3, seen.append) is None
    assert seen == [[1]]
    assert parts.failures[0]["happened"] == "not ended after 3 s"


def test_nothing_begins_after_the_deadline(script):
    parts = script.Parts(0, lambda: None)
    assert parts.run("late", [sys.executable, "-c", CHILDREN["works"], "--part"], 3) is None
    assert parts.failures[0]["happened"] == "skipped: the deadline was reached"


def test_every_timing_has_its_process(script, monkeypatch):
    monkeypatch.setattr(script, "from_graph", lambda call: call)
    monkeypatch.setattr(script.torch, "compile", lambda module, **options: module)
    images = script.photographs(2, 16)
    monkeypatch.setattr(script, "DEVICE", "cpu")
    names = [name for name in script.calls_for(images, "auto") if name != "copy limit"]
    assert {script.group_of(name) for name in names} <= set(script.GROUPS)


FAULTS = {"nan_shows": "nan", "labels_equal": "hangs", "colors_close": "raises"}


@pytest.mark.slow
def test_a_dry_run_reports_kernels_that_fail(tmp_path):
    """The script by the interpreter, with kernels that raise, hang and return NaN: the rest is checked and the report comes."""
    command = [sys.executable, str(SCRIPT), "--dry-run", "--limit", "60", "--json", str(tmp_path / "gpu.json")]
    command += ["--only", ",".join((*FAULTS, "labels_beyond_32_bits"))]
    command += [word for name, how in FAULTS.items() for word in ("--inject", f"{name}={how}")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr[-2000:]
    settings = json.loads((tmp_path / "gpu.json").read_text())["settings"]
    assert {check["name"]: check["passed"] for check in settings["checks"]} == dict.fromkeys(FAULTS, False) | {
        "labels_beyond_32_bits": True
    }
    lost = {failure["part"]: failure for failure in settings["failures"]}
    assert lost["labels_equal"]["happened"] == "not ended after 60 s"
    assert lost["colors_close"]["lines"][-1] == "RuntimeError: an injected failure"
    assert "in other places" in next(check["detail"] for check in settings["checks"] if check["name"] == "nan_shows")
    assert "an injected failure" in done.stdout
