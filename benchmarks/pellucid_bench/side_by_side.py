"""Ten common pipelines beside what the importers make of them: pictures, and how far apart they are; ``main`` writes both.

Owns: which ten, the measure, the sheet of pictures and the table in docs/coming-from.md.
Must not: choose by hand; the ten are those whose operations are used most, of `configurations.PIPELINES`.
Read next: ``nearest.py``.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pellucid.interop import read_albumentations, read_kornia, read_torchvision
from pellucid_bench.configurations import PIPELINES, TARGET, Configuration
from pellucid_bench.peers.torchvision_import import torchvision_v2

__all__ = [
    "DRAWS", "END", "LEVEL", "SIDE", "START", "chosen", "distance", "fitted", "main", "operations", "original", "photograph",
    "reader_of", "table",
]  # fmt: skip

START, END = "<!-- side by side -->", "<!-- /side by side -->"
SHEET = TARGET.parent / "img" / "coming-from.jpg"
DRAWS, SHOWN, SIDE = 200, 3, 128
LEVEL = 1.0
"""Differences up to this do not count: results are resized to be compared, which rounds once more."""
COUNTS = {"albumentations": 6, "torchvision": 4}

_CONVERSIONS = frozenset(
    ("Normalize", "ToTensor", "ToTensorV2", "ToPILImage", "ToImage", "ToDtype", "PILToTensor", "ConvertImageDtype", "ToFloat")
)
_CONTAINERS = frozenset(("Compose", "OneOf", "RandomApply", "Sequential", "SomeOf", "RandomChoice", "RandomOrder"))

Picture = NDArray[np.uint8]


class Pair(NamedTuple):
    """A pipeline of theirs and ours, each as a function that draws one result (H, W, C)."""

    one: Configuration
    theirs: Callable[[Picture], Picture]
    ours: Callable[[Picture], Picture]
    notes: int


def operations(one: Configuration) -> list[str]:
    """The names of what changes pictures, in order."""
    names = re.findall(r"\b([A-Z]\w+)\(", one.text.partition("\n")[2])
    return [name for name in names if name not in _CONVERSIONS | _CONTAINERS]


def _ranked(library: str) -> list[Configuration]:
    """The pipelines of a library, most used operations first; one of each set of operations."""
    given = [one for one in PIPELINES if one.library == library]
    uses = Counter(name for one in given for name in set(operations(one)))
    ranked = sorted(given, key=lambda one: -float(np.mean([np.log(uses[name]) for name in operations(one)])))
    return list({tuple(sorted(set(operations(one)))): one for one in reversed(ranked)}.values())[::-1]


def chosen() -> list[Pair]:
    """The ten: those that the installed version takes without a word about an option, and that are imported whole."""
    found: list[Pair] = []
    for library, count in COUNTS.items():
        pairs = (_pair(one) for one in _ranked(library))
        found += [pair for pair, _ in zip(filter(None, pairs), range(count), strict=False)]
    return found


def reader_of(library: str) -> Any:
    """The importer of a library."""
    return {"albumentations": read_albumentations, "torchvision": read_torchvision, "kornia": read_kornia}[library]


def original(one: Configuration) -> Any:
    """The library's own pipeline without its conversions; None where the installed version has a word about an option."""
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    scope: dict[str, Any] = {}
    try:
        if one.library == "torchvision":
            torchvision_v2()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings(
                "ignore", message=".*(ToTensor|is a special case of|indexing argument|[Dd]eprecated)"
            )  # or advice
            exec(one.text, scope)  # our own list of calls, in this repository
            compose = scope["augment"]
            every = compose.children() if one.library == "kornia" else compose.transforms
            steps = [step for step in every if type(step).__name__ not in _CONVERSIONS]
            whole = scope["ImageSequential"](*steps) if one.library == "kornia" else scope["Compose"](steps)
    except Exception:  # an option or a name of another version
        return None
    return whole if steps else None


def _pair(one: Configuration) -> Pair | None:
    compose = original(one)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _changed(one.library, compose, photograph())
    except Exception:  # none, or a crop larger than the picture
        return None
    imported = reader_of(one.library)(compose, size=(SIDE, SIDE))
    if imported.missing:
        return None
    pipeline = imported.pipeline

    def ours(picture: Picture) -> Picture:
        result = pipeline(picture)
        return _array(result) if isinstance(result, torch.Tensor) else np.asarray(result)

    return Pair(one, lambda picture: _changed(one.library, compose, picture), ours, len(imported.notes))


def _changed(library: str, compose: Any, picture: Picture) -> Picture:
    """One draw of theirs."""
    if library == "albumentations":
        result: Picture = compose(image=picture)["image"]
        return result
    planes = torch.from_numpy(picture).movedim(-1, 0).contiguous()
    return _array(compose(planes[None] / 255.0)[0] if library == "kornia" else compose(planes))


def _array(image: torch.Tensor) -> Picture:
    image = image if image.dtype == torch.uint8 else (image * 255).round().clamp(0, 255).to(torch.uint8)
    return image.movedim(0, -1).contiguous().numpy()


@cache
def photograph() -> Picture:
    """A photograph of `SIDE` x `SIDE` pixels."""
    from skimage.data import astronaut

    return np.ascontiguousarray(astronaut()[30:286, 110:366][::2, ::2])


def fitted(image: Picture) -> Picture:
    """Of the same size again."""
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def _measured(draw: Callable[[Picture], Picture], picture: Picture) -> tuple[list[float], list[Picture]]:
    """How much each draw changes the picture, in levels of 255 on average, and the first draws."""
    results = [fitted(draw(picture)) for _ in range(DRAWS)]
    return [float(np.abs(result.astype(int) - picture).mean()) for result in results], results[:SHOWN]


def distance(one: NDArray[np.float64], other: NDArray[np.float64], slack: float = LEVEL) -> float:
    """Kolmogorov and Smirnov's distance of two samples whose values may each be off by so much."""

    def above(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
        at = np.concatenate((first, second - slack))
        shares = [np.searchsorted(np.sort(each), at + off, side="right") / len(each) for each, off in ((first, 0), (second, slack))]
        return float((shares[0] - shares[1]).max())

    return max(above(one, other), above(other, one))


def table(pairs: list[Pair]) -> tuple[str, list[tuple[str, list[Picture], list[Picture]]]]:
    """The table in Markdown, and the pictures of each row."""
    lines = ["| | pipeline | changes there | here | distance of the distributions | notes |", "|---|---|---|---|---|---|"]
    rows = []
    picture = photograph()
    for number, pair in enumerate(pairs, 1):
        (theirs, left), (ours, right) = _measured(pair.theirs, picture), _measured(pair.ours, picture)
        names = ", ".join(operations(pair.one))
        apart = distance(np.array(theirs), np.array(ours))
        numbers = f"{np.mean(theirs):.1f} | {np.mean(ours):.1f} | {apart:.2f} | {pair.notes}"
        lines.append(f"| {number} | {pair.one.library}: {names} | {numbers} |")
        rows.append((f"{number}", left, right))
    return "\n".join(lines), rows


def _draw(rows: list[tuple[str, list[Picture], list[Picture]]]) -> None:
    """One line for each pipeline: its number, three draws there, three here."""
    from PIL import Image, ImageDraw

    gap, head, edge = 6, 20, 24
    width = edge + 2 * SHOWN * (SIDE + gap) + 3 * gap
    sheet = Image.new("RGB", (width, head + len(rows) * (SIDE + gap)), "white")
    pen = ImageDraw.Draw(sheet)
    middle = edge + SHOWN * (SIDE + gap) + 2 * gap
    pen.text((edge, 4), "there", fill="black")
    pen.text((middle, 4), "here", fill="black")
    for line, (name, left, right) in enumerate(rows):
        top = head + line * (SIDE + gap)
        pen.text((4, top + SIDE // 2), name, fill="black")
        for start, pictures in ((edge, left), (middle, right)):
            for i, one in enumerate(pictures):
                sheet.paste(Image.fromarray(one), (start + i * (SIDE + gap), top))
    sheet.save(SHEET, quality=85)


def main() -> None:
    """Write the sheet, and the table into the page."""
    torch.manual_seed(0)
    np.random.seed(0)
    text, rows = table(chosen())
    _draw(rows)
    head, _, rest = TARGET.read_text(encoding="utf-8").partition(START)
    _, _, tail = rest.partition(END)
    TARGET.write_text(f"{head}{START}\n{text}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
