"""``pellucid warmup`` compiles what a pipeline needs, once, and keeps it for other processes."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from pellucid import ColorJitter, Normalize, Pipeline, RandomGaussianBlur
from pellucid.cli import app


@pytest.fixture
def file(tmp_path):
    Pipeline([ColorJitter(0.2), Normalize((0.5,), (0.5,))]).save(tmp_path / "p.toml")
    return tmp_path / "p.toml"


def warm(*arguments):
    return CliRunner().invoke(app, ["warmup", "--size", "24x32", *map(str, arguments)])


def test_the_second_time_nothing_is_compiled(file):
    first, second = warm("-p", file, "--dtype", "float32"), warm("-p", file, "--dtype", "float32")
    assert first.exit_code == second.exit_code == 0, first.output
    assert str(file) in first.output
    assert "0 compiled" in second.output
    assert "All were there already." in second.output


@pytest.mark.parametrize("name", ["float", "float33", "complex64", "bool", "nn"])
def test_a_dtype_that_is_none_is_named(file, name):
    done = warm("-p", file, "--dtype", name)
    if name == "float":  # torch's own second name of float32
        assert done.exit_code == 0
        return
    assert done.exit_code == 2
    assert "--dtype" in done.output
    assert repr(name) in done.output


@pytest.mark.slow
def test_another_process_compiles_nothing(tmp_path):
    """Neither the way forward nor the way back, whatever is drawn."""
    Pipeline([RandomGaussianBlur(3, p=0.5)]).save(tmp_path / "p.toml")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    call = [sys.executable, "-m", "pellucid.cli", "warmup", "-p", tmp_path / "p.toml", "--size", "24x32"]
    first, second = (subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert "compiled and kept" in first
    assert "All were there already." in second
