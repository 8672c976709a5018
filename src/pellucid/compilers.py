"""Whether the compilers work here, and a cache on disk that never breaks a call.

Owns: `numba_works` and `triton_works`, tried once and said once if not, and `translated`, how Numba's functions are made.
Must not: import Numba or Triton before somebody asks.
Read next: ``kernels/dispatch.py``.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

__all__ = ["numba_works", "translated", "triton_works"]

_numba: bool | None = None
_triton: bool | None = None
_told = False


def numba_works() -> bool:
    """Whether Numba can be imported and compiles. Tried once; a failure gives one warning."""
    return _try_numba() if _numba is None else _numba


def triton_works() -> bool:
    """Whether Triton can be imported. Tried once; a failure gives one warning. It comes with torch's builds for CUDA on Linux."""
    return _try_triton() if _triton is None else _triton


# A trace cannot import, and must not depend on whether somebody has: Dynamo calls these and takes their answers for constants. The
# decorator that says so would import Dynamo, which takes as long as torch.
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
    try:
        importlib.import_module("triton")
        _triton = True
    except Exception as error:  # a broken installation raises many things
        _triton = False
        warnings.warn(f"Triton cannot be imported ({error}); Pellucid computes on CUDA with its slow reference.", stacklevel=3)
    return _triton


def translated(function: Callable[..., Any], signature: str | None = None, *, stamp: str = "", **options: Any) -> Any:
    """A Numba function that is kept on disk where that is possible, and compiled in every process where it is not.

    Args:
        function: what to compile.
        signature: compile now, for these types alone; None compiles when it is called.
        stamp: what else the kept code depends on; Numba itself looks at the function's own file only.
        options: as for ``numba.njit``.
    """
    njit = importlib.import_module("numba").njit
    try:
        made = njit(cache=True, **options)(function)
        _make_careful(made._cache, stamp)
    except (RuntimeError, OSError) as error:  # no place to write a cache to
        _tell("anywhere", error)
        made = njit(**options)(function)
    if signature is not None:
        made.compile(signature)
        made.disable_compile()
    return made


def _make_careful(cache: Any, stamp: str) -> None:
    key_of = cache._index_key
    cache._index_key = lambda signature, codegen: (*key_of(signature, codegen), stamp)
    cache.load_overload, cache.save_overload = (_careful(cache, call) for call in (cache.load_overload, cache.save_overload))


def _careful(cache: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """Go on without the cache where it fails: a full disk, a file cut short, a file of another user."""

    def attempt(*arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as error:
            cache.disable()
            _tell(f"in {cache.cache_path}", error)
            return None  # as if nothing were there

    return attempt


def _tell(where: str, error: Exception) -> None:
    global _told
    if not _told:
        _told = True
        warnings.warn(
            f"Compiled kernels cannot be kept {where} ({type(error).__name__}: {error}); they are compiled in every process. "
            "Make room there, delete damaged .nbi and .nbc files, or set NUMBA_CACHE_DIR to another folder.",
            stacklevel=3,
        )
