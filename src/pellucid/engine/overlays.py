"""What lies over pictures and is resampled with them: what the engine asks of it, and which passes it can go through.

Owns: `Overlay`, and `goes_along`.
Must not: know what lies over the pictures, or where it comes from.
Read next: ``../pipeline/stickers.py``, which has the only such class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from torch import Tensor

from pellucid.engine.plan import Group, Run
from pellucid.kernels.warp.packing import Resample
from pellucid.kernels.warp.taps import FILLED_MODES

__all__ = ["Overlay", "goes_along"]


@runtime_checkable  # tests check arguments against their annotations
class Overlay(Protocol):
    """Something that lies over pictures."""

    def on(self, image: Tensor) -> Tensor:
        """Lay it on pictures."""

    def along(self, image: Tensor, resample: Resample, src_from_dst: Tensor, read: Callable[[Tensor, Resample], Tensor]) -> Tensor:
        """Apply a pass to pictures under it, resampling both once."""


def goes_along(group: Group) -> bool:
    """Return whether a sticker can go through a pass: a resample by a matrix that shows its source once and fills the outside."""
    if not isinstance(group, Run) or not group.warps or group.settled or group.bends or group.interpolation == "nearest":
        return False
    filled = all(canvas.padding_mode in FILLED_MODES for canvas in group.canvases if canvas.exposes)
    return filled and (group.clamped or group.padding_mode in FILLED_MODES)
