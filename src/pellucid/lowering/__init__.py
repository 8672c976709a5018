"""Lowering: from drawn values to the small tensors every pass needs.

Owns: segments, their composition per run, and what computes it: ordinary tensor code, or a tape of it.
Must not: touch images, draw, or decide what is fused (the plan did).
Read next: ``compose.py``.
"""

from pellucid.lowering.compose import Composed
from pellucid.lowering.lowered import Cutout, Lowered
from pellucid.lowering.openings import Openings, as_bend, copies, keeps_levels, may_close
from pellucid.lowering.operations import operations_of
from pellucid.lowering.replayed import Replayed, together
from pellucid.lowering.segments_of import opened

__all__ = [
    "Composed",
    "Cutout",
    "Lowered",
    "Openings",
    "Replayed",
    "as_bend",
    "copies",
    "keeps_levels",
    "may_close",
    "opened",
    "operations_of",
    "together",
]
