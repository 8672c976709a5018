"""The errors that users see, and the functions that word them.

Owns: the sentence structure of every error (name, expected, got, what to do).
Must not: read a tensor's values: errors come from shapes, dtypes and Python facts only.
Read next: ``types.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ImplementationError", "InvalidArgument", "InvalidType", "StoppedRun", "invalid", "needs", "wrong_type"]


_LONGEST = 400
"""The largest number of characters of a value, and of what to do, that an error shows."""


class InvalidArgument(ValueError):  # noqa: N818 - reads as what it says
    """An argument has the right type and the wrong value, shape or range."""


class InvalidType(TypeError):  # noqa: N818
    """An argument has the wrong type or dtype."""


class ImplementationError(RuntimeError):
    """An explicitly chosen ``impl=`` cannot compute the call; it never falls back silently."""


class StoppedRun(RuntimeError):  # noqa: N818
    """Training stopped by itself; the message says why and what to try."""


def invalid(name: str, *, expected: str, got: object, fix: str = "") -> InvalidArgument:
    """Return an :class:`InvalidArgument`: the argument's name, what was expected, what was passed, and what to do."""
    return InvalidArgument(_sentence(name, expected, got, fix))


def wrong_type(name: str, *, expected: str, got: object, fix: str = "") -> InvalidType:
    """Return an :class:`InvalidType`: the argument's name, what was expected, what was passed, and what to do."""
    return InvalidType(_sentence(name, expected, got, fix))


@contextmanager
def needs(what: str, package: str) -> Iterator[None]:
    """Wrap imports of optional packages: if one is missing, the error says what needs it and how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(f"{what} needs {error.name}: pip install {package}.", name=error.name) from error


def _sentence(name: str, expected: str, got: object, fix: str) -> str:
    return f"{name}: expected {expected}, got {_short(str(got))}." + (f" {_short(fix)}" if fix else "")


def _short(text: str) -> str:
    """Shorten a long text to its beginning and end."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
