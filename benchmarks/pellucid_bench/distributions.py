"""Whether imported pipelines do as much, as often, as the originals: 400 draws of each; ``main`` writes the table.

``python -m pellucid_bench.distributions albumentations fresh``: of the list, the part of that name.

Owns: what is measured of a draw, when two samples count as one, and the table in docs/coming-from.md.
Must not: leave pipelines out by hand; all run that the installed version of their library takes without a word about an option.
Read next: ``side_by_side.py``.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pellucid.errors import InvalidArgument
from pellucid_bench.configurations import PIPELINES, TARGET, Configuration, imported
from pellucid_bench.side_by_side import LEVEL, SIDE, distance, fitted, operations, original, photograph, reader_of

__all__ = ["DRAWS", "END", "SAME", "START", "Compared", "compared", "main", "rows"]

START, END = "<!-- distributions -->", "<!-- /distributions -->"
DRAWS = 400
SAME = 0.138
"""Two samples of so many draws of one distribution are further apart once in a thousand times (Kolmogorov and Smirnov)."""

_SLACK = (LEVEL, 0.01, 0.01)
"""What does not count of each number below: results are resized to be compared, and places rounded to whole pixels."""

Draw = Callable[[], tuple[NDArray[np.uint8], NDArray[np.uint8]]]


class Compared(NamedTuple):
    """A pipeline, whether it has equals alone, and how far its changes are from the original's: of pictures, of masks."""

    one: Configuration
    exact: bool
    picture: float
    mask: float


def _mask() -> NDArray[np.uint8]:
    mask = np.zeros((SIDE, SIDE), np.uint8)
    mask[SIDE // 6 : SIDE // 2, SIDE // 4 : 2 * SIDE // 3] = 255
    return mask


def _numbers(image: NDArray[np.uint8], mask: NDArray[np.uint8]) -> tuple[float, float, float]:
    """How much the picture changed, in levels; the share of the mask, and how far it is to the right, as a part of the width."""
    change = float(np.abs(fitted(image).astype(int) - photograph()).mean())
    shown = (fitted(mask) > 127).mean(0)
    middle = float((shown * np.arange(SIDE)).sum() / max(shown.sum(), 1e-9)) / SIDE
    return change, float(shown.mean()), middle


def _theirs(library: str, compose: Any) -> Draw:
    image, mask = photograph(), _mask()
    if library == "albumentations":
        return lambda: tuple(map(compose(image=image, mask=mask).__getitem__, ("image", "mask")))
    planes = torch.from_numpy(image).movedim(-1, 0)
    if library == "torchvision":
        from torchvision import tv_tensors as tv

        return lambda: _arrays(*compose(tv.Image(planes), tv.Mask(torch.from_numpy(mask))))
    from kornia.augmentation import AugmentationSequential

    whole = AugmentationSequential(*compose.children(), data_keys=["input", "mask"])
    floats = planes[None] / 255.0, torch.from_numpy(mask)[None, None] / 255.0
    return lambda: _arrays(*(one[0] for one in whole(*floats)))


def _arrays(image: torch.Tensor, mask: torch.Tensor) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    levels = [one if one.dtype == torch.uint8 else (one * 255).round().clamp(0, 255).to(torch.uint8) for one in (image, mask)]
    return levels[0].movedim(0, -1).numpy(), levels[1].squeeze(0).numpy()


def _ours(library: str, pipeline: Any) -> Callable[[int], list[tuple[NDArray[np.uint8], NDArray[np.uint8]]]]:
    """So many draws: of one batch, but one by one where a draw is the batch's."""
    image = torch.from_numpy(photograph()).movedim(-1, 0)
    image = image / 255.0 if library == "kornia" else image
    mask = torch.from_numpy(_mask())[None]
    shared = "same_on_batch=True" in repr(pipeline)

    def draws(count: int) -> list[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
        calls, each = (count, 1) if shared else (count // 50, 50)
        found = []
        for _ in range(calls):
            out = pipeline({"image": [image] * each, "mask": [mask] * each})
            found += [_arrays(one, other) for one, other in zip(out["image"], out["mask"], strict=True)]
        return found

    return draws


def compared(one: Configuration, draws: int = DRAWS) -> Compared | None:
    """A pipeline beside its original; None where the installed version does not take it, or it needs boxes."""
    found = original(one)
    if found is None:
        return None
    read = reader_of(one.library)(found, size=(SIDE, SIDE))
    if read.missing:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            draw = _theirs(one.library, found)
            theirs = np.array([_numbers(*draw()) for _ in range(draws)])
    except Exception:  # a crop larger than the picture, or one that asks for boxes
        return None
    try:
        ours = np.array([_numbers(*result) for result in _ours(one.library, read.pipeline)(draws)])
    except InvalidArgument as error:  # the same: said, as theirs took it
        print(f"not run here: {one.source}: {error}", flush=True)
        return None
    apart = [distance(theirs[:, i], ours[:, i], off) for i, off in enumerate(_SLACK)]
    return Compared(one, not imported(one, "exact").missing, apart[0], max(apart[1:]))


def rows(found: list[Compared], library: str) -> list[str]:
    """By whether all of a pipeline has an equal: how many do the same, as rows of Markdown."""
    groups: dict[bool, list[Compared]] = defaultdict(list)
    for one in found:
        groups[not one.exact].append(one)
    lines = []
    for near, several in sorted(groups.items()):
        pictures, masks = (sum(getattr(one, name) < SAME for one in several) for name in ("picture", "mask"))
        worst = max(several, key=lambda one: max(one.picture, one.mask))
        told = f"{max(worst.picture, worst.mask):.2f}: {', '.join(dict.fromkeys(operations(worst.one)))}"
        how = "`nearest`" if near else "`exact`"
        lines.append(f"| {library} | {how} | {len(several)} | {pictures} | {masks} | {told} |")
    return lines


def main(library: str, half: str = "") -> None:
    """Print a library's pipelines, or those of a part of the list, one by one, and write their rows into the page."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    torch.set_num_threads(1)  # pictures are small
    found: list[Compared] = []
    for one in PIPELINES:
        result = compared(one) if one.library == library and half in ("", one.half) else None
        if result is not None:
            found.append(result)
            print(f"{result.picture:.2f} {result.mask:.2f} {'exact' if result.exact else 'near '} {one.source}", flush=True)
    name = f"{library} {version(library)}" if library == "albumentations" and version(library) < "2" else library
    label = f"{name}, {half}" if half else name
    head, _, rest = TARGET.read_text(encoding="utf-8").partition(START)
    before, _, tail = rest.partition(END)
    kept = [line for line in before.strip().splitlines()[2:] if not line.startswith(f"| {label} |")]
    lines = ["| library | imported | pipelines run | same pictures | same masks | furthest |", "|---|---|---|---|---|---|"]
    text = "\n".join(lines + sorted(kept + rows(found, label)))
    TARGET.write_text(f"{head}{START}\n{text}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
