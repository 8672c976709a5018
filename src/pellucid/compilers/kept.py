"""Compiled code on disk: found by the next process, compiled by one process at a time, and never a reason for a call to fail.

Owns: `translated`, how Numba's functions are made; the files of compiled code, and who may write which.
Must not: import Numba before somebody asks.
Read next: ``compiling.py``.
"""

from __future__ import annotations

import hashlib
import importlib
import pickle
import secrets
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

from pellucid.compilers.claims import claimed
from pellucid.compilers.compiling import quick_compiling, said_if_long

__all__ = ["translated"]

_told = False


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
        files = _make_careful(made._cache, stamp)
    except (RuntimeError, OSError) as error:  # no place to write a cache to
        _tell("anywhere", error)
        made, files = njit(**options)(function), None
    _attend(made, files)
    if signature is not None:
        made.compile(signature)
        made.disable_compile()
    return made


def _attend(dispatcher: Any, files: _Files | None) -> None:
    """Compile quickly, and end what began when nothing was found on disk, whether or not there is a result."""
    compiling = dispatcher.compile

    def attended(signature: Any) -> Any:
        with quick_compiling(), said_if_long() if files is None else files.attempt():
            return compiling(signature)

    dispatcher.compile = attended


def _make_careful(cache: Any, stamp: str) -> _Files:
    source = f"{cache._py_func.__module__} {stamp} {cache._impl.locator.get_source_stamp()!r}"
    files = cache._cache_file = _Files(Path(cache.cache_path), cache._impl.filename_base, source)
    cache.load_overload, cache.save_overload = (_careful(cache, call) for call in (cache.load_overload, cache.save_overload))
    return files


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
        self._attempt = ExitStack()

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Inside, who finds nothing is the one that compiles it, and others wait for the result."""
        with ExitStack() as self._attempt:
            yield

    def load(self, key: Any) -> Any:
        """What `save` stored for this key, or None; then it is this process that makes it."""
        data = self._read(key)
        if data is None:
            if parent_process() is None:  # of many workers that wait for one, none needs to say so
                self._attempt.enter_context(said_if_long())
            self._attempt.enter_context(claimed(self._folder, self._path(key).name))
            data = self._read(key)  # by whoever had claimed it
        if data is None:
            self._attempt.enter_context(said_if_long())
        return data

    def _read(self, key: Any) -> Any:
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
