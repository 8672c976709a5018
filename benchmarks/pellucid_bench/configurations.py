"""Pipelines of public repositories, as facts: which transforms with which options; ``main`` writes the shares that are imported.

Owns: reading the list in ``pipelines.txt``, and the table in docs/coming-from.md.
Must not: hold anybody's text; names and numbers alone.
Read next: ``coverage.py``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from pellucid.interop import Imported, from_source

__all__ = ["PIPELINES", "Configuration", "imported", "main", "table"]

TARGET = Path(__file__).parents[2] / "docs" / "coming-from.md"
START, END = "<!-- configurations -->", "<!-- /configurations -->"

_LIBRARIES = {
    "A": ("albumentations", "from albumentations import *"),
    "T": ("torchvision", "from torchvision.transforms.v2 import *"),
    "K": ("kornia", "from kornia.augmentation import *"),
}


class Configuration(NamedTuple):
    """One pipeline: the repository and file it was found in, the library, its half, and its transforms as calls."""

    source: str
    library: str
    half: str
    text: str


def _read() -> tuple[Configuration, ...]:
    """The list; a hash of the repository's name puts each pipeline into the half that the importers were tuned on, or the other."""
    found: list[Configuration] = []
    after = ""
    for line in Path(__file__).with_name("pipelines.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            after = {"after": "later", "last:": "last", "with ": "rare", "fresh": "fresh"}.get(line[12:17], "")
            continue
        letter, source, calls, *options = line.split(" | ")
        library, names = _LIBRARIES[letter]
        steps = f"*[{calls}]" if library == "kornia" else ", ".join([f"[{calls}]", *options])
        held = int(hashlib.sha256(source.partition(" ")[0].encode()).hexdigest(), 16) % 2
        text = f"{names}\naugment = {'ImageSequential' if library == 'kornia' else 'Compose'}({steps})\n"
        found.append(Configuration(source, library, after or ("other" if held else "tuned"), text))
    return tuple(found)


PIPELINES = _read()


def imported(one: Configuration, match: str = "nearest") -> Imported:
    """A configuration as the importer reads it."""
    (found,) = from_source(one.text, match=match)  # type: ignore[arg-type] # checked there
    return found.imported


def table() -> str:
    """The share of each half that is imported whole, in Markdown; missing operations are named for the tuned half alone."""
    lines = ["| library | half | pipelines | `exact` | `nearest` | not imported |", "|---|---|---|---|---|---|"]
    for key, count in Counter((one.library, one.half) for one in PIPELINES).items():
        chosen = [one for one in PIPELINES if (one.library, one.half) == key]
        missing = Counter(each.name for one in chosen for each in imported(one).missing)
        shares = []
        for match in ("exact", "nearest"):
            whole = sum(not imported(one, match).missing for one in chosen)
            shares.append(f"{whole} ({100 * whole / count:.0f} %)")
        left = ", ".join(f"`{name}`" for name, _ in missing.most_common() if key[1] == "tuned")
        lines.append(f"| {key[0]} | {key[1]} | {count} | {shares[0]} | {shares[1]} | {left} |")
    return "\n".join(lines)


def main() -> None:
    """Write the table into the page."""
    page = TARGET.read_text(encoding="utf-8")
    head, _, rest = page.partition(START)
    _, _, tail = rest.partition(END)
    TARGET.write_text(f"{head}{START}\n{table()}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
