"""The audit inside pytest: ``@audited`` on a test that returns the subject of an audit, and the option ``--pellucid-audit``.

Owns: the decorator, and the option that turns the decorated tests on.
Must not: import pytest before pytest has; the decorator works without the plugin.
Read next: ``run.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from pellucid.audit.run import assert_clean
from pellucid.errors import wrong_type

__all__ = ["audited", "pytest_addoption", "pytest_collection_modifyitems"]

_MARK = "__pellucid_audited__"
_PAIR = (2, 3)


def audited(
    test: Callable[..., Any] | None = None, /, *, allow: Iterable[str] = (), level: str = "warning", **options: Any
) -> Callable[..., Any]:
    """Turn a test that returns ``(callable, inputs)`` or ``(callable, inputs, params)`` into an audit of that callable.

    With the plugin (``pytest -p pellucid.audit.plugin``, or ``pytest_plugins = ["pellucid.audit.plugin"]`` in ``conftest.py``),
    such tests run only under ``--pellucid-audit``; without the plugin they always run.

    Args:
        test: The test function.
        allow: Findings to accept, as in :func:`~pellucid.audit.assert_clean`.
        level: The mildest severity that fails.
        **options: Fields of :class:`~pellucid.audit.Settings`.

    Returns:
        A test function of the same name, without arguments.

    Errors:
        As :func:`~pellucid.audit.assert_clean`, when the test runs.

    Example:
        >>> import torch
        >>> from pellucid.audit import audited
        >>> @audited(quick=True)
        ... def test_tanh():
        ...     return torch.tanh, torch.rand(2, 8)
        >>> test_tanh()
    """
    if test is None:
        return functools.partial(audited, allow=allow, level=level, **options)

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        pair = test(*args, **kwargs)
        if not isinstance(pair, tuple) or len(pair) not in _PAIR:
            expected = "(callable, inputs) or (callable, inputs, params)"
            raise wrong_type(f"the result of {test.__name__}", expected=expected, got=pair)
        assert_clean(*pair, allow=allow, level=level, **options)

    setattr(run, _MARK, True)
    return run


def pytest_addoption(parser: Any) -> None:
    """Add ``--pellucid-audit``."""
    group = parser.getgroup("pellucid")
    group.addoption("--pellucid-audit", action="store_true", default=False, help="run the tests marked with pellucid's @audited")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Skip audited tests without ``--pellucid-audit``."""
    if config.getoption("--pellucid-audit"):
        return
    import pytest

    skip = pytest.mark.skip(reason="an audit: run with --pellucid-audit")
    for item in items:
        if getattr(getattr(item, "function", None), _MARK, False):
            item.add_marker(skip)
