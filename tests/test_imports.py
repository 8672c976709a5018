"""Importing pellucid is quick and changes nothing."""

import subprocess
import sys


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_heavy_libraries_wait_until_needed():
    heavy = ("numba", "triton", "matplotlib", "skimage", "typer", "cv2", "scipy")
    loaded = run(f"import sys, pellucid; print([m for m in {heavy} if m in sys.modules])")
    assert loaded == "[]"


def test_no_global_side_effects():
    code = """
import torch
state, threads, dtype = torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype()
import pellucid
pellucid.RandomAffine(10)(torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)))
print(torch.equal(state, torch.get_rng_state()), threads == torch.get_num_threads(), dtype == torch.get_default_dtype())
"""
    assert run(code) == "True True True"
