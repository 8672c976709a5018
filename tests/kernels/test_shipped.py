"""Machine code that comes with the package or from another machine: used where it fits, and compiled anew where it does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pellucid
from pellucid import Normalize, Pipeline
from pellucid.cli import app
from pellucid.core.compilers import ahead, kept
from pellucid.core.compilers.processors import LEVELS, level_keys, levels_here

LEVEL = next(iter(levels_here()), None)
needs_level = pytest.mark.skipif(LEVEL is None, reason="this processor has none of the levels that code is shipped for")
KERNEL = """
from pellucid.core.compilers import translated

def twice(x):
    return 2 * x
"""
CALL = """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import kernel
    run = kernel.translated(kernel.twice)
    result = run(21)
print(result, sum(run.stats.cache_hits.values()), len(said))
"""


@pytest.fixture
def call(tmp_path):
    """Call a kernel in a process of its own: its result, 1 where the code was found, how many warnings."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    sources = str(Path(pellucid.__file__).resolve().parents[1])

    def run(cache, **variables):
        path = os.pathsep.join((str(tmp_path), sources))
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            "NUMBA_CACHE_DIR": str(tmp_path / cache),
            "PELLUCID_KERNELS": "off",
            **variables,
        }
        done = subprocess.run([sys.executable, "-c", CALL], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return tuple(int(word) for word in done.stdout.split())

    return run


@pytest.fixture
def shipped(call, tmp_path):
    assert call("there", NUMBA_CPU_NAME=LEVEL, NUMBA_CPU_FEATURES="") == (42, 0, 0)
    (file,) = (tmp_path / "there" / "pellucid").glob("*.nbc")
    return file


@needs_level
def test_code_for_the_level_is_used_and_nothing_is_written(call, shipped, tmp_path):
    assert call("here", PELLUCID_KERNELS=str(shipped.parent)) == (42, 1, 0)
    assert not list((tmp_path / "here").rglob("*.nbc"))


@needs_level
@pytest.mark.parametrize(
    "fault",
    [
        "a flipped bit",
        *(pytest.param(fault, marks=pytest.mark.slow) for fault in ("cut short", "of another source", "switched off")),
        "of another processor",
    ],
)
def test_code_that_does_not_fit_is_compiled_anew(fault, call, shipped, tmp_path):
    variables = {"PELLUCID_KERNELS": "off" if fault == "switched off" else str(shipped.parent)}
    content = shipped.read_bytes()
    if fault == "a flipped bit":
        middle = len(content) // 2
        shipped.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    if fault == "cut short":
        shipped.write_bytes(content[:1000])
    if fault == "of another source":
        (tmp_path / "kernel.py").write_text(KERNEL.replace("2 * x", "x + x"))
    if fault == "of another processor":
        variables["NUMBA_CPU_NAME"] = "generic"
    assert call("here", **variables) == (42, 0, 0)
    assert len(list((tmp_path / "here").rglob("*.nbc"))) == 1


@needs_level
@pytest.mark.parametrize("is_there", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_where_nothing_can_be_written_shipped_code_is_read_all_the_same(is_there, call, shipped, tmp_path):
    (tmp_path / "file").write_text("no folder")
    folder = str(shipped.parent) if is_there else "off"
    assert call("file", PELLUCID_KERNELS=folder) == ((42, 1, 0) if is_there else (42, 0, 1))


def test_a_level_needs_all_of_its_features():
    def names(features, triple="x86_64-unknown-linux-gnu"):
        return [key[1][1] for key in level_keys(("signature", (triple, "znver5", features), ("hash",)))]

    third, fourth = (",".join(f"+{one}" for one in LEVELS[name][1]) for name in ("x86-64-v3", "x86-64-v4"))
    assert names(third) == ["x86-64-v3"]
    assert names(fourth) == ["x86-64-v4", "x86-64-v3"]
    assert names(third.replace("+fma", "-fma")) == names("") == []
    assert names(fourth, "aarch64-unknown-linux-gnu") == []
    assert names("+neon", "aarch64-unknown-linux-gnu") == ["generic"]
    assert level_keys(("signature", ("x86_64-", "znver5", third), ("hash",))) == [
        ("signature", ("x86_64-", "x86-64-v3", ""), ("hash",))
    ]


def test_files_are_imported_whole(tmp_path, monkeypatch):
    for module in (ahead, kept):
        monkeypatch.setattr(module, "COMPILED", tmp_path / "compiled")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a.nbc").write_bytes(b"code")
    done = CliRunner().invoke(app, ["warmup", "--import", str(tmp_path / "there")])
    assert (done.exit_code, done.output.startswith("1 files")) == (0, True), done.output
    assert [file.name for file in (tmp_path / "compiled").iterdir()] == ["a.nbc"]
    assert kept.shipped_folders()[-1] == tmp_path / "compiled"


def test_what_cannot_be_imported_or_exported_is_said(tmp_path, monkeypatch):
    empty = CliRunner().invoke(app, ["warmup", "--import", str(tmp_path)])
    assert (empty.exit_code, "--export" in empty.output) == (2, True)
    (tmp_path / "a.nbc").write_bytes(b"code")
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(ahead, "COMPILED", tmp_path / "file")
    unwritable = CliRunner().invoke(app, ["warmup", "--import", str(tmp_path)])
    assert (unwritable.exit_code, "PELLUCID_KERNELS=" in unwritable.output) == (2, True)
    unknown = CliRunner().invoke(app, ["warmup", "--export", str(tmp_path), "--processor", "x86-64-v9"])
    assert (unknown.exit_code, "x86-64-v9" in unknown.output) == (2, True)


@needs_level
@pytest.mark.slow
def test_a_pipeline_is_exported_and_warm_elsewhere(tmp_path):
    Pipeline([Normalize((0.5,), (0.25,))]).save(tmp_path / "p.toml")
    arguments = ["warmup", "-p", str(tmp_path / "p.toml"), "--dtype", "float32", "--size", "16x16"]
    export = [*arguments, "--export", str(tmp_path / "there"), "--processor", LEVEL]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "here"), "PYTHONPATH": os.pathsep.join(sys.path)}
    for call, kernels, end in ((export, "off", "--import` with it."), (arguments, tmp_path / "there", "All were there already.")):
        variables = {**environment, "PELLUCID_KERNELS": str(kernels)}
        done = subprocess.run(
            [sys.executable, "-m", "pellucid.cli", *call], env=variables, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip().endswith(end), done.stdout
    assert list((tmp_path / "there").glob("*.nbc"))
    assert not list((tmp_path / "here").rglob("*.nbc"))
