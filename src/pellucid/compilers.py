"""Whether the compilers work here, and a cache on disk that never breaks a call or mixes up two.

Owns: `numba_works` and `triton_works`, tried once and said once if not; `translated`, how Numba's functions are made, and
`quick_compiling`, inside which Numba searches nothing twice.
Must not: import Numba or Triton before somebody asks.
Read next: ``kernels/dispatch.py``.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import os
import pickle
import secrets
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

__all__ = ["numba_works", "quick_compiling", "translated", "triton_works"]

_numba: bool | None = None
_triton: bool | None = None
_told = False


def numba_works() -> bool:
    """Whether Numba can be imported and compiles. Tried once; a failure gives one warning."""
    return _try_numba() if _numba is None else _numba


def triton_works() -> bool:
    """Whether Triton can be imported and, where there is a CUDA device, can launch there. Tried once; a failure gives one warning.

    It comes with torch's builds for CUDA on Linux.
    """
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
    failed = "cannot be imported"
    try:
        importlib.import_module("triton")
        failed = "cannot compile for this device"
        if torch.cuda.is_available() and not os.environ.get("TRITON_INTERPRET"):
            importlib.import_module("pellucid.triton_probe").launchable()
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
        with quick_compiling():
            made.compile(signature)
        made.disable_compile()
    return made


_signatures: dict[Any, Any] = {}


@contextmanager
def quick_compiling() -> Iterator[None]:
    """Inside, Numba compiles faster, to the same machine code.

    The signature of a builtin function for the same types is found once. Numba would search all variants of ``+``, say, at every
    use, in every round of its inference, and once more where it writes code: a fifth of all compiling. Garbage is not collected: a
    sixth of the time would go into objects of the compiler that are all in use.
    """
    functions = importlib.import_module("numba.core.types.functions").BaseFunction
    with importlib.import_module("numba.core.compiler_lock").global_compiler_lock:
        search, collecting = functions.get_call_type, gc.isenabled()

        def remember(self: Any, context: Any, args: Any, kws: Any) -> Any:
            key = id(self), id(context), tuple(args), tuple(kws.items()) if kws else ()
            if key in _signatures:
                return _signatures[key][0]
            found = search(self, context, args, kws)
            if found.return_type.is_precise():
                _signatures[key] = found, self, context  # whose ids are theirs while they are kept
            return found

        functions.get_call_type = search if search.__module__ == __name__ else remember
        gc.disable()
        try:
            yield
        finally:
            functions.get_call_type = search
            if collecting:
                gc.enable()


def _make_careful(cache: Any, stamp: str) -> None:
    source = f"{cache._py_func.__module__} {stamp} {cache._impl.locator.get_source_stamp()!r}"
    cache._cache_file = _Files(Path(cache.cache_path), cache._impl.filename_base, source)
    cache.load_overload, cache.save_overload = (_careful(cache, call) for call in (cache.load_overload, cache.save_overload))


class _Files:
    """One file for each compiled signature, named by what it was compiled from.

    Numba numbers its files and keeps an index of them: two processes that compile at the same time take the same number, and one
    then runs the other's code. Names made of contents cannot collide, and where ``NUMBA_CACHE_DIR`` is set, equal sources share
    their files wherever they are installed.
    """

    def __init__(self, folder: Path, base: str, source: str) -> None:
        numba = importlib.import_module("numba")
        shared = numba.config.CACHE_DIR
        self._folder = Path(shared) / "pellucid" if shared else folder
        self._source = f"{numba.__version__} {source}"
        self._start = f"{base}.{_short(self._source)}"
        self._others = "" if shared else f"{base}.*.nbc"  # what an edited source leaves behind

    def load(self, key: Any) -> Any:
        """What `save` stored for this key, or None."""
        try:
            source, stored, data = pickle.loads(self._path(key).read_bytes())
        except Exception:  # no file, or one cut short: `save` writes it anew
            return None
        return data if (source, stored) == (self._source, key) else None

    def save(self, key: Any, data: Any) -> None:
        """Write one file, whole or not at all."""
        path = self._path(key)
        content = importlib.import_module("numba.core.serialize").dumps((self._source, key, data))
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{secrets.token_hex(8)}.nbc")
        try:
            draft.write_bytes(content)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        for other in self._folder.glob(self._others) if self._others else ():
            if not other.name.startswith(self._start):
                other.unlink(missing_ok=True)

    def _path(self, key: Any) -> Path:
        return self._folder / f"{self._start}.{_short(repr(key))}.nbc"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _careful(cache: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """Go on without the cache where it fails: a full disk, a folder of another user."""

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
            "Make room there, or set NUMBA_CACHE_DIR to another folder.",
            stacklevel=3,
        )
