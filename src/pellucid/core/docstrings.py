"""Docstrings whose common parts are written once.

Owns: putting what many docstrings share into those that leave it out.
Must not: know what is said.
Read next: ``axes.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["completed"]

_ORDER = ("Args", "Returns", "Gradient", "On each target", "Identity at", "Errors", "Source", "Example")


def completed(text: str | None, arguments: Mapping[str, str], sections: Mapping[str, str]) -> str | None:
    """A docstring with these arguments behind its own, and these sections at their places, but what it says itself."""
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
    return text
