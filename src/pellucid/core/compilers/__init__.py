"""Do Numba and Triton work on this machine? And the entry to compiling with Numba, once for each machine.

Owns: `numba_works` and `triton_works`, which try once and warn once on failure.
Must not: import Numba or Triton before one of these functions is called.
Read next: ``kept.py``, ``compiling.py``.
"""

from __future__ import annotations

import importlib
import os
import warnings

import torch

from pellucid.core.compilers.compiling import quick_compiling
from pellucid.core.compilers.kept import translated

__all__ = ["numba_works", "quick_compiling", "translated", "triton_works"]

_numba: bool | None = None
_triton: bool | None = None


def numba_works() -> bool:
    """Return whether Numba can be imported and its compiler is on. Tried once; a failure gives one warning."""
    return _try_numba() if _numba is None else _numba


def triton_works() -> bool:
    """Return whether Triton can be imported and, if there is a CUDA device, can launch there. Tried once; a failure warns once.

    Triton comes with torch's builds for CUDA on Linux.
    """
    return _try_triton() if _triton is None else _triton


# A trace cannot import modules, and must not depend on which are imported. So Dynamo calls these two functions, and treats their
# answers as constants. torch's decorator for this would import Dynamo, which takes as long as importing torch.
for _works in (numba_works, triton_works):
    _works._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _try_numba() -> bool:
    global _numba
    try:
        switched_off = importlib.import_module("numba").config.DISABLE_JIT
        what = "is switched off (NUMBA_DISABLE_JIT)" if switched_off else ""
    except Exception as error:  # a broken installation raises many things
        what = f"cannot be imported ({error})"
    _numba = not what
    if what:
        warnings.warn(f"Numba {what}; Pellucid computes on the CPU with its slow reference.", stacklevel=3)
    return _numba


def _try_triton() -> bool:
    global _triton
    failed = "cannot be imported"
    try:
        importlib.import_module("triton")
        failed = "cannot compile for this device"
        if torch.cuda.is_available() and not os.environ.get("TRITON_INTERPRET"):
            importlib.import_module("pellucid.core.compilers.triton_probe").launchable()
        failed = ""
    except Exception as error:  # a broken installation raises many things
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        warnings.warn(
            f"Triton {failed} ({reason}); Pellucid computes on CUDA with its slow reference. Triton needs a "
            "driver and a device that it knows, and a C compiler (gcc or clang; CC names it).",
            stacklevel=3,
        )
    _triton = not failed
    return _triton
