"""Luma weights.

Owns: the two sets of weights and when each is meant.
Must not: grow other constants.
Read next: ``maps.py``.
"""

from __future__ import annotations

__all__ = ["LUMA", "LUMA_TORCHVISION"]

LUMA = (0.299, 0.587, 0.114)
"""ITU-R BT.601; they sum to one, which is what lets brightness, contrast and saturation commute."""

LUMA_TORCHVISION = (0.2989, 0.587, 0.114)
"""torchvision's rounding of these weights (sum 0.9999): used only where torchvision's results are promised."""
