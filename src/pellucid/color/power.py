"""The power law, with a finite gradient at black.

Owns: `power`.
Must not: clip.
Read next: ``../kernels/curve/reference.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["power"]


def power(image: Float[Tensor, "b c h w"], exponent: Float[Tensor, "#b"], gain: Float[Tensor, "#b"]) -> Float[Tensor, "b c h w"]:
    """Gain * max(image, 0) ** exponent, exactly the identity where both are 1 (negative values excepted).

    Gradient:
        image, exponent, gain: exact above black. At and below 0 it is 0 to all three: the true slope of x ** gamma at black is
        infinite for gamma < 1, so the subgradient there is a declared choice.
    """
    exponent, gain = exponent[:, None, None, None], gain[:, None, None, None]
    positive = image > 0
    safe = torch.where(positive, image, 1.0)
    return torch.where(positive, gain * safe**exponent, 0.0)
