"""Distances between descriptors whose gradient is finite when two of them coincide.

Owns: row-by-row and all-pairs Euclidean distances, in at least float32.
Must not: normalise descriptors or mine pairs.
Read next: ``triplet.py``.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid, wrong_type

__all__ = ["check_pairs", "pair_distance", "safe_sqrt", "table_distance"]


def safe_sqrt(squared: Tensor) -> Tensor:
    """Return the square root, 0 with gradient 0 where the argument is 0 or, by rounding, less; NaN stays NaN."""
    positive = ~(squared <= 0)
    return torch.where(positive, torch.where(positive, squared, 1.0).sqrt(), 0.0)


def pair_distance(first: Float[Tensor, "n d"], second: Float[Tensor, "n d"]) -> Float[Tensor, "n"]:
    """Return the distance between corresponding rows."""
    return safe_sqrt((first - second).square().sum(dim=-1))


def table_distance(first: Float[Tensor, "n d"], second: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    """Return all distances, through one matrix product (differences would need n x m x d memory)."""
    squared = first.square().sum(dim=-1)[:, None] + second.square().sum(dim=-1) - 2 * (first @ second.mT)
    # Rounding leaves about eps * |x|^2 where the distance is 0: below that the root's slope would be noise.
    if squared.numel() == 0:
        return squared
    fixed = squared.detach()
    floor = 4 * torch.finfo(squared.dtype).eps * torch.where(fixed.isfinite(), fixed, 0.0).amax()
    return safe_sqrt(torch.where(squared <= floor, 0.0, squared))  # in this order, so that NaN passes


def check_pairs(anchors: Tensor, positives: Tensor, reduction: str) -> tuple[Tensor, Tensor]:
    """Raise unless both are floating-point (N, D); return them in at least float32."""
    for name, value in (("anchors", anchors), ("positives", positives)):
        if not isinstance(value, Tensor) or not value.is_floating_point():
            got = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise wrong_type(name, expected="floating-point descriptors", got=got)
    if anchors.ndim != 2 or positives.shape != anchors.shape or anchors.shape[0] == 0:
        expected = "the shape of anchors, (N, D) with N at least 1; row i of both shows the same point"
        raise invalid("positives", expected=expected, got=f"{tuple(positives.shape)} for anchors {tuple(anchors.shape)}")
    if reduction not in ("mean", "sum", "none"):
        raise invalid("reduction", expected="'mean', 'sum' or 'none'", got=repr(reduction))
    dtype = torch.promote_types(torch.promote_types(anchors.dtype, positives.dtype), torch.float32)
    return anchors.to(dtype), positives.to(dtype)
