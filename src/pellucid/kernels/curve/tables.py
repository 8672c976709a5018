"""Tone curves on bytes: what the reference makes of each of the 256 levels, looked up.

Owns: `tone_of_bytes`, and `Curves`, which puts one curve on another before anything is looked up.
Must not: say what an operation is (``reference.py`` does), or be asked for gradients: bytes have none.
Read next: ``cpu/sweep.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int64, Shaped, UInt8
from torch import Tensor

from pellucid.kernels.curve import cpu
from pellucid.kernels.curve.reference import flattening, posterize, solarize, stretch
from pellucid.kernels.rows import taken
from pellucid.kernels.warp.dtypes import rounded, to_colors

__all__ = ["TABLED", "Curves", "tone_of_bytes"]

TABLED = ("posterize", "solarize", "autocontrast", "equalize")
"""Operations that send equal levels of a channel to equal ones."""


def tone_of_bytes(
    image: UInt8[Tensor, "b c h w"],
    name: str,
    amount: Float[Tensor, "#b"] | None,
    gate: Float[Tensor, "#b"] | None,
    dtype: torch.dtype,
) -> Shaped[Tensor, "b c h w"]:
    """See :func:`pellucid.kernels.curve.surrogate.tone`, of bytes on the CPU; the same numbers as of the image in float32.

    Args:
        image: bytes.
        name: one of ``TABLED``.
        amount, gate: float32.
        dtype: of the result: bytes again, or float32.
    """
    curves, rows = Curves(image), torch.arange(len(image))
    curves.bend(rows, name, amount, gate)
    return curves.read(rows, dtype)


class Curves:
    """What curves have made of the levels of each sample so far: one read of the bytes serves all of them.

    Args:
        image: bytes on the CPU.
    """

    def __init__(self, image: UInt8[Tensor, "b c h w"]) -> None:
        self._image = image
        levels = to_colors(torch.arange(256, dtype=torch.uint8), torch.float32)
        self._tables = levels.repeat(*image.shape[:2], 1, 1)  # b c 1 256
        self._histograms = torch.empty((*image.shape[:2], 256), dtype=torch.int64)
        self._counted = torch.zeros(len(image), dtype=torch.bool)
        self._held = torch.ones(len(image), dtype=torch.bool)

    def held(self, rows: Int64[Tensor, "n"]) -> Bool[Tensor, "n"]:
        """Of which samples all that happened is on their curves."""
        return self._held[rows]

    def leave(self, rows: Int64[Tensor, "n"]) -> None:
        """Something else happens to samples; their curves are of no more use."""
        self._held[rows] = False

    def bend(
        self, rows: Int64[Tensor, "n"], name: str, amount: Float[Tensor, "#n"] | None, gate: Float[Tensor, "#n"] | None
    ) -> None:
        """Put a curve on those of some samples; as :func:`tone_of_bytes`."""
        before = self._tables[rows]
        if name in ("posterize", "solarize"):
            assert amount is not None
            after = (posterize if name == "posterize" else solarize)(before, amount, 255.0)
        else:
            after = self._stretched(before, rows) if name == "autocontrast" else self._equalized(before, rows)
        if gate is not None:
            gate = gate[:, None, None, None]
            after = gate * after + (1.0 - gate) * before
        self._tables[rows] = after

    def read(self, rows: Int64[Tensor, "n"], dtype: torch.dtype) -> Shaped[Tensor, "n c h w"]:
        """Samples under their curves, as bytes or float32."""
        return cpu.look_up(taken(self._image, rows), rounded(self._tables[rows], dtype).flatten(1, 2))

    def _histogram(self, rows: Tensor) -> Int64[Tensor, "n c 256"]:
        new = rows[~self._counted[rows]]
        if len(new):
            self._histograms[new], self._counted[new] = cpu.histograms(taken(self._image, new)), True
        return self._histograms[rows]

    def _stretched(self, table: Float[Tensor, "n c 1 256"], rows: Tensor) -> Float[Tensor, "n c 1 256"]:
        seen = self._histogram(rows)[:, :, None] > 0
        low, high = (torch.where(seen, table, outside) for outside in (2.0, -1.0))
        return stretch(table, low.amin(-1, keepdim=True), high.amax(-1, keepdim=True))

    def _equalized(self, table: Float[Tensor, "n c 1 256"], rows: Tensor) -> Float[Tensor, "n c 1 256"]:
        level = torch.floor(table[:, :, 0] * 255.0 + 0.5).clamp(0.0, 255.0).to(torch.int64)
        histogram = self._histogram(rows)
        curve, stays = flattening(torch.zeros_like(histogram).scatter_add(2, level, histogram))
        return torch.where(stays, table[:, :, 0], curve.to(table.dtype).gather(2, level) / 255.0)[:, :, None]
