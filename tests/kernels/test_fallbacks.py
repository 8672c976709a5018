"""Compilers that do not work, and a cache that cannot be used: Pellucid computes all the same, and says so once.

Each case runs in a process of its own, with a broken Numba, a switch, or a damaged cache around it.
"""

import contextlib
import io
import os
import subprocess
import sys
import types
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid.core import compilers
from pellucid.errors import ImplementationError
from pellucid.kernels.dispatch import choose

SOURCES = Path(pellucid.__file__).resolve().parents[1]

CALLS = """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import torch, pellucid
    x = torch.rand(2, 3, 8, 9, generator=torch.Generator().manual_seed(0), requires_grad=True)
    augment = pellucid.Pipeline([pellucid.RandomAffine(20), pellucid.ColorJitter(0.2, 0.2, 0.2, 0.1)], seed=1)
    outs = [augment(x, key=pellucid.Key(1, step)) for step in range(2)] + [augment(x.detach(), key=pellucid.Key(1, 2))]
    outs[0].square().sum().backward()
    mask = augment({"image": x.detach(), "mask": torch.ones(2, 8, 9, dtype=torch.int64)}, key=pellucid.Key(1, 3))["mask"]
ours = [str(w.message) for w in said if "Pellucid" in str(w.message) or "Compiled kernels" in str(w.message)]
print(*[f"said: {message}" for message in ours], sep="\\n")
total, slope = sum(out.detach().double().sum() for out in outs), x.grad.double().sum()
print("sum", round(float(total), 3), round(float(slope), 3), int(mask.sum()))
"""


def run(code=CALLS, path=(), **variables):
    """The lines a process prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((*map(str, path), str(SOURCES))), **variables}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()


@pytest.fixture(scope="module")
def wanted():
    """The numbers of the reference, which needs no compiler."""
    last = io.StringIO()
    with contextlib.redirect_stdout(last):
        exec(CALLS.replace("seed=1)", "seed=1, impl='reference')"), {})
    return last.getvalue().strip().splitlines()[-1]


def spoken(lines):
    return [line for line in lines if line.startswith("said")]


def test_numba_that_fails_to_import(tmp_path, wanted):
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text('raise ImportError("Numba needs NumPy 2.0 or less. Got NumPy 2.4.")\n')
    lines = run(path=(tmp_path,))
    assert len(spoken(lines)) == 1
    assert "Numba cannot be imported (Numba needs NumPy" in lines[0]
    assert lines[-1] == wanted


@pytest.mark.slow
def test_a_trace_with_numba_that_fails_to_import(tmp_path):
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text('raise ImportError("Numba needs NumPy 2.0 or less. Got NumPy 2.4.")\n')
    code = """
import warnings
warnings.simplefilter("ignore")
import torch, pellucid
x, key = torch.rand(2, 3, 8, 9), pellucid.Key(1, 2)
augment = pellucid.Pipeline([pellucid.RandomAffine(20)], seed=1)
fast = torch.compile(augment, fullgraph=True, backend="eager")
print(torch.equal(fast(x, key=key), augment(x, key=key)))
"""
    assert run(code, path=(tmp_path,)) == ["True"]


def test_numba_switched_off(wanted):
    lines = run(NUMBA_DISABLE_JIT="1")
    assert len(spoken(lines)) == 1
    assert "NUMBA_DISABLE_JIT" in lines[0]
    assert lines[-1] == wanted


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
@pytest.mark.parametrize("missing", ["driver", "C compiler"])
def test_a_device_for_which_triton_cannot_launch(missing, monkeypatch):
    if torch.cuda.is_available():
        pytest.skip("there is a device")
    monkeypatch.setattr(compilers, "_triton", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.delitem(sys.modules, "pellucid.core.compilers.triton_probe", raising=False)
    expected = r"(AssertionError: libcuda|RuntimeError: 0 active drivers)"  # what Triton says where there is no device
    if missing == "C compiler":
        expected = "RuntimeError: Failed to find C compiler"
        sys.modules["pellucid.core.compilers.triton_probe"] = probe = types.ModuleType("pellucid.core.compilers.triton_probe")

        def launchable():
            raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable.")

        probe.launchable = launchable
    with pytest.warns(UserWarning, match=rf"Triton cannot compile for this device \({expected}") as told:
        names = [choose("auto", available=("triton", "reference"), device="cuda") for _ in range(2)]
    assert names == ["reference"] * 2
    assert len(told) == 1
    assert "C compiler" in str(told[0].message)
    with pytest.raises(ImplementationError, match="needs Triton, which does not work here"):
        choose("triton", available=("triton", "reference"), device="cuda")
    monkeypatch.delitem(sys.modules, "pellucid.core.compilers.triton_probe", raising=False)


@pytest.mark.slow  # everything is compiled anew
@pytest.mark.parametrize("damage", ["full disk", "no folder"])
def test_a_cache_that_cannot_be_used(damage, wanted, tmp_path):
    variables = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    if damage == "full disk":
        full = "def full(self, data): raise OSError(28, 'No space left on device')\n"
        code = f"import pathlib\n{full}pathlib.Path.write_bytes = full\n{CALLS}"
    if damage == "no folder":  # in any of the places where Numba looks for one
        nowhere = "def nowhere(self): raise OSError(30, 'Read-only file system')\n"
        code = f"import numba.core.caching as caching\n{nowhere}caching._CacheLocator.ensure_cache_path = nowhere\n{CALLS}"
    lines = run(code, **variables)
    assert len(spoken(lines)) == 1
    assert "Compiled kernels cannot be kept" in lines[0]
    assert "NUMBA_CACHE_DIR" in lines[0]
    assert lines[-1] == wanted


KERNEL = """
import numpy as np
from pellucid.kernels.jit import entry

@entry
def run(x):
    x[0] = 2.0
"""


def test_a_damaged_file_is_written_anew(tmp_path):
    (tmp_path / "kernel.py").write_text(KERNEL)
    code = """
import sys, warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import numpy as np, kernel
    x = np.ones(1)
    kernel.run(x)
    kernel.run(x.astype(np.float32))
print(x[0], len(said), sum(kernel.run.stats.cache_hits.values()))
"""
    cache = tmp_path / "cache"

    def again():
        return run(code, path=(tmp_path,), NUMBA_CACHE_DIR=str(cache))

    assert again() == ["2.0 0 0"]
    assert again() == ["2.0 0 2"]
    files = list(cache.rglob("*.nbc"))
    for file, length in zip(files, (0, 100), strict=True):
        file.write_bytes(file.read_bytes()[:length])
    assert again() == ["2.0 0 0"]
    assert again() == ["2.0 0 2"]
