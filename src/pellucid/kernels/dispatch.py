"""Which implementation runs: a pure function of Python facts, printable and tested as a table.

Owns: the meaning of ``impl=``, and whether Numba and Triton are there.
Must not: look at tensor values, or fall back from an explicit choice.
Read next: ``warp/__init__.py``.
"""

from __future__ import annotations

import importlib
import warnings
from importlib.util import find_spec

import torch

from pellucid.errors import ImplementationError, invalid

__all__ = ["IMPLEMENTATIONS", "choose", "numba_works", "triton_works"]

IMPLEMENTATIONS = ("reference", "cpu", "triton")

_FOUND = find_spec("numba") is not None
_numba: bool | None = None
_TRITON_FOUND = find_spec("triton") is not None
_triton: bool | None = None


def choose(impl: str, *, available: tuple[str, ...], device: str, unsupported: str = "") -> str:
    """Resolve ``impl`` to the name of an implementation, or raise.

    Args:
        impl: ``auto`` or an explicit name.
        available: the names that exist for this primitive, fastest first.
        device: the device type of the data (``cpu``, ``cuda``, ...).
        unsupported: what in this call only the reference can do; empty when the others can do it too.
    """
    if impl == "auto":
        return next(
            name for name in available if name == "reference" or (_runs_on(name, device) and not unsupported and _installed(name))
        )
    if impl not in IMPLEMENTATIONS:
        raise invalid("impl", expected=f"one of {('auto', *IMPLEMENTATIONS)}", got=repr(impl))
    if impl not in available:
        raise ImplementationError(f"impl={impl!r} does not exist for this primitive (there is {available}). Use impl='auto'.")
    if not _runs_on(impl, device):
        raise ImplementationError(f"impl={impl!r} does not run on {device!r} tensors. Use impl='auto', or move the batch.")
    if impl != "reference" and unsupported:
        raise ImplementationError(f"impl={impl!r} cannot do {unsupported}. Use impl='reference', or impl='auto', which picks it.")
    if not _installed(impl):
        needed = {"cpu": "Numba", "triton": "Triton"}[impl]
        raise ImplementationError(
            f"impl={impl!r} needs {needed}, which cannot be imported. Install {needed.lower()}, or use impl='reference'."
        )
    return impl


def _runs_on(name: str, device: str) -> bool:
    return name == "reference" or {"cpu": "cpu", "triton": "cuda"}[name] == device


def _installed(name: str) -> bool:
    return name == "reference" or {"cpu": numba_works, "triton": triton_works}[name]()


def numba_works() -> bool:
    """Whether Numba can be imported; tried once, and said once if not."""
    # A trace cannot import, and must not depend on whether somebody has: what the import system knows has to do.
    if torch.compiler.is_compiling():
        return _FOUND
    return _try_numba() if _numba is None else _numba


def _try_numba() -> bool:
    global _numba
    try:
        importlib.import_module("numba")
        _numba = True
    except Exception as error:  # a broken installation raises many things
        _numba = False
        warnings.warn(f"Numba cannot be imported ({error}); Pellucid computes on the CPU with its slow reference.", stacklevel=2)
    return _numba


def triton_works() -> bool:
    """Whether Triton can be imported; tried once, and said once if not. It comes with torch's builds for CUDA on Linux."""
    if torch.compiler.is_compiling():
        return _TRITON_FOUND
    return _try_triton() if _triton is None else _triton


def _try_triton() -> bool:
    global _triton
    try:
        importlib.import_module("triton")
        _triton = True
    except Exception as error:  # a broken installation raises many things
        _triton = False
        warnings.warn(f"Triton cannot be imported ({error}); Pellucid computes on CUDA with its slow reference.", stacklevel=2)
    return _triton
