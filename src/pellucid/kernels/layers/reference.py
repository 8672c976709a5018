"""Reads laid over one another in plain PyTorch: the specification.

Owns: opacities, rectangles, and the order in which reads cover one another.
Must not: know which samples are partners, or what for.
Read next: ``../warp/reference.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor

from pellucid.geometry.rectangles import cover
from pellucid.kernels.warp import reference as warp
from pellucid.kernels.warp.packing import pack

__all__ = ["layers"]


def layers(
    image: Shaped[Tensor, "b c h w"],
    source: Int64[Tensor, "b k"],
    opacity: Float[Tensor, "b k"],
    box: Float[Tensor, "b k 4"] | None = None,
    src_from_dst: Float[Tensor, "b k 2 3"] | None = None,
    fill: Shaped[Tensor, "1 c"] | None = None,
    *,
    edge: float = 0.0,
    interpolation: str = "bilinear",
) -> Shaped[Tensor, "b c h w"]:
    """Lay reads over one another, each over those before it: ``out = (1 - a) out + a s``, beginning with the fill.

    Args:
        image: floating point, or integers, of which each pixel takes the read that counts for more than half.
        source: which sample each read shows.
        opacity: a of each read, in [0, 1].
        box: rectangles (x0, y0, x1, y1) in pixel edges, outside of which a is 0; None: everywhere.
        src_from_dst: output pixel to the read's pixel; what lies outside of the picture shows the fill; None: as they are.
        fill: None is zero.
        edge: over how many pixels a rectangle fades out, half of them inside; 0: a pixel is inside where its centre is.
        interpolation: of reads through maps.

    Gradient:
        image: exact. opacity: exact. box: almost everywhere where it fades, none where not. src_from_dst: almost everywhere.
    """
    size = (image.shape[-2], image.shape[-1])
    out = image.new_zeros(()) if fill is None else fill.to(image.dtype)[:, :, None, None]
    for k in range(source.shape[1]):
        read = image[source[:, k]]
        if src_from_dst is not None:
            places = src_from_dst[:, k]
            read = warp.warp(read, pack(places, size=size, interpolation=interpolation, padding_mode="constant", fill=fill))
        share = opacity[:, k, None, None]
        if box is not None:
            share = share * cover(box[:, k], size, edge)  # b h w
        out = _laid(out, read, share[:, None])
    return out


def _laid(below: Tensor, read: Tensor, share: Tensor) -> Tensor:
    """A product would turn a NaN that is covered into NaN; where nothing of a pixel remains, nothing of it is read."""
    if not read.is_floating_point():
        return torch.where(share > 0.5, read, below)
    share = share.to(read.dtype)
    return torch.where(share < 1, (1.0 - share) * below, 0.0) + torch.where(share > 0, share * read, 0.0)
