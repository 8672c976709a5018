"""Tone curves on bytes: what the kernel of numbers makes of each of the 256 levels, looked up.

Owns: `tone_of_bytes`, and `Curves`, which puts one curve on another before anything is looked up.
Must not: say what an operation is (``reference.py`` does), or be asked for gradients: bytes have none.
Read next: ``cpu/sweep.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64, Shaped, UInt8
from torch import Tensor

from pellucid.kernels.curve import cpu
from pellucid.kernels.curve.layout import AUTOCONTRAST, EQUALIZE, KINDS
from pellucid.kernels.curve.steps import rows_of
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.rows import taken
from pellucid.kernels.warp.dtypes import rounded, to_colors

__all__ = ["Bend", "Curves", "bend_of", "tone_of_bytes"]


class Bend(NamedTuple):
    """One curve for some samples: its kind, their numbers (``layout.py`` has both), and whether it clips."""

    kind: int
    numbers: Float[Tensor, "#n 3"]
    clip: bool = False

    def of(self, rows: Int64[Tensor, "n"]) -> Bend:
        """For some of them."""
        return self if len(self.numbers) == 1 else self._replace(numbers=self.numbers[rows])


def bend_of(
    name: str, amount: Tensor | None, gate: Tensor | None, gain: Tensor | None = None, *, clip: bool = False
) -> Bend | None:
    """The curve of this name, in float32; None for one that is none of a level alone."""
    return Bend(KINDS[name], rows_of(amount, gain, gate, torch.float32), clip) if name in KINDS else None


def tone_of_bytes(image: UInt8[Tensor, "b c h w"], bend: Bend, dtype: torch.dtype) -> Shaped[Tensor, "b c h w"]:
    """See :func:`pellucid.kernels.curve.tone`, of bytes on the CPU; the same numbers as of the image in float32.

    Args:
        image: bytes.
        bend: a curve for every sample.
        dtype: of the result: bytes again, or float32.
    """
    if not len(image):
        return in_large_pages(torch.empty(image.shape, dtype=dtype))
    curves, rows = Curves(image), torch.arange(len(image))
    curves.put(rows, bend)
    return curves.read(rows, dtype)


class Curves:
    """What curves have made of the levels of each sample so far: one read of the bytes serves all of them.

    Args:
        image: bytes on the CPU.
    """

    def __init__(self, image: UInt8[Tensor, "b c h w"]) -> None:
        self._image = image
        levels = to_colors(torch.arange(256, dtype=torch.uint8), torch.float32)
        self._tables = levels.repeat(*image.shape[:2], 1)  # b c 256
        self._histograms = torch.empty((*image.shape[:2], 256), dtype=torch.int64)
        self._counted = torch.zeros(len(image), dtype=torch.bool)
        self._held = torch.ones(len(image), dtype=torch.bool)

    def held(self, rows: Int64[Tensor, "n"]) -> Bool[Tensor, "n"]:
        """Of which samples all that happened is on their curves."""
        return self._held[rows]

    def leave(self, rows: Int64[Tensor, "n"]) -> None:
        """Something else happens to samples; their curves are of no more use."""
        self._held[rows] = False

    def put(self, rows: Int64[Tensor, "n"], bend: Bend) -> None:
        """Put a curve on those of some samples."""
        if bend.kind in (AUTOCONTRAST, EQUALIZE):
            new = rows[~self._counted[rows]]
            if len(new):
                self._histograms[new], self._counted[new] = cpu.histograms(taken(self._image, new)), True
        options = [bend.kind, 0, 0, int(bend.clip)]
        self._tables[rows] = cpu.bent(self._tables[rows], self._histograms[rows], bend.numbers, options)

    def read(self, rows: Int64[Tensor, "n"], dtype: torch.dtype) -> Shaped[Tensor, "n c h w"]:
        """Samples under their curves, as bytes or float32."""
        return cpu.look_up(taken(self._image, rows), rounded(self._tables[rows], dtype))
