"""Reasons to reject an alignment: problems of a pair or of the settings before it, and doubts about the result after it.

Owns: the limits, and the texts of the reasons.
Must not: align.
Read next: ``align.py``, ``volumes.py``.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.core.arguments import finite_number, whole_number
from pellucid.errors import invalid, wrong_type
from pellucid.registration.evidence import Evidence
from pellucid.registration.newton import LEAST_OVERLAP, Pair

__all__ = ["check_numbers", "flags_of", "reasons_of", "start_of", "weighed_pair"]

_LEAST_CORRELATION = 0.3
_LEAST_AGREEING: Final = 0.9
"""Least share of places that match best at the map: right maps have .92 or more (except 1 of 320), wrong ones .88 or less."""
_MOST_LEVERAGE: Final = 6.0
"""Largest leverage of a map, in pixels (see `Evidence`): right maps have 4 or less, wrong ones 15 or more."""
_LEAST_SPREAD = 1e-4
"""Least standard deviation of a picture, in its own units."""
_FAINT = 1e-3
"""A picture below that which varies by more than this share of its mean is in too large a unit, and not constant."""


def check_numbers(*, width: float, spacing: float, stiffness: float, levels: int | None, steps: int, tolerance: float) -> None:
    """Check an alignment's numbers: a positive width, a spacing of at least 1, no negative number, at least one step and level."""
    for name, value, least in (
        ("width", width, 1e-12),
        ("spacing", spacing, 1.0),
        ("stiffness", stiffness, 0.0),
        ("tolerance", tolerance, 0.0),
    ):
        if not finite_number(name, value) >= least:
            raise invalid(name, expected=f"a number of at least {least:g}", got=repr(value))
    whole_number("steps", steps, 1, 10**6)
    if levels is not None:
        whole_number("levels", levels, 1, 30)


def weighed_pair(fixed: Tensor, moving: Tensor, mask: object, moving_mask: object, what: str = "picture") -> tuple[Pair, list[str]]:
    """Return two batches with their weights, of one dtype and finite, and for each pair why it cannot be aligned, or nothing."""
    count, channels = fixed.shape[:2]
    if moving.shape[:2] != (count, channels):
        raise invalid("moving", expected=f"{count} {what}s of {channels} channels, as fixed", got=f"shape {tuple(moving.shape)}")
    dtype = torch.promote_types(fixed.dtype, moving.dtype)
    own, other = _weight_of("mask", mask, fixed.to(dtype)), _weight_of("moving_mask", moving_mask, moving.to(dtype))
    own = torch.ones_like(fixed[:, :1], dtype=dtype) if own is None else own
    problems = _problems_of(fixed, moving, own, other, what)
    fixed, moving = (torch.nan_to_num(one.to(dtype), 0.0, 0.0, 0.0) for one in (fixed, moving))
    return Pair(fixed, moving, own, other), problems


def _problems_of(fixed: Tensor, moving: Tensor, mask: Tensor, moving_mask: Tensor | None, what: str) -> list[str]:
    """Return for each pair why it cannot be aligned, or an empty text."""
    problems = [""] * len(fixed)
    for name, picture, weight in (("fixed", fixed, mask), ("moving", moving, moving_mask)):
        finite = torch.isfinite(picture)
        flat, shares = torch.nan_to_num(picture, 0.0, 0.0, 0.0).flatten(2), torch.ones_like(picture[:, :1]).flatten(2)
        if weight is not None:
            finite = finite | (weight == 0)  # such pixels count as 0, and not at all
            shares = weight.to(flat).flatten(2)
        finite = finite.flatten(1).all(1)
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
                faint = bool(spread[i] > _FAINT * middle[i].abs().squeeze())
                fault = f"varies by {float(spread[i]):.0e} only{where}: multiply it" if faint else f"is constant{where}"
                problems[i] = problems[i] or f"the {name} {what} {fault}"
    return problems


def _weight_of(name: str, mask: object, like: Tensor) -> Float[Tensor, "b 1 *size"] | None:
    """Check a mask, one for all pictures or volumes or one for each, and return it as weights (B, 1, ...); None stays None."""
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
    """Check the start, one matrix for all pictures or volumes or one for each, and return one for each."""
    count, side = len(like), like.dim() - 1
    given = torch.as_tensor(start, dtype=like.dtype, device=like.device).detach()
    batch = given if given.dim() == 3 else given[None]
    if batch.shape not in ((1, side, side), (count, side, side)) or not bool(torch.isfinite(batch).all()):
        expected = f"finite numbers of shape ({side}, {side}) or ({count}, {side}, {side})"
        raise invalid("start", expected=expected, got=f"shape {tuple(given.shape)}")
    return batch.repeat(count // len(batch), 1, 1)


def flags_of(problems: list[str], reasons: tuple[str, ...], matrix: Tensor) -> tuple[Bool[Tensor, "b"], Bool[Tensor, "b"]]:
    """Return which pairs converged, and which maps can be used (finite, and no problem before the alignment)."""
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
    """Return for each pair *converged*, or why it is not; pairs with less overlap need a higher correlation.

    Args:
        problems: the result of :func:`weighed_pair`.
        found: (B, ...) the maps at the end of the descent.
        loss, overlap, correlation, settled: (B,), at the end.
        evidence: the evidence for the map; None skips this check.
        what: the kind of the pair: picture or volume.
    """
    reasons = []
    usable = torch.isfinite(found).flatten(1).all(1) & torch.isfinite(loss)
    for i, problem in enumerate(problems):
        if problem:
            reasons.append(problem)
        elif not usable[i]:
            reasons.append("no map was found: the numbers diverged")
        elif not overlap[i] > LEAST_OVERLAP:
            reasons.append(f"the {what}s overlap by {100 * float(overlap[i]):.0f} %")
        elif doubt := _doubt(correlation[i], overlap[i]) or ("" if evidence is None else _objection(evidence, i)):
            reasons.append(f"the {what}s do not agree: {doubt}")
        else:
            reasons.append("converged" if settled[i] else "out of steps")
    return tuple(reasons)


def _doubt(correlation: Tensor, overlap: Tensor) -> str:
    """Return the objection to a pair with too low a correlation for its overlap, or an empty text."""
    if bool(correlation * overlap.sqrt() >= _LEAST_CORRELATION):
        return ""
    where = f" on {100 * float(overlap):.0f} % of the fixed one" if correlation >= _LEAST_CORRELATION else ""
    return f"their correlation is {float(correlation):.2f}{where}"


def _objection(evidence: Evidence, i: int) -> str:
    """Return the objection that the details of a pair raise to its map, or an empty text."""
    if not evidence.agreeing[i] >= _LEAST_AGREEING:
        return f"only at {100 * float(evidence.agreeing[i]):.0f} % of the places with details does the map match best"
    if not evidence.leverage[i] <= _MOST_LEVERAGE:
        return "the places with details above the noise are too few, or too close together, to fix the map"
    return ""


_ELEMENTS: Final = {"picture": "pixels", "volume": "voxels"}
