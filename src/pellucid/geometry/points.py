"""Points through homographies.

Owns: `transform_points`.
Must not: clip or decide visibility.
Read next: ``../boxes/transform.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["transform_points"]


def transform_points(points: Float[Tensor, "*b n 2"], dst_from_src: Float[Tensor, "*b 3 3"]) -> Float[Tensor, "*b n 2"]:
    """Send points (x, y), in pixel-centre coordinates, through a homography.

    Gradient:
        points, dst_from_src: exact. On the horizon the result is non-finite.

    Example:
        >>> transform_points(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 0, 5], [0, 1, 0], [0, 0, 1]]))
        tensor([[6., 2.]])
    """
    x, y = points.unbind(-1)
    m = dst_from_src.unsqueeze(-3)  # *b 1 3 3
    u = m[..., 0, 0] * x + (m[..., 0, 1] * y + m[..., 0, 2])
    v = m[..., 1, 0] * x + (m[..., 1, 1] * y + m[..., 1, 2])
    w = m[..., 2, 0] * x + (m[..., 2, 1] * y + m[..., 2, 2])
    return torch.stack((u / w, v / w), dim=-1)
