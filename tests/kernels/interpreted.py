"""Running Triton's kernels in tests: on the GPU where there is one, else by Triton's interpreter on CPU tensors."""

import numpy as np
import pytest
import torch

_PATCHED = set()
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def runs(monkeypatch):
    """Skip without Triton. The interpreter computes both sides of every choice, so its NumPy warnings mean nothing."""
    pytest.importorskip("triton", reason="Triton is not installed")
    if DEVICE == "cuda":
        yield
        return
    from triton.runtime import interpreter

    # A kernel patches Triton's language; by default every function it calls does so again, which takes half of the time. Once
    # for each module is enough, since only the kernel's own patch is ever taken back.
    def call(function, *args, **kwargs):
        if function.fn.__module__ not in _PATCHED:
            _PATCHED.add(function.fn.__module__)
            interpreter._patch_lang(function.fn)
        return function.rewrite()(*args, **kwargs)

    monkeypatch.setattr(interpreter.InterpretedFunction, "__call__", call)
    with np.errstate(all="ignore"):
        yield
