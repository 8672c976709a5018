"""Find the descriptors of a batch that must not serve as each other's negatives.

Owns: the geometric test: points of one image that lie closer than some pixels show the same thing.
Must not: mine; ``pellucid.losses.hardest_triplet_loss`` does, and takes this as ``not_negative``.
Read next: ``../losses/triplet.py``.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.errors import invalid

__all__ = ["near_in_image"]


def near_in_image(
    points: Float[Tensor, "n 2"], image: Int[Tensor, "n"] | None = None, *, radius: float = 5.0
) -> Bool[Tensor, "n n"]:
    """Return which pairs of points lie in the same image within ``radius`` pixels of each other.

    Args:
        points: (x, y), all in their image's first view.
        image: which image each point belongs to; by default all belong to one.
        radius: in pixels; pairs at exactly this distance count as near.

    Returns:
        A symmetric mask with True on the diagonal, for ``hardest_triplet_loss(..., not_negative=...)``.

    Gradient:
        none (the result is boolean).
    Errors:
        InvalidArgument for shapes that do not fit.

    Example:
        >>> near_in_image(torch.tensor([[0.0, 0], [3, 4], [9, 9]]), radius=5.0).int().tolist()
        [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """
    n = points.shape[0]
    if points.shape != (n, 2) or (image is not None and image.shape != (n,)):
        got = f"{tuple(points.shape)} and {None if image is None else tuple(image.shape)}"
        raise invalid("points, image", expected="shapes (N, 2) and (N,)", got=got)
    fixed = points.detach()
    # Differences instead of a matrix product, which would lose precision far from the origin.
    near = (fixed[:, None] - fixed).square().sum(-1) <= radius**2
    near = near | torch.eye(n, dtype=torch.bool, device=points.device)
    return near if image is None else near & (image[:, None] == image)
