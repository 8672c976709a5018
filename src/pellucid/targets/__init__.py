"""What travels with a picture: kinds of targets, how batches hold them, and what moves their rows.

Owns: the table of kinds, reading and writing batches, instances, and rows under layers.
Must not: draw, plan, or resample.
Read next: ``kinds.py``.
"""

from pellucid.geometry.paths import follow
from pellucid.targets.kinds import KINDS, TargetKind

__all__ = ["KINDS", "TargetKind", "follow"]
