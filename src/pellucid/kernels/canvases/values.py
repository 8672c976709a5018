"""What a chain of maps gives, whoever computes it.

Owns: `Chained`.
Must not: compute.
Read next: ``reference.py``.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

__all__ = ["Chained"]


class Chained(NamedTuple):
    """What a chain of maps gives for every output pixel.

    Args:
        places: where it reads the source, x then y; not finite where a map has no point.
        share: how much of it the source makes up; the rest is fill of the canvases.
        ground: that rest; None where every fill is zero.
    """

    places: Float[Tensor, "b 2 h2 w2"]
    share: Float[Tensor, "b 1 h2 w2"]
    ground: Float[Tensor, "b c h2 w2"] | None
