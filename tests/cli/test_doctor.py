"""``pellucid doctor`` reports what a bug report needs, and notices an installation that computes something else."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from pellucid import __version__
from pellucid.cli import app
from pellucid.core import compilers
from pellucid.kernels import first_launch

doctor = importlib.import_module("pellucid.cli.doctor")

BROKEN = "raise SystemError('initialisation failed: numpy is too new')"
"""What a Numba that was built for another NumPy does."""


def invoke(*arguments):
    return CliRunner().invoke(app, ["doctor", *arguments])


def test_everything_is_well_here():
    result = invoke()
    assert result.exit_code == 0, result.output
    assert result.output.count("ok   ") == 4
    for wanted in (__version__, torch.__version__, "numba", "cache", "threads of torch", "scikit-image"):
        assert wanted in result.output


def test_quick_has_no_self_test():
    assert "ok   " not in invoke("--quick").output


def test_a_wrong_hash_is_named_and_the_rest_still_runs(monkeypatch):
    monkeypatch.setattr(doctor, "_ZEROS", [0, 0, 0, 0])
    check_one_failure("draws are")


def test_a_crash_is_named_and_the_rest_still_runs(monkeypatch):
    monkeypatch.setattr(doctor, "_agreement", lambda: 1 / 0)
    check_one_failure("ZeroDivisionError")


def check_one_failure(what):
    result = invoke()
    assert result.exit_code == 1
    (line,) = [line for line in result.output.splitlines() if line.startswith("FAILED")]
    assert what in line
    assert result.output.count("ok   ") == 3


def test_what_the_first_launches_find_is_told(monkeypatch):
    monkeypatch.setattr(doctor, "_tests", list)
    monkeypatch.setattr(doctor, "_launched", lambda device: {"the warp": "agrees", "the resize": "the result is off by 1"})
    result = invoke("--device", "cpu")
    assert result.exit_code == 1
    assert "FAILED       the resize: the result is off by 1" in result.output
    assert "ok           the warp" in result.output


@pytest.mark.slow
def test_the_kernels_of_a_device_are_launched(monkeypatch):
    monkeypatch.setattr(doctor, "_tests", list)
    monkeypatch.setattr(first_launch, "FOUND", {})
    result = invoke("--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "no Triton kernel runs here" in result.output


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device")
def test_a_device_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(doctor, "_tests", list)
    result = invoke("--device", "cuda")
    assert result.exit_code != 0
    assert "device: expected a device that torch reaches" in result.output


def test_a_package_that_is_missing_is_called_missing(monkeypatch):
    monkeypatch.setitem(doctor._OPTIONAL, "demo", ("no-such-package",))
    assert "no-such-package missing" in invoke("--quick").output


def broken_numba(folder: Path) -> str:
    (folder / "numba").mkdir()
    (folder / "numba" / "__init__.py").write_text(BROKEN)
    return str(folder)


def test_a_numba_that_raises_is_told(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(broken_numba(tmp_path))
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setattr(compilers, "_numba", None)
    with pytest.warns(UserWarning, match="numpy is too new"):
        result = invoke("--quick")
    assert result.exit_code == 0, result.output
    assert "compiled kernels: no, the reference computes" in result.output
    assert "cache        none" in result.output


@pytest.mark.slow
def test_the_self_test_runs_with_a_numba_that_raises(tmp_path):
    paths = os.pathsep.join([broken_numba(tmp_path), *sys.path])
    call = [sys.executable, "-c", "from pellucid.cli import app; app()", "doctor"]
    result = subprocess.run(call, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("ok   ") == 4
