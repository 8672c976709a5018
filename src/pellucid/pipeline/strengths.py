"""Draws at a given distance from the middle of their ranges.

Owns: `draw_at_strength`, and whether a pipeline has draws that it applies to.
Must not: apply.
Read next: ``worst_search.py``.
"""

from __future__ import annotations

from typing import Any

import torch

from pellucid.core.arguments import finite_number
from pellucid.errors import invalid
from pellucid.pipeline.interface import PipelineLike
from pellucid.pipeline.records import Record
from pellucid.pipeline.trials import Trial
from pellucid.pipeline.worst_search import axes_of, ends_of
from pellucid.random.key import Key

__all__ = ["draw_at_strength", "has_strength"]


def draw_at_strength(pipeline: PipelineLike, batch: Any, strength: float, *, key: Key | None = None) -> Record:
    """Draw so that every number has the same relative distance from the middle of its range; the side is random.

    Args:
        pipeline: to draw from. A rotation by up to 30 degrees has its middle at 0; at strength .5 it is by -15 or 15 degrees.
        batch: as in its call.
        strength: 0 for the middle, 1 for the ends; for distributions without ends, 1 means the quantiles .001 and .999.
        key: as in its call.

    Returns:
        The record. Gates, choices and other draws without a scale are drawn as usual.

    Errors:
        InvalidArgument for a strength outside of [0, 1], and as the call.

    Example:
        >>> import torch, pellucid
        >>> turn = pellucid.Pipeline([pellucid.RandomRotation(30)], seed=0)
        >>> draw_at_strength(turn, torch.zeros(2, 1, 8, 8), 0.5).params[0]["degrees"].abs()
        tensor([15., 15.], dtype=torch.float64)
    """
    if not 0 <= finite_number("strength", strength) <= 1:
        raise invalid("strength", expected="from 0 to 1", got=strength)
    trial = Trial(pipeline, batch, key)
    u = trial.uniforms()
    words = torch.tensor(list(axes_of(trial.draws).values()), dtype=torch.int64, device=u.device)
    low, high = (end[words] for end in ends_of(trial.draws, u))
    side = torch.where(u[:, words] < 0.5, -0.5, 0.5)
    at = torch.minimum(torch.maximum(0.5 + strength * side, low), high).to(u.dtype)
    record: Record = trial.record(trial.values(u.index_copy(1, words, at)))
    return record


def has_strength(pipeline: PipelineLike, batch: Any) -> bool:
    """Return whether a pipeline draws any number on a scale; a flip's gate is not one.

    Args:
        pipeline: to draw from.
        batch: as in its call.

    Example:
        >>> import torch, pellucid
        >>> has_strength(pellucid.Pipeline([pellucid.RandomHorizontalFlip()]), torch.zeros(2, 1, 8, 8))
        False
    """
    return bool(axes_of(Trial(pipeline, batch, Key(0, 0)).draws))
