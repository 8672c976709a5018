"""Whether `align` knows when it is wrong: photographs under homographies that move corners far, and what is said of each pair.

Owns: the sets of pairs and their table; ``python -m pellucid_bench.verdicts`` prints it.
Must not: change the rule: what changes it is no longer fresh.
Read next: ``register.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from pellucid.registration import Alignment, align
from pellucid_bench.reach import pictures
from pellucid_bench.register import Pair, corner_error, moved_corners, window

__all__ = ["FRESH", "SEEN", "aligned", "pairs", "verdicts_table"]

SEEN = ("astronaut", "camera", "cell", "chelsea", "clock_motion", "coffee", "coins", "hubble_deep_field", "ihc", "microaneurysms")
FRESH = (
    *("moon", "motorcycle_left", "motorcycle_right", "page", "retina", "rocket", "text", "brick", "grass", "gravel"),
    *("china", "flower"),
)
_SETS = {
    "30 pairs on which the rule was chosen": (SEEN, (0, 1, 2), 40.0),
    "60 of other photographs, which changed two of its numbers": (FRESH, (10, 11, 12, 13, 14), 40.0),
    "60 fresh ones of these": (FRESH, (30, 31, 32, 33, 34), 40.0),
    "60 fresh ones of these, moved by 20 px": (FRESH, (40, 41, 42, 43, 44), 20.0),
}
_SIDE, _RIGHT, _WRONG = 128, 1.0, 3.0
"""Pixels: of the pictures; the error of the corners up to which a map is right, and from which it is wrong."""


def pairs(names: Sequence[str], seeds: Sequence[int], shift: float) -> list[Pair]:
    """Windows of photographs whose corners are moved by so many pixels, the fixed one brighter, both noisy; equal at every call."""
    found = []
    for seed in seeds:
        random = torch.Generator().manual_seed(seed)
        found += [window(_pictures()[name], moved_corners(random, shift, _SIDE), _SIDE, random) for name in names]
    return found


def aligned(given: Sequence[Pair]) -> tuple[Alignment, Tensor]:
    """What `align` finds, all pairs together, and by how many pixels it is off at the corners."""
    found = align(torch.stack([pair.fixed for pair in given]), torch.stack([pair.moving for pair in given]))
    errors = [corner_error(matrix, pair.truth, pair.fixed) for matrix, pair in zip(found.matrix, given, strict=True)]
    return found, torch.tensor(errors)


def verdicts_table() -> str:
    """One row a set: how many maps are right, how many of them are refused, and how many wrong ones are not."""
    lines = [
        "| pairs of 128 px | right, to 1 px | of these *converged* | wrong, by 3 px or more | of these *converged* |",
        "|---|---|---|---|---|",
    ]
    for name, chosen in _SETS.items():
        found, errors = aligned(pairs(*chosen))
        counts = [int(part.sum()) for part in (errors <= _RIGHT, found.converged & (errors <= _RIGHT))]
        counts += [int(part.sum()) for part in (errors >= _WRONG, found.converged & (errors >= _WRONG))]
        lines.append(f"| {name} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


@cache
def _pictures() -> dict[str, Tensor]:
    return pictures(_SIDE + 88)


if __name__ == "__main__":
    print(verdicts_table())
