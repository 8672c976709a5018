"""Which samples of a batch are mixed with one another, decided by their places in the batch alone.

Owns: the pairing of samples.
Must not: draw: the pairing depends on no drawn value.
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
    """For each row and each layer, return the row that the layer shows: the same frame of the partner.

    A sample whose partner lies beyond the batch is its own partner.
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
    """Return whether the kept samples, as a batch in this order, would have the same partners as in the whole batch."""
    specs = [segment for segment in plan.segments if isinstance(segment, LayerSpec)]
    here = kept.device
    return all(torch.equal(kept[sources(s, len(kept), 1, here)], sources(s, samples, 1, here)[kept]) for s in specs)
