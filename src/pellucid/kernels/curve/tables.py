"""Tone curves on bytes: what the reference makes of each of the 256 levels, looked up.

Owns: `tone_of_bytes`.
Must not: say what an operation is (``reference.py`` does), or be asked for gradients: bytes have none.
Read next: ``cpu/sweep.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64, Shaped, UInt8
from torch import Tensor

from pellucid.kernels.curve import cpu
from pellucid.kernels.curve.reference import flattening, posterize, solarize, stretch
from pellucid.kernels.warp.dtypes import rounded, to_colors

__all__ = ["TABLED", "tone_of_bytes"]

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
    levels = to_colors(torch.arange(256, dtype=torch.uint8), torch.float32)
    table = _table(levels, image, name, amount)
    if gate is not None:
        gate = gate[:, None, None, None]
        table = gate * table + (1.0 - gate) * levels
    return cpu.look_up(image, rounded(table.expand(*image.shape[:2], 1, 256), dtype).flatten(1, 2))


def _table(levels: Float[Tensor, "256"], image: Tensor, name: str, amount: Tensor | None) -> Float[Tensor, "b #c 1 256"]:
    if name in ("posterize", "solarize"):
        assert amount is not None
        ramp = levels.expand(len(amount), 1, 1, 256)
        return posterize(ramp, amount, 255.0) if name == "posterize" else solarize(ramp, amount, 255.0)
    histogram: Int64[Tensor, "b c 256"] = cpu.histograms(image)
    if name == "equalize":
        curve, stays = flattening(histogram)
        return torch.where(stays, levels, curve.to(levels.dtype) / 255.0)[:, :, None]
    seen = torch.where(histogram[:, :, None] > 0, levels, torch.nan)
    low, high = (torch.where(seen.isnan(), outside, seen) for outside in (2.0, -1.0))
    return stretch(levels, low.amin(-1, keepdim=True), high.amax(-1, keepdim=True))
