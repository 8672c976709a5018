"""No public name without Args, Returns, Errors, Gradient, Example where they apply, and every example is run."""

import doctest
import importlib
import inspect

import pytest

pytest.importorskip("pellucid_bench.site.pages")
from tests.guide.reference import Entry, entries, missing
from tests.test_docs import MODULES

ALLOWED: dict[str, str] = {}
"""A name that lacks a section -> why it may."""


def test_every_public_name_has_its_sections():
    lacks = {entry.name: what for entry in entries() if (what := missing(entry))}
    wrong = {name: what for name, what in lacks.items() if name not in ALLOWED}
    assert not wrong, "\n".join(f"{name}: {'; '.join(what)}" for name, what in wrong.items())
    assert set(ALLOWED) <= set(lacks), "an exception that is no longer needed"


def test_every_example_is_run():
    """Doctest finds each of them in a module that ``tests/test_docs.py`` walks."""
    shown = [entry for entry in entries() if ">>> " in (entry.value.__doc__ or "")]
    modules = {inspect.unwrap(entry.functions[0] if entry.functions else entry.value).__module__ for entry in shown}
    assert modules <= set(MODULES)
    found = {test.docstring for name in modules for test in doctest.DocTestFinder().find(importlib.import_module(name))}
    assert not [entry.name for entry in shown if entry.value.__doc__ not in found]


def test_the_rules_see_what_is_missing():
    def bad(a, b):
        """Do it.

        Args:
            a: one.
        """
        raise ValueError(a)

    def good(a) -> int:
        """Return twice a.

        Args:
            a: one.

        Errors:
            ValueError always.

        Example:
            >>> 1
            1
        """
        raise ValueError(a)

    bad.__annotations__ = {"b": "Float[Tensor, 'n']", "return": "Float[Tensor, 'n']"}
    assert missing(Entry("x.bad", bad)) == ("Args (b)", "Returns", "Errors", "Gradient", "Example")
    assert missing(Entry("x.good", good)) == ()
    bad.__annotations__ = {"b": "Bool[Tensor, 'n']", "return": "None"}
    assert missing(Entry("x.bad", bad)) == ("Args (b)", "Errors", "Example")
