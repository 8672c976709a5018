"""What happens while Numba compiles: it searches nothing twice, and whoever waits for it learns why.

Owns: `quick_compiling`, and the line that is said after a second.
Must not: import Numba before somebody compiles.
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
    """Around compiling, or waiting for a process that compiles: after a second in all, a line says why nothing else happens.

    It goes to the logger ``pellucid`` at the level INFO. Where that shows nothing, and somebody looks at the standard error (a
    terminal or a notebook), it is written there. Once in a process.
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
