"""Compiled code on disk: found by the next process, compiled by one process at a time, and never a reason for a call to fail.

Owns: `translated`, how Numba's functions are made; the files of compiled code, who may write which, and who compiles.
Must not: import Numba before somebody asks.
Read next: ``compiling.py``.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import importlib.util
import os
import pickle
import secrets
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

from pellucid.core.compilers.compiling import quick_compiling, said_if_long
from pellucid.core.compilers.processors import level_keys

__all__ = ["COMPILED", "claimed", "shipped_folders", "translated"]

COMPILED = Path(__file__).parents[2] / "compiled"
"""Machine code that came with the package, in wheels for one platform."""
_DIGEST = hashlib.sha256().digest_size
_told = False


def translated(function: Callable[..., Any], signature: str | None = None, *, stamp: str = "", **options: Any) -> Any:
    """A Numba function that is kept on disk where that is possible, and compiled in every process where it is not.

    Args:
        function: what to compile.
        signature: compile now, for these types alone; None compiles when it is called.
        stamp: what else the kept code depends on; Numba itself looks at the function's own file only.
        options: as for ``numba.njit``.
    """
    numba = importlib.import_module("numba")
    files: _Files | None
    try:
        made = numba.njit(cache=True, **options)(function)
        files = _keep(made._cache, stamp)
    except (RuntimeError, OSError) as error:  # no place to write to
        made, files = _unwritable(function, stamp, options, error)
    _attend(made, files)
    if signature is not None:
        made.compile(signature)
        made.disable_compile()
    return made


def _unwritable(function: Callable[..., Any], stamp: str, options: dict[str, Any], error: Exception) -> tuple[Any, _Files | None]:
    """A function whose code is read where it came with the package, and written nowhere."""
    numba = importlib.import_module("numba")
    usual = numba.config.CACHE_DIR
    try:
        with tempfile.TemporaryDirectory() as numba.config.CACHE_DIR:  # Numba asks for one, and never looks into it
            made = numba.njit(cache=True, **options)(function)
            return made, _keep(made._cache, stamp, error)
    except (RuntimeError, OSError):
        _tell("anywhere", error)
        return numba.njit(**options)(function), None
    finally:
        numba.config.CACHE_DIR = usual


def _attend(dispatcher: Any, files: _Files | None) -> None:
    """Compile quickly, and end what began when nothing was found on disk, whether or not there is a result."""
    compiling = dispatcher.compile

    def attended(signature: Any) -> Any:
        with quick_compiling(), said_if_long() if files is None else files.attempt():
            return compiling(signature)

    dispatcher.compile = attended


def _keep(cache: Any, stamp: str, unwritable: Exception | None = None) -> _Files:
    source = f"{cache._py_func.__module__} {stamp} {_content(cache)}"
    shared = importlib.import_module("numba").config.CACHE_DIR
    folder = Path(shared) / "pellucid" if shared else Path(cache.cache_path)
    files = cache._cache_file = _Files(None if unwritable else folder, cache._impl.filename_base, source, alone=not shared)
    files.unwritable = unwritable
    cache.load_overload, cache.save_overload = (_careful(cache, call) for call in (cache.load_overload, cache.save_overload))
    return files


def _content(cache: Any) -> str:
    """What stands for the function's file: its content where there is a file, so that equal files share their code."""
    try:
        return hashlib.sha256(Path(cache._py_func.__code__.co_filename).read_bytes()).hexdigest()
    except OSError:  # a notebook's cell, a zipped package
        return repr(cache._impl.locator.get_source_stamp())


def shipped_folders() -> list[Path]:
    """Where compiled code may come from beside the cache: with the package, and ``PELLUCID_KERNELS`` (``off``: from nowhere)."""
    named = os.environ.get("PELLUCID_KERNELS", "")
    return [] if named == "off" else [*([Path(named)] if named else ()), COMPILED]


class _Files:
    """One file for each compiled signature, named by what it was compiled from, and with a checksum.

    Numba numbers its files and keeps an index of them: two processes that compile at the same time take the same number, and one
    then runs the other's code. Names made of contents cannot collide, and where ``NUMBA_CACHE_DIR`` is set, equal sources share
    their files wherever they are installed.

    Args:
        folder: where files are written; None writes none.
        base: how names begin.
        source: what the code was made of.
        alone: whether other files whose name begins so are older versions of these.
    """

    unwritable: Exception | None = None

    def __init__(self, folder: Path | None, base: str, source: str, *, alone: bool) -> None:
        versions = (importlib.import_module(name).__version__ for name in ("numba", "llvmlite"))
        self._folder = folder
        self._source = " ".join((*versions, source))
        self._start = f"{base}.{_short(self._source)}"
        self._others = f"{base}.*.nbc" if alone else ""
        self._attempt = ExitStack()

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Inside, who finds nothing is the one that compiles it, and others wait for the result."""
        with ExitStack() as self._attempt:
            yield

    def load(self, key: Any) -> Any:
        """What `save` stored for this key, or None; then it is this process that makes it."""
        data = self._find(key)
        if data is None and self._folder is not None:
            if parent_process() is None:  # of many workers that wait for one, none needs to say so
                self._attempt.enter_context(said_if_long())
            self._attempt.enter_context(claimed(self._folder, self._name(key)))
            data = self._read(self._folder, key)  # by whoever had claimed it
        if data is None:
            self._attempt.enter_context(said_if_long())
        return data

    def _find(self, key: Any) -> Any:
        """Made here, or shipped: for this very processor, or for the best level that it has."""
        places = [(self._folder, key)] if self._folder is not None else []
        places += [(folder, one) for folder in shipped_folders() for one in (key, *level_keys(key))]
        return next((data for folder, one in places if (data := self._read(folder, one)) is not None), None)

    def _read(self, folder: Path, key: Any) -> Any:
        try:
            content = (folder / self._name(key)).read_bytes()
            if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
                return None
            source, stored, data = pickle.loads(content[_DIGEST:])
        except Exception:  # no file, or one of something else: `save` writes it anew
            return None
        return data if (source, stored) == (self._source, key) else None

    def save(self, key: Any, data: Any) -> None:
        """Write one file, whole or not at all."""
        if self._folder is None:
            _tell("anywhere", self.unwritable)
            return
        content = importlib.import_module("numba.core.serialize").dumps((self._source, key, data))
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f".{secrets.token_hex(8)}.nbc"
        try:
            draft.write_bytes(hashlib.sha256(content).digest() + content)
            draft.replace(self._folder / self._name(key))
        finally:
            draft.unlink(missing_ok=True)
        for other in self._folder.glob(self._others) if self._others else ():
            if not other.name.startswith(self._start):
                other.unlink(missing_ok=True)

    def _name(self, key: Any) -> str:
        return f"{self._start}.{_short(repr(key))}.nbc"


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


def _tell(where: str, error: Exception | None) -> None:
    global _told
    if not _told:
        _told = True
        warnings.warn(
            f"Compiled kernels cannot be kept {where} ({type(error).__name__}: {error}); they are compiled in every process. "
            "Make room there, or set NUMBA_CACHE_DIR to another folder.",
            stacklevel=3,
        )


fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None  # not on Windows

PATIENCE = 180.0
"""Seconds after which a process no longer waits: the holder may have been stopped."""
_PAUSE = 0.05
_PLACES = 1 << 30
_HELD_ELSEWHERE = {errno.EACCES, errno.EAGAIN}
# A byte of one file stands for each piece of code. The file stays open: a process that closes it would lose all its locks on it.
_opened: dict[Path, int] = {}


@contextmanager
def claimed(folder: Path, name: str) -> Iterator[None]:
    """Inside, no other process that shares this folder has claimed this name. Waits until that is so.

    The lock is the operating system's for ranges of a file: a killed process loses it, a forked one does not inherit it, and
    network file systems know it. A process that cannot have it goes on without it.
    """
    place = int(hashlib.sha256(name.encode()).hexdigest(), 16) % _PLACES
    file = _file(folder)
    held = file is not None and _wait_for(file, place)
    try:
        yield
    finally:
        if held and file is not None:
            with suppress(OSError):
                fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


def _file(folder: Path) -> int | None:
    if fcntl is None:
        return None
    if folder not in _opened:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _opened[folder] = os.open(folder / ".claims", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:  # a folder that others own, or that nobody writes to
            return None
    return _opened[folder]


def _wait_for(file: int, place: int) -> bool:
    given_up = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            return True
        except OSError as error:
            if error.errno not in _HELD_ELSEWHERE or time.monotonic() > given_up:
                return False
        time.sleep(_PAUSE)
