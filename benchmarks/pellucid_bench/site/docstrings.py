"""How the docstrings' own headings read on the site.

Owns: a griffe extension that renames what griffe names otherwise.
Must not: change what a docstring says.
Read next: ``hooks.py``.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from typing import Any

from griffe import Extension

import pellucid.functional  # noqa: F401 - read at run time

__all__ = ["Headings", "readable"]

_ALIKE = {"Example": "Examples", "Args": "Args", "Returns": "Returns", "Attributes": "Attributes", "Yields": "Yields"}
"""Headings that griffe reads, by what they are called here."""


class Headings(Extension):  # type: ignore[misc]
    """Every heading of the house's template, as griffe or Markdown understands it."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Rewrite the headings of one docstring before it is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = readable(_at_run_time(obj) or obj.docstring.value)


def _at_run_time(obj: Any) -> str | None:
    """The docstring with what many share in it, which the source has once."""
    module = None if obj.parent is None else sys.modules.get(obj.parent.path)
    found = getattr(module, obj.name, None)
    return inspect.getdoc(found) if inspect.isroutine(found) or inspect.isclass(found) else None


def readable(text: str) -> str:
    """A docstring with sections that griffe or Markdown reads: ``Gradient`` and the like become paragraphs."""
    section = r"^([A-Z][A-Za-z ]*):\n((?:[ \t]+\S.*\n?|\n(?=[ \t]+\S))+)"
    text = re.sub(section, _section, text, flags=re.MULTILINE)
    text = re.sub(r"^(\s+\w[\w, ]*: )>", r"\1\\>", text, flags=re.MULTILINE)  # ">= 0" is no quotation
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)  # roles such as :meth: are plain code


def _section(match: re.Match[str]) -> str:
    title, body = match[1], match[2]
    if title in _ALIKE:
        return f"\n{_ALIKE[title]}:\n{body}"
    return f"\n**{title}:** {textwrap.dedent(body).strip()}\n\n"
