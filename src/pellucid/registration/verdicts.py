"""What is wrong with a pair before it is aligned, and what it is told afterwards.

Owns: the limits, and the sentences.
Must not: align.
Read next: ``align.py``, ``volumes.py``.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

__all__ = ["LEAST_OVERLAP", "problems_of", "reasons_of"]

LEAST_OVERLAP: Final = 0.2
"""A pair that shares less of the fixed picture's weight is not aligned, and a step that leaves less is refused."""
_LEAST_CORRELATION = 0.3
_LEAST_SPREAD = 1e-4
"""Standard deviation below which a picture is constant, in its own units."""


def problems_of(fixed: Tensor, moving: Tensor, mask: Tensor, moving_mask: Tensor | None, what: str = "picture") -> list[str]:
    """For each pair why it cannot be aligned, or nothing."""
    problems = [""] * len(fixed)
    for name, picture, weight in (("fixed", fixed, mask), ("moving", moving, moving_mask)):
        finite = torch.isfinite(picture).flatten(1).all(1)
        flat = torch.nan_to_num(picture, 0.0, 0.0, 0.0).flatten(1)
        spread = (flat - flat.mean(1, keepdim=True)).square().mean(1).sqrt()
        for i in range(len(fixed)):
            if not finite[i]:
                problems[i] = problems[i] or f"the {name} {what} has {_ELEMENTS[what]} that are not finite"
            elif spread[i] < _LEAST_SPREAD:
                problems[i] = problems[i] or f"the {name} {what} is constant"
            elif weight is not None and not float(weight[i].sum()) > 0:
                problems[i] = problems[i] or f"the {name} {what}'s mask is empty"
    return problems


def reasons_of(
    problems: list[str], found: Tensor, loss: Tensor, overlap: Tensor, correlation: Tensor, settled: Tensor, what: str = "picture"
) -> tuple[str, ...]:
    """For each pair *converged*, or why it is not.

    Args:
        problems: of :func:`problems_of`.
        found: (B, ...) what the descent ended with: matrices, fields.
        loss, overlap, correlation, settled: (B,), at the end.
        what: the pair is of.
    """
    reasons = []
    usable = torch.isfinite(found).flatten(1).all(1) & torch.isfinite(loss)
    for i, problem in enumerate(problems):
        if problem:
            reasons.append(problem)
        elif not usable[i]:
            reasons.append("no map was found: the numbers ran away")
        elif not overlap[i] > LEAST_OVERLAP:
            reasons.append(f"the {what}s overlap by {100 * float(overlap[i]):.0f} %")
        elif not correlation[i] >= _LEAST_CORRELATION:
            reasons.append(f"the {what}s do not agree: their correlation is {float(correlation[i]):.2f}")
        else:
            reasons.append("converged" if settled[i] else "out of steps")
    return tuple(reasons)


_ELEMENTS: Final = {"picture": "pixels", "volume": "voxels"}
