"""Docstrings whose common parts are written once.

Owns: inserting shared arguments, sections and imports into docstrings that leave them out.
Must not: hold the shared texts themselves.
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
    """Return a docstring with shared arguments appended to its Args, and with shared sections and its example's imports inserted.

    Arguments and sections that the docstring has itself stay. The imports are torch, pellucid, and the line ``own``.
    """
    found = re.search(r"^( *)Args:\n((?:\1 +\S.*\n)+)", text or "", re.MULTILINE)
    if text is None or found is None:
        return text
    margin, described = found[1], found[2]
    names = {name for names in re.findall(rf"^{margin}    (\w[\w, ]*):", described, re.MULTILINE) for name in names.split(", ")}
    more = "".join(f"{margin}    {name}: {meaning}\n" for name, meaning in arguments.items() if name not in names)
    text = text[: found.end()] + more + text[found.end() :]
    for title, body in sections.items():
        later = "|".join(_ORDER[_ORDER.index(title) :])
        place = re.search(rf"(\n+){margin}({later}):\n", text)
        if place is not None and place[2] != title:
            text = f"{text[: place.start()]}{place[1]}{margin}{title}:\n{margin}    {body}{text[place.start() :]}"
    return _introduced(text, own)


def introduce(*shown: Any) -> None:
    """Insert the needed imports into the docstring examples of functions, of classes and of their methods."""
    for one in shown:
        members = [member for member in vars(one).values() if not isinstance(member, type)] if isinstance(one, type) else []
        for owner in (one, *members, *(member.__func__ for member in members if isinstance(member, classmethod | staticmethod))):
            if isinstance(owner, FunctionType | property | type | classmethod | staticmethod) and owner.__doc__:
                owner.__doc__ = _introduced(owner.__doc__)


def _introduced(text: str, own: str = "") -> str:
    if example := re.search(r"^ *Example:\n( *>>> )", text, re.MULTILINE):
        code = "\n".join(re.findall(r"^ *(?:>>>|\.\.\.) (.*)", text[example.end(1) - 4 :], re.MULTILINE))
        imported = " ".join(re.findall(r"^import (.*)", code, re.MULTILINE))
        names = [name for name in ("torch", "pellucid") if re.search(rf"(?<![\w.])(?<!from ){name}\.", code)]
        used = [name for name in names if name not in imported]
        lines = [line for line in (used and f"import {', '.join(used)}", own) if line and line not in code]
        text = text[: example.start(1)] + "".join(f"{example[1]}{line}\n" for line in lines) + text[example.start(1) :]
    return text
