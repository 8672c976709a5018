"""Tone curves on bytes: what the kernel of numbers makes of each of the 256 levels, looked up.

Owns: `tone_of_bytes`.
Must not: say what an operation is (``reference.py`` does), or be asked for gradients: bytes have none.
Read next: ``cpu/sweep.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from pellucid.kernels.conversion import as_bytes
from pellucid.kernels.curve import cpu
from pellucid.kernels.curve.layout import AUTOCONTRAST, EQUALIZE, KINDS
from pellucid.kernels.curve.steps import rows_of
from pellucid.kernels.warp.dtypes import to_colors

__all__ = ["Bend", "bend_of", "tone_of_bytes"]


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
    levels = to_colors(torch.arange(256, dtype=torch.uint8, device="cpu"), torch.float32)
    levels = torch.from_numpy(np.tile(levels.numpy(), (*image.shape[:2], 1)))  # as an array: torch would wake OpenMP's threads
    empty = torch.empty(levels.shape, dtype=torch.int64, device="cpu")
    counts = cpu.histograms(image) if bend.kind in (AUTOCONTRAST, EQUALIZE) and image.numel() else empty
    return cpu.look_up(image, as_bytes(cpu.bent(levels, counts, bend.numbers, [bend.kind, 0, 0, int(bend.clip)]), dtype))
