"""Tone curves on bytes: what the kernel of numbers makes of each of the 256 levels, looked up.

Owns: `tone_of_bytes`, and `tabled`, for what is computed elsewhere.
Must not: say what an operation is (``reference.py`` does), or be asked for gradients: bytes have none.
Read next: ``cpu/sweep.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from pellucid.kernels.curve import cpu
from pellucid.kernels.curve.layout import KINDS
from pellucid.kernels.curve.steps import rows_of
from pellucid.kernels.pixels import empty_like

__all__ = ["Bend", "bend_of", "tabled", "tone_of_bytes"]


class Bend(NamedTuple):
    """One curve for some samples: its kind, their numbers (``layout.py`` has both), and whether it clips."""

    kind: int
    numbers: Float[Tensor, "#n 3"]
    clip: bool = False


def bend_of(
    name: str, amount: Tensor | None, gate: Tensor | None, gain: Tensor | None = None, *, clip: bool = False
) -> Bend | None:
    """The curve of this name, in float32; None for one that is none of a level alone."""
    device = next((part.device for part in (amount, gain, gate) if part is not None), torch.device("cpu"))
    return Bend(KINDS[name], rows_of(amount, gain, gate, torch.float32, device), clip) if name in KINDS else None


def tone_of_bytes(image: UInt8[Tensor, "b c h w"], bend: Bend, dtype: torch.dtype) -> Shaped[Tensor, "b c h w"]:
    """See :func:`pellucid.kernels.curve.tone`, of bytes on the CPU; the same numbers as of the image in float32.

    Args:
        image: bytes.
        bend: a curve for every sample.
        dtype: of the result: bytes again, or float32.
    """
    out = empty_like(image, image.shape[2:], dtype)
    return cpu.by_levels(image, bend.numbers, [bend.kind, 0, 0, int(bend.clip)], out)


def tabled(
    image: UInt8[Tensor, "b c h w"], function: Callable[[UInt8[Tensor, "b c 1 256"]], Shaped[Tensor, "b c 1 256"]]
) -> Shaped[Tensor, "b c h w"]:
    """What a function, for which a level's place does not matter, makes of bytes: of all levels once, looked up."""
    levels = torch.arange(256, dtype=torch.uint8, device="cpu").expand(*image.shape[:2], 1, 256)
    return cpu.look_up(image, function(levels))
