"""Targets: everything that moves with a picture, such as masks, boxes and keypoints.

Owns: the table of kinds, reading and writing batches, masks of objects, and rows (boxes, points) under layers.
Must not: draw, plan, or resample.
Read next: ``kinds.py``.
"""

from pellucid.geometry.paths import follow
from pellucid.targets.kinds import KINDS, TargetKind

__all__ = ["KINDS", "TargetKind", "follow"]
