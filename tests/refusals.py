"""A refusal in one line: the call, the error that it raises, and words of the message."""

from collections.abc import Callable

import pytest


def refused(error: type[Exception] | tuple[type[Exception], ...], words: str, call: Callable, /, *given, **options) -> None:
    """A call raises ``error``, and its message has the regular expression ``words``."""
    with pytest.raises(error, match=words):
        call(*given, **options)
