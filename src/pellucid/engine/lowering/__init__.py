"""Lowering: compute the small tensors that every pass needs from drawn values.

Owns: segments, their composition per run, and the choice between ordinary tensor code and a tape of it.
Must not: touch images, draw, or decide what is fused (the plan did).
Read next: ``compose.py``.
"""

from pellucid.engine.lowering.compose import Composed
from pellucid.engine.lowering.lowered import Cutout, Lowered
from pellucid.engine.lowering.openings import Openings, copies, keeps_levels, may_close, paints_rectangles
from pellucid.engine.lowering.operations import operations_of
from pellucid.engine.lowering.replayed import Replayed, together
from pellucid.engine.lowering.segments_of import opened

__all__ = [
    "Composed",
    "Cutout",
    "Lowered",
    "Openings",
    "Replayed",
    "copies",
    "keeps_levels",
    "may_close",
    "opened",
    "operations_of",
    "paints_rectangles",
    "together",
]  # fmt: skip
