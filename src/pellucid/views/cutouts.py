"""Many crops of one picture, to optimise the picture through an encoder.

Owns: `cutouts`.
Must not: crop by itself.
Read next: ``siamese.py``.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from pellucid.core.arguments import finite_numbers, whole_number
from pellucid.errors import invalid, wrong_type
from pellucid.random import Key
from pellucid.transforms import RandomResizedCrop

__all__ = ["cutouts"]


def cutouts(
    image: Tensor, n: int, size: int, *, scale: tuple[float, float] = (0.1, 1.0), key: Key | None = None
) -> Float[Tensor, "m c s s"]:
    """Cut n random squares out of a picture and bring them to one size, all in one pass.

    An encoder of fixed input size sees the picture in parts, and the gradients of all parts meet in the picture.
    Squares larger than the output are low-pass filtered.

    Args:
        image: (C, H, W) or (B, C, H, W).
        n: how many squares of each picture.
        size: side of the results, in pixels.
        scale: two fractions. A square has an area drawn between them, relative to the largest square that fits into the picture.
        key: as in a pipeline's call; without one each call draws anew.

    Returns:
        (B n, C, size, size): the squares of the first picture, then of the second.

    Gradient:
        image: exact, to any order. The backward pass takes one picture's memory for each square.
    Errors:
        InvalidArgument for no square, a side that is not positive, a scale beyond 1 or other axes; InvalidType for other types.
    Source:
        ``F.interpolate(square, size, mode="bilinear", antialias=True)`` for each square. For crops with other transforms after
        them, call a pipeline on ``image.expand(n, -1, -1, -1)``.

    Example:
        >>> import torch
        >>> from pellucid.views import cutouts
        >>> picture = torch.zeros(3, 40, 60, requires_grad=True)
        >>> squares = cutouts(picture, 16, 8)
        >>> squares.mean().backward()
        >>> squares.shape, picture.grad.shape
        (torch.Size([16, 3, 8, 8]), torch.Size([3, 40, 60]))
    """
    n, size = whole_number("n", n, 1, 2**20), whole_number("size", size, 1, 2**16)
    expected = "a tensor (C, H, W) or (B, C, H, W)"
    if not isinstance(image, Tensor):
        raise wrong_type("image", expected=expected, got=type(image).__name__)
    if image.ndim not in (3, 4) or 0 in image.shape:
        raise invalid("image", expected=expected, got=tuple(image.shape))
    limits = finite_numbers("scale", scale)
    if len(limits) != 2 or not 0 < limits[0] <= limits[1] <= 1:
        raise invalid("scale", expected="two fractions, 0 < low <= high <= 1", got=scale)
    height, width = image.shape[-2:]
    low, high = (fraction * min(height, width) / max(height, width) for fraction in limits)
    batch = image.reshape(-1, *image.shape[-3:])[:, None].expand(-1, n, -1, -1, -1).flatten(0, 1)
    squares: Tensor = RandomResizedCrop(size, scale=(low, high), ratio=(1.0, 1.0))(batch, key=key)
    return squares
