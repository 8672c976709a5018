"""Numbers of the JPEG standard and of libjpeg's integer arithmetic.

Owns: the example quantisation tables of the standard, and those of a quality; the integer cosine transform, the chroma
subsamplings; the names of declared slopes.
Must not: compute on images.
Read next: ``reference.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import constant

__all__ = ["CHROMINANCE", "COSINES", "LUMINANCE", "SLOPES", "SPREAD", "SUBSAMPLINGS", "quantisation"]

LUMINANCE = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
"""ITU-T T.81, table K.1."""

CHROMINANCE = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * 8,) * 4,
)
"""ITU-T T.81, table K.2."""

_HALVES = (
    (8192, 8192, 8192, 8192),
    (11363, 9633, 6437, 2260),
    (10703, 4433, -4433, -10703),
    (9633, -2259, -11362, -6436),
    (8192, -8192, -8192, 8192),
    (6437, -11362, 2261, 9633),
    (4433, -10704, 10704, -4433),
    (2260, -6436, 9633, -11363),
)

COSINES = tuple((*half, *(x if k % 2 == 0 else -x for x in reversed(half))) for k, half in enumerate(_HALVES))
"""Row k: sqrt(2) c(k) cos((2 n + 1) k pi / 16) in units of 2 ** -13, as the sums of rounded constants in libjpeg's slow integer
transform come out. That transform rounds once per pass, so that a pass is this matrix and one shift."""

SUBSAMPLINGS = {"4:4:4": (1, 1), "4:2:2": (1, 2), "4:2:0": (2, 2)}
"""Pixels per chroma sample, (vertical, horizontal)."""

SLOPES = ("proximity", "cubic", "straight_through")
"""How a coefficient passes its rounding (``surrogate.py``)."""

SPREAD = 0.2
"""Standard deviation of the Gaussian at each jump, in quantisation steps."""


def quantisation(quality: Float[Tensor, "#b"], table: tuple[tuple[int, ...], ...]) -> Float[Tensor, "#b 1 1 1 8 8"]:
    """The steps of an 8 x 8 block at a quality, as the IJG's encoder scales its tables: 1 to 255."""
    whole = torch.floor(quality.to(torch.float64) + 0.5).clamp(1.0, 100.0)
    percent = torch.where(whole < 50.0, torch.floor(5000.0 / whole), 200.0 - 2.0 * whole)[:, None, None, None, None, None]
    base = constant([float(step) for row in table for step in row], torch.float64, quality.device).view(8, 8)
    return torch.floor((base * percent + 50.0) / 100.0).clamp(1.0, 255.0)
