"""Running Triton's kernels in tests: on the GPU where there is one, else by Triton's interpreter on CPU tensors."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from pellucid.kernels import dispatch

_PATCHED = set()
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def at_length(examples):
    """How many examples a slow test tries: all on a GPU, a quarter by the interpreter, which takes seconds for each."""
    return examples if DEVICE == "cuda" else examples // 4


def _bits_of(data, source, target):
    """Bits of bfloat16 from float32, rounded to nearest even as the compiled kernels round, and the way back; else None.

    Triton's interpreter cuts off instead of rounding, and loses subnormal numbers.
    """
    if (source.name, target.name) == ("bf16", "fp32"):
        return data.astype(np.uint32) << 16
    if (source.name, target.name) == ("fp32", "bf16"):
        bits = np.ascontiguousarray(data).view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
        return np.where(np.isnan(data), np.uint32(0x7FC0), rounded).astype(np.uint16).reshape(data.shape)
    return None


def _clamp(builder, arg, low, high, propagate):
    """As a device clamps: NaN becomes the low end, unless it is asked to stay."""
    kept = "ALL" in str(propagate)
    hold = np.clip if kept else lambda x, a, b: np.fmin(np.fmax(x, a), b)
    return builder.ternary_op(arg, low, high, hold)


def _remembered(number):
    """NumPy's type for Triton's: a table that the interpreter would make anew for every operation."""
    known = {}

    def found(kind):
        name = kind.scalar.name
        if name not in known:
            known[name] = number(kind.scalar)
        return known[name]

    return found


@contextmanager
def interpreting(monkeypatch):
    """Skip without Triton. The interpreter computes both sides of every choice, so its NumPy warnings mean nothing.

    Its maximum and minimum give NaN where one side is NaN, a device's the other side: here they do as a device's.
    """
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

    original = interpreter._convert_float

    def convert(data, source, target, rounding):
        bits = _bits_of(data, source, target)
        return original(data, source, target, rounding) if bits is None else bits

    monkeypatch.setattr(interpreter.InterpretedFunction, "__call__", call)
    monkeypatch.setattr(interpreter, "_convert_float", convert)
    # It would widen every sum of integers to see whether it leaves its 32 bits, which takes half of the time. No picture here is
    # so large; tests/kernels/test_triton_offsets.py holds which offsets take 64 bits.
    options = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)
    monkeypatch.setattr(interpreter.interpreter_builder, "options", options)
    monkeypatch.setattr(interpreter, "_get_np_dtype", _remembered(interpreter._get_np_dtype))
    builder = interpreter.InterpreterBuilder
    monkeypatch.setattr(builder, "create_maxnumf", lambda self, a, b: self.binary_op(a, b, np.fmax))
    monkeypatch.setattr(builder, "create_minnumf", lambda self, a, b: self.binary_op(a, b, np.fmin))
    monkeypatch.setattr(builder, "create_clampf", _clamp)
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(autouse=True)
def runs(monkeypatch):
    """For files whose tests all run so."""
    with interpreting(monkeypatch):
        yield


@pytest.fixture(autouse=True)
def anywhere(monkeypatch):
    """For files that choose Triton by name: its kernels run on the tests' device."""
    monkeypatch.setattr(dispatch, "_runs_on", lambda name, device: True)
