"""Reasons to doubt an alignment: faults of a pair or of the settings beforehand, and doubts about the result afterwards.

Owns: the limits, and the sentences.
Must not: align.
Read next: ``align.py``, ``volumes.py``.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.errors import invalid, wrong_type
from pellucid.random.arguments import finite_number, whole_number
from pellucid.registration.evidence import Evidence
from pellucid.registration.newton import LEAST_OVERLAP

__all__ = ["check_numbers", "problems_of", "reasons_of", "start_of", "told", "weight_of"]

_LEAST_CORRELATION = 0.3
_LEAST_AGREEING: Final = 0.9
"""The share of places that must match best at the map: right maps have .92 and more (one of 320 less), wrong ones .88 at most."""
_MOST_LEVERAGE: Final = 6.0
"""Pixels by which a map may be open where each agreeing place is off by one: right maps have 4 at most, wrong ones 15 and more."""
_LEAST_SPREAD = 1e-4
"""Standard deviation below which a picture is constant, in its own units."""


def check_numbers(*, width: float, spacing: float, stiffness: float, levels: int | None, steps: int, tolerance: float) -> None:
    """Check an alignment's numbers: lengths above 0, weights from 0, at least one step and one level."""
    for name, value, least in (
        ("width", width, 1e-12),
        ("spacing", spacing, 1.0),
        ("stiffness", stiffness, 0.0),
        ("tolerance", tolerance, 0.0),
    ):
        if not finite_number(name, value) >= least:
            raise invalid(name, expected=f"a number from {least:g}", got=repr(value))
    whole_number("steps", steps, 1, 10**6)
    if levels is not None:
        whole_number("levels", levels, 1, 30)


def problems_of(fixed: Tensor, moving: Tensor, mask: Tensor, moving_mask: Tensor | None, what: str = "picture") -> list[str]:
    """For each pair why it cannot be aligned, or nothing."""
    problems = [""] * len(fixed)
    for name, picture, weight in (("fixed", fixed, mask), ("moving", moving, moving_mask)):
        finite = torch.isfinite(picture).flatten(1).all(1)
        flat, shares = torch.nan_to_num(picture, 0.0, 0.0, 0.0).flatten(2), torch.ones_like(picture[:, :1]).flatten(2)
        if weight is not None:
            shares = weight.to(flat).flatten(2)
        total = shares.sum(2, keepdim=True)
        shares = shares / (total * picture.shape[1])
        middle = (flat * shares).sum((1, 2), keepdim=True)
        spread = ((flat - middle).square() * shares).sum((1, 2)).sqrt()
        for i in range(len(fixed)):
            if not finite[i]:
                problems[i] = problems[i] or f"the {name} {what} has {_ELEMENTS[what]} that are not finite"
            elif not float(total[i]) > 0:
                problems[i] = problems[i] or f"the {name} {what}'s mask is empty"
            elif spread[i] < _LEAST_SPREAD:
                where = " where its mask counts" if bool((total[i] < flat.shape[2]).any()) else ""
                problems[i] = problems[i] or f"the {name} {what} is constant{where}"
    return problems


def weight_of(name: str, mask: object, like: Tensor) -> Float[Tensor, "b 1 *size"] | None:
    """A mask as weights of pictures or volumes (B, C, ...), one for all or one for each."""
    if mask is None:
        return None
    if not isinstance(mask, Tensor):
        raise wrong_type(name, expected="a tensor", got=type(mask).__name__)
    wanted = (like.shape[0], 1, *like.shape[2:])
    batch = mask if mask.dim() == like.dim() else mask[None]
    if batch.shape not in (wanted, (1, *wanted[1:])):
        raise invalid(name, expected=f"shape {wanted[1:]} or {wanted}", got=f"shape {tuple(mask.shape)}")
    return batch.to(like.dtype).expand(wanted)


def start_of(start: Any, like: Tensor) -> Float[Tensor, "b n n"]:
    """The matrices that somebody has to begin with, one for all or one for each of pictures or volumes (B, C, ...)."""
    count, side = len(like), like.dim() - 1
    given = torch.as_tensor(start, dtype=like.dtype, device=like.device).detach()
    batch = given if given.dim() == 3 else given[None]
    if batch.shape not in ((1, side, side), (count, side, side)) or not bool(torch.isfinite(batch).all()):
        expected = f"finite numbers of shape ({side}, {side}) or ({count}, {side}, {side})"
        raise invalid("start", expected=expected, got=f"shape {tuple(given.shape)}")
    return batch.repeat(count // len(batch), 1, 1)


def told(problems: list[str], reasons: tuple[str, ...], matrix: Tensor) -> tuple[Bool[Tensor, "b"], Bool[Tensor, "b"]]:
    """Which pairs converged, and which maps are of any use."""
    converged = torch.tensor([reason == "converged" for reason in reasons], dtype=torch.bool, device=matrix.device)
    usable = torch.tensor([not problem for problem in problems], dtype=torch.bool, device=matrix.device)
    return converged, usable & torch.isfinite(matrix).flatten(1).all(1)


def reasons_of(
    problems: list[str],
    found: Tensor,
    loss: Tensor,
    overlap: Tensor,
    correlation: Tensor,
    settled: Tensor,
    evidence: Evidence | None = None,
    what: str = "picture",
) -> tuple[str, ...]:
    """For each pair *converged*, or why it is not; pairs must agree the more, the less of them overlaps.

    Args:
        problems: of :func:`problems_of`.
        found: (B, ...) what the descent ended with: matrices, fields.
        loss, overlap, correlation, settled: (B,), at the end.
        evidence: the evidence for the map; None is not looked at.
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
        elif doubt := _doubt(correlation[i], overlap[i]) or ("" if evidence is None else _objection(evidence, i)):
            reasons.append(f"the {what}s do not agree: {doubt}")
        else:
            reasons.append("converged" if settled[i] else "out of steps")
    return tuple(reasons)


def _doubt(correlation: Tensor, overlap: Tensor) -> str:
    """What speaks against a pair that agrees by so much, or nothing."""
    if bool(correlation * overlap.sqrt() >= _LEAST_CORRELATION):
        return ""
    where = f" on {100 * float(overlap):.0f} % of the fixed one" if correlation >= _LEAST_CORRELATION else ""
    return f"their correlation is {float(correlation):.2f}{where}"


def _objection(evidence: Evidence, i: int) -> str:
    """What the details of a pair object to its map, or nothing."""
    if not evidence.agreeing[i] >= _LEAST_AGREEING:
        return f"the map is the best nearby at {100 * float(evidence.agreeing[i]):.0f} % of the places that show details"
    if not evidence.leverage[i] <= _MOST_LEVERAGE:
        return "the places that show details above the noise are too few, or too close to one another, to fix the map"
    return ""


_ELEMENTS: Final = {"picture": "pixels", "volume": "voxels"}
