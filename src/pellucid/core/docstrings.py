"""Docstrings whose common parts are written once.

Owns: putting what many docstrings share into those that leave it out.
Must not: know what is said.
Read next: ``axes.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import FunctionType
from typing import Any

__all__ = ["completed", "introduce"]

_ORDER = ("Args", "Returns", "Gradient", "On each target", "Identity at", "Errors", "Source", "Example")


def completed(text: str | None, arguments: Mapping[str, str], sections: Mapping[str, str], own: str = "") -> str | None:
    """A docstring with these arguments behind its own, these sections at their places, but what it says itself, and the imports of
    its example: of torch, of pellucid, and ``own``.
    """
    found = re.search(r"^( *)Args:\n((?:\1 +\S.*\n)+)", text or "", re.MULTILINE)
    if text is None or found is None:
        return text
    margin, told = found[1], found[2]
    names = {name for names in re.findall(rf"^{margin}    (\w[\w, ]*):", told, re.MULTILINE) for name in names.split(", ")}
    more = "".join(f"{margin}    {name}: {said}\n" for name, said in arguments.items() if name not in names)
    text = text[: found.end()] + more + text[found.end() :]
    for title, said in sections.items():
        later = "|".join(_ORDER[_ORDER.index(title) :])
        place = re.search(rf"(\n+){margin}({later}):\n", text)
        if place is not None and place[2] != title:
            text = f"{text[: place.start()]}{place[1]}{margin}{title}:\n{margin}    {said}{text[place.start() :]}"
    return _introduced(text, own)


def introduce(*shown: Any) -> None:
    """Put before the examples of functions, of classes and of their methods the imports that they need."""
    for one in shown:
        members = [member for member in vars(one).values() if not isinstance(member, type)] if isinstance(one, type) else []
        for told in (one, *members, *(member.__func__ for member in members if isinstance(member, classmethod | staticmethod))):
            if isinstance(told, FunctionType | property | type | classmethod | staticmethod) and told.__doc__:
                told.__doc__ = _introduced(told.__doc__)


def _introduced(text: str, own: str = "") -> str:
    if example := re.search(r"^ *Example:\n( *>>> )", text, re.MULTILINE):
        code = "\n".join(re.findall(r"^ *(?:>>>|\.\.\.) (.*)", text[example.end(1) - 4 :], re.MULTILINE))
        there = " ".join(re.findall(r"^import (.*)", code, re.MULTILINE))
        used = [name for name in ("torch", "pellucid") if re.search(rf"(?<![\w.])(?<!from ){name}\.", code) and name not in there]
        lines = [line for line in (used and f"import {', '.join(used)}", own) if line and line not in code]
        text = text[: example.start(1)] + "".join(f"{example[1]}{line}\n" for line in lines) + text[example.start(1) :]
    return text
