"""Reads laid over one another in plain PyTorch: the specification.

Owns: opacities, rectangles, and the order in which reads cover one another.
Must not: know which samples are partners, or read pixels from anywhere else than they lie.
Read next: ``../../geometry/rectangles.py``.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.geometry.rectangles import cover

__all__ = ["lay"]


def lay(
    below: Shaped[Tensor, "b c h w"],
    reads: Iterable[Shaped[Tensor, "b c h w"]],
    opacity: Float[Tensor, "b k"],
    box: Float[Tensor, "b k 4"] | None = None,
    *,
    edge: float = 0.0,
) -> Shaped[Tensor, "b c h w"]:
    """Lay reads over what is there, each over those before it: ``out = (1 - a) out + a s``.

    Args:
        below: floating point, or integers, of which each pixel takes the read that counts for more than half.
        reads: each is asked for when those before it are laid.
        opacity: a of each read, in [0, 1].
        box: rectangles (x0, y0, x1, y1) in pixel edges, outside of which a is 0; None: everywhere.
        edge: over how many pixels a rectangle fades out, half of them inside; 0: a pixel is inside where its centre is.

    Gradient:
        below, reads, opacity: exact. box: almost everywhere where it fades, none where not.
    """
    for k, read in enumerate(reads):
        share = opacity[:, k, None, None]
        if box is not None:
            share = share * cover(box[:, k], (read.shape[-2], read.shape[-1]), edge)  # b h w
        below = _laid(below, read, share[:, None])
    return below


def _laid(below: Tensor, read: Tensor, share: Tensor) -> Tensor:
    if not read.is_floating_point():
        return torch.where(share > 0.5, read, below)
    share = share.to(read.dtype)
    # What is covered, or not there, must not turn its NaN into others.
    below, read = (torch.where(part, one, torch.nan_to_num(one)) for part, one in ((share < 1, below), (share > 0, read)))
    return torch.lerp(below, read, share.expand_as(below))
