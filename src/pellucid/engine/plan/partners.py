"""Which samples of a batch meet in a layer: decided by their places alone.

Owns: the pairing of samples.
Must not: draw; which samples are mixed depends on no value.
Read next: ``../execution.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Int64
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.engine.plan.values import Plan
from pellucid.segments import LayerSpec

__all__ = ["keeps_partners", "sources"]


def sources(spec: LayerSpec, rows: int, frames: int, device: torch.device) -> Int64[Tensor, "rows k"]:
    """Which row each read of each row shows: that of its partner in the same frame.

    A sample whose partner the batch does not have meets itself.
    """
    row = torch.arange(rows, device=device)[:, None]
    frames = max(frames, 1)  # an empty clip has no rows
    samples, sample = rows // frames, row // frames
    distance = constant(spec.partners, torch.int64, device)
    if spec.pairing == "roll":
        partner = (sample - distance) % max(samples, 1)
    else:
        partner = sample ^ distance
        partner = torch.where(partner < samples, partner, sample)
    return partner * frames + row % frames


def keeps_partners(plan: Plan, samples: int, kept: Int64[Tensor, "n"]) -> bool:
    """Whether some of the samples, in this order, are mixed in every layer with the partners that they have in the whole batch."""
    specs = [segment for segment in plan.segments if isinstance(segment, LayerSpec)]
    here = kept.device
    return all(torch.equal(kept[sources(s, len(kept), 1, here)], sources(s, samples, 1, here)[kept]) for s in specs)
