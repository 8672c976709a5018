"""The disk cache of compiled code: one process compiles, the others wait and load, and a broken cache never makes a call fail.

Owns: `translated`, which makes every Numba function; the files of compiled code; the locks that decide which process compiles.
Must not: import Numba before a function is made.
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
"""The folder of machine code that wheels for one platform bring along."""
_DIGEST = hashlib.sha256().digest_size
_told = False


def translated(function: Callable[..., Any], signature: str | None = None, *, stamp: str = "", **options: Any) -> Any:
    """Make a Numba function whose code is cached on disk; if no folder is writable, every process compiles it anew.

    Args:
        function: the Python function to compile.
        signature: compile now, for these types alone; None compiles at the first call.
        stamp: identifies everything else that the code depends on; Numba itself only looks at the function's own file.
        options: as for ``numba.njit``.
    """
    numba = importlib.import_module("numba")
    files: _Files | None
    try:
        made = numba.njit(cache=True, **options)(function)
        files = _keep(made._cache, stamp)
    except (RuntimeError, OSError) as error:  # no writable folder
        made, files = _unwritable(function, stamp, options, error)
    _attend(made, files)
    if signature is not None:
        made.compile(signature)
        made.disable_compile()
    return made


def _unwritable(function: Callable[..., Any], stamp: str, options: dict[str, Any], error: Exception) -> tuple[Any, _Files | None]:
    """Make a Numba function that loads code shipped with the package, and writes none."""
    numba = importlib.import_module("numba")
    usual = numba.config.CACHE_DIR
    try:
        with tempfile.TemporaryDirectory() as numba.config.CACHE_DIR:  # Numba requires a folder, but reads nothing there
            made = numba.njit(cache=True, **options)(function)
            return made, _keep(made._cache, stamp, error)
    except (RuntimeError, OSError):
        _tell("anywhere", error)
        return numba.njit(**options)(function), None
    finally:
        numba.config.CACHE_DIR = usual


def _attend(dispatcher: Any, files: _Files | None) -> None:
    """Make the dispatcher compile quickly, and release the lock and the timer that `_Files.load` began, even if compiling fails."""
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
    """Return a stamp of the function's file: a hash of its content if there is a file, so that equal files share their code."""
    try:
        return hashlib.sha256(Path(cache._py_func.__code__.co_filename).read_bytes()).hexdigest()
    except OSError:  # a notebook's cell, a zipped package
        return repr(cache._impl.locator.get_source_stamp())


def shipped_folders() -> list[Path]:
    """Return the folders of compiled code besides the cache: that of ``PELLUCID_KERNELS`` and the package's (``off``: none)."""
    named = os.environ.get("PELLUCID_KERNELS", "")
    return [] if named == "off" else [*([Path(named)] if named else ()), COMPILED]


class _Files:
    """The cache files of one function: one for each compiled signature, with a checksum, named by a hash of its source.

    Numba numbers its files and keeps an index: two processes that compile at the same time take the same number, and one then
    runs the other's code. Names made of content hashes cannot collide. If ``NUMBA_CACHE_DIR`` is set, equal sources share their
    files wherever they are installed.

    Args:
        folder: where files are written; None writes none.
        base: the beginning of all file names.
        source: identifies the source that the code is compiled from.
        alone: whether other files with the same beginning are older versions of these, to be deleted.
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
        """Inside, the process whose `load` finds nothing holds the lock and compiles; other processes wait for its result."""
        with ExitStack() as self._attempt:
            yield

    def load(self, key: Any) -> Any:
        """Return what `save` stored for this key, or None: then this process has to compile it."""
        data = self._find(key)
        if data is None and self._folder is not None:
            if parent_process() is None:  # workers that wait print no message, or there would be one for each
                self._attempt.enter_context(said_if_long())
            self._attempt.enter_context(claimed(self._folder, self._name(key)))
            data = self._read(self._folder, key)  # the process that held the lock may have written it
        if data is None:
            self._attempt.enter_context(said_if_long())
        return data

    def _find(self, key: Any) -> Any:
        """Look into the cache, then into the shipped folders: for this very processor first, then for its levels."""
        places = [(self._folder, key)] if self._folder is not None else []
        places += [(folder, one) for folder in shipped_folders() for one in (key, *level_keys(key))]
        return next((data for folder, one in places if (data := self._read(folder, one)) is not None), None)

    def _read(self, folder: Path, key: Any) -> Any:
        try:
            content = (folder / self._name(key)).read_bytes()
            if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
                return None
            source, stored, data = pickle.loads(content[_DIGEST:])
        except Exception:  # no file, or a damaged one: `save` writes it anew
            return None
        return data if (source, stored) == (self._source, key) else None

    def save(self, key: Any, data: Any) -> None:
        """Write one file atomically, and delete older versions."""
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
    """Wrap a call of the cache: if it fails (a full disk, a folder of another user), go on without the cache."""

    def attempt(*arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as error:
            cache.disable()
            _tell(f"in {cache.cache_path}", error)
            return None  # a cache miss

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
"""Seconds that a process waits at most: the process with the lock may be suspended."""
_PAUSE = 0.05
_PLACES = 1 << 30
_HELD_ELSEWHERE = {errno.EACCES, errno.EAGAIN}
# Each piece of code has one byte of a lock file. The file stays open: closing it would release all locks of the process.
_opened: dict[Path, int] = {}


@contextmanager
def claimed(folder: Path, name: str) -> Iterator[None]:
    """Hold this folder's lock for this name; wait until the other process that holds it lets go.

    It is the operating system's lock for a range of a file: it ends with a killed process, a forked process does not inherit it,
    and network file systems support it. A process that cannot get the lock goes on without it.
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
        except OSError:  # a folder that belongs to another user or is read-only
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
