"""The contract between torch and the compiled curves: the numbers that stand for names.

Owns: kinds, the row of numbers of a sample, where tiles lie.
Must not: import a compiler.
Read next: ``cpu/sweep.py``.
"""

import torch
from torch import Tensor

from pellucid.color.curves import CURVES, SLACK, SLOPES
from pellucid.types import Size

__all__ = [
    "AMOUNT", "AUTOCONTRAST", "EQUALIZE", "GAIN", "GATE", "KINDS", "POSTERIZE", "POWER", "REACH", "SLACK", "SLOPES", "SOLARIZE",
]  # fmt: skip

POWER, POSTERIZE, SOLARIZE, AUTOCONTRAST, EQUALIZE = range(5)
KINDS = {name: kind for kind, name in enumerate((*CURVES, "autocontrast", "equalize"))}

AMOUNT, GAIN, GATE, REACH = range(4)
"""A sample's numbers; the amount of a power is its exponent. The reach is there where a curve is a stage of a pass."""


def padded_size(height: int, width: int, tiles: Size) -> Size:
    """OpenCV pads both axes as soon as one of them does not divide, by a whole number of tiles' pixels where it does."""
    if height % tiles[0] == 0 and width % tiles[1] == 0:
        return height, width
    return height + tiles[0] - height % tiles[0], width + tiles[1] - width % tiles[1]


def between(length: int, tile: int, count: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """For every pixel the tiles whose centres lie before and after it, and its fraction of the way, in float32."""
    place = torch.arange(length, dtype=torch.float32, device=device) * (torch.ones((), device=device) / tile) - 0.5
    before = torch.floor(place)
    index = before.to(torch.int64)
    return index.clamp(min=0), (index + 1).clamp(max=count - 1), place - before
