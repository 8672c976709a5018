"""Alignment of pictures by descent through the warp, and what it finds.

Owns: the public names.
Must not: compute.
Read next: ``align.py``.
"""

from pellucid.registration.align import Alignment, Step, align
from pellucid.registration.losses import LOSSES
from pellucid.registration.maps import MODELS
from pellucid.registration.points import refine_matches

__all__ = ["LOSSES", "MODELS", "Alignment", "Step", "align", "refine_matches"]
