"""Tone curves on bytes: what the kernel of numbers makes of each of the 256 levels, looked up.

Owns: `tone_of_bytes`, and `Curves`, which puts one curve on another before anything is looked up.
Must not: say what an operation is (``reference.py`` does), or be asked for gradients: bytes have none.
Read next: ``cpu/sweep.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped, UInt8
from torch import Tensor

from pellucid.kernels.conversion import as_bytes
from pellucid.kernels.curve import cpu
from pellucid.kernels.curve.layout import AUTOCONTRAST, EQUALIZE, KINDS
from pellucid.kernels.curve.steps import rows_of
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.rows import taken
from pellucid.kernels.warp.dtypes import to_colors

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

    All that it keeps are arrays: torch hands operations of this size to OpenMP, whose threads then spin beside the passes' own.

    Args:
        image: bytes on the CPU.
    """

    def __init__(self, image: UInt8[Tensor, "b c h w"]) -> None:
        self._image, kinds = image, image.shape[:2]
        levels = to_colors(torch.arange(256, dtype=torch.uint8), torch.float32).numpy()
        self._tables = np.tile(levels, (*kinds, 1))  # b c 256
        self._histograms = np.empty((*kinds, 256), np.int64)
        self._counted, self._held = np.zeros(len(image), bool), np.ones(len(image), bool)

    def parted(self, rows: Int64[Tensor, "n"]) -> list[tuple[bool, Int64[Tensor, "m"]]]:
        """Those of some samples of which all that happened is on their curves (True), and the others, if there are such."""
        held = self._held[rows.numpy()]
        if held.all() or not held.any():
            return [(bool(held.all()), rows)]
        return [(True, rows[torch.from_numpy(held)]), (False, rows[torch.from_numpy(~held)])]

    def leave(self, rows: Int64[Tensor, "n"]) -> None:
        """Something else happens to samples; their curves are of no more use."""
        self._held[rows.numpy()] = False

    def put(self, rows: Int64[Tensor, "n"], bend: Bend) -> None:
        """Put a curve on those of some samples."""
        some = rows.numpy()
        if bend.kind in (AUTOCONTRAST, EQUALIZE):
            new = some[~self._counted[some]]
            if len(new):
                self._histograms[new], self._counted[new] = cpu.histograms(taken(self._image, torch.from_numpy(new))).numpy(), True
        options, made = [bend.kind, 0, 0, int(bend.clip)], torch.from_numpy(self._tables[some])
        self._tables[some] = cpu.bent(made, torch.from_numpy(self._histograms[some]), bend.numbers, options).numpy()

    def read(self, rows: Int64[Tensor, "n"], dtype: torch.dtype) -> Shaped[Tensor, "n c h w"]:
        """Samples under their curves, as bytes or float32."""
        return cpu.look_up(taken(self._image, rows), as_bytes(torch.from_numpy(self._tables[rows.numpy()]), dtype))
