"""Points through homographies, and the pixels of a picture as points.

Owns: `transform_points`, `pixel_centers`.
Must not: clip or decide visibility.
Read next: ``../boxes/transform.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.types import Size

__all__ = ["pixel_centers", "slopes_of", "transform_points"]


def transform_points(points: Float[Tensor, "*b n 2"], dst_from_src: Float[Tensor, "*b 3 3"]) -> Float[Tensor, "*b n 2"]:
    """Send points (x, y), in pixel-centre coordinates, through a homography.

    Gradient:
        points, dst_from_src: exact. On the horizon, and for a point or matrix that is not finite, the result is NaN with zero
        gradient, so that masking it out is enough to keep it away from everything else.

    Example:
        >>> transform_points(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 0, 5], [0, 1, 0], [0, 0, 1]]))
        tensor([[6., 2.]])
    """
    # Replace NaN before the arithmetic: masking the result alone would still send 0 * NaN to the gradient of the shared matrix.
    whole = torch.isfinite(dst_from_src).all(-1).all(-1)[..., None]  # *b 1
    known = torch.isfinite(points).all(-1) & whole  # *b n
    x, y = torch.where(known[..., None], points, 0.0).unbind(-1)
    m = torch.where(whole[..., None], dst_from_src, torch.eye(3, dtype=dst_from_src.dtype, device=dst_from_src.device))
    m = m.unsqueeze(-3)  # *b 1 3 3
    u = m[..., 0, 0] * x + (m[..., 0, 1] * y + m[..., 0, 2])
    v = m[..., 1, 0] * x + (m[..., 1, 1] * y + m[..., 1, 2])
    w = m[..., 2, 0] * x + (m[..., 2, 1] * y + m[..., 2, 2])
    known = known & (w != 0)
    w = torch.where(known, w, 1.0)
    return torch.where(known[..., None], torch.stack((u / w, v / w), dim=-1), torch.nan)


def pixel_centers(size: Size, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "1 n 2"]:
    """Return the coordinates (x, y) of a picture's pixels, row by row."""
    height, width = size
    x, y = torch.arange(width, dtype=dtype, device=device), torch.arange(height, dtype=dtype, device=device)
    return torch.stack((x.expand(height, width), y[:, None].expand(height, width)), -1).flatten(0, 1)[None]


def slopes_of(matrix: Float[Tensor, "b 3 3"], points: Float[Tensor, "b n 2"]) -> Float[Tensor, "b n 2 2"]:
    """Return the derivative of a homography at points (b, n, 2); row i belongs to coordinate i of the result.

    Gradient:
        matrix, points: exact.
    """
    depth = points @ matrix[:, 2, :2, None] + matrix[:, 2, 2, None, None]  # b n 1
    moved = transform_points(points, matrix)
    return (matrix[:, None, :2, :2] - moved[..., None] * matrix[:, None, 2:, :2]) / depth[..., None]
