"""Make Numba compile faster, and tell the user why a call takes long.

Owns: `quick_compiling`, and the message that appears after a second of compiling.
Must not: import Numba before a function is compiled.
Read next: ``kept.py``.
"""

from __future__ import annotations

import gc
import importlib
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["quick_compiling", "said_if_long"]

_signatures: dict[Any, Any] = {}


@contextmanager
def quick_compiling() -> Iterator[None]:
    """Inside, Numba compiles faster, to the same machine code.

    The signature of a builtin function is looked up once for the same types. By itself, Numba searches all variants of ``+``, say,
    at every use, in every round of type inference, and again when it generates code: a fifth of the compile time. Garbage
    collection is off: it would take a sixth of the time and find only objects that the compiler still uses.
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
                _signatures[key] = found, self, context  # kept alive, so that no other object gets their ids
            return found

        functions.get_call_type = search if search.__module__ == __name__ else remember
        gc.disable()
        try:
            yield
        finally:
            functions.get_call_type = search
            if collecting:
                gc.enable()


_AFTER = 1.0
_MESSAGE = (
    "Pellucid compiles kernels for this processor. This happens once for each kind of pipeline and takes some seconds; "
    "`pellucid warmup` does it ahead."
)
_spent = 0.0
_working = False
_said = False


@contextmanager
def said_if_long() -> Iterator[None]:
    """Wrap compiling, or waiting for another process that compiles: after one second in total, a message says what is going on.

    The message goes to the logger ``pellucid`` at the level INFO. If that logger is silent and the standard error is a terminal
    or a notebook, it is printed there. It appears once in a process.
    """
    global _spent, _working
    if _said or _working:
        yield
        return
    _working, start = True, time.monotonic()
    timer = threading.Timer(max(0.0, _AFTER - _spent), _say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        _working, _spent = False, _spent + time.monotonic() - start


def _say() -> None:
    global _said
    if _said:
        return
    _said = True
    logger = logging.getLogger("pellucid")
    if logger.isEnabledFor(logging.INFO) and logger.hasHandlers():
        logger.info(_MESSAGE)
    elif (sys.stderr is not None and sys.stderr.isatty()) or "ipykernel" in sys.modules:
        print(_MESSAGE, file=sys.stderr, flush=True)
