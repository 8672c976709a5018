"""Blend reads over one another in plain PyTorch: the specification.

Owns: opacities, rectangles, and the order in which reads cover one another.
Must not: know which samples are partners, or what for.
Read next: ``../../geometry/rectangles.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.geometry.rectangles import cover
from pellucid.kernels.warp import Resample, pack
from pellucid.kernels.warp.dtypes import rounded, to_colors
from pellucid.kernels.warp.reference import warp

__all__ = ["layers"]


def layers(
    image: Shaped[Tensor, "b c h w"],
    offset: Int64[Tensor, "b k"],
    opacity: Float[Tensor, "b k"],
    box: Float[Tensor, "b k 4"] | None,
    src_from_dst: Float[Tensor, "b k 2 3"] | None,
    plane: Float[Tensor, "b h w"] | None = None,
    *,
    ground: tuple[float, ...],
    covers: bool = False,
    edge: float = 0.0,
    dtype: torch.dtype | None = None,
    interpolation: str = "bilinear",
    resample: Callable[[Tensor, Resample], Tensor] = warp,
) -> Shaped[Tensor, "b c h w"]:
    """Blend reads over one another, each over those before it: ``out = (1 - a) out + a s``.

    Args:
        image: floating point, or bytes; with ``dtype=None`` integers, where a read replaces the pixels at which its a is more than
            half.
        offset: read k of sample i shows sample i + offset[i, k].
        opacity: a of each read, in [0, 1].
        box: rectangles (x0, y0, x1, y1) in pixel edges, outside of which a is 0; None: everywhere.
        src_from_dst: maps output pixels to pixels of the source, outside of which the ground shows; None: the identity.
        plane: what the opacity of the last read is multiplied by at each pixel, in [0, 1].
        ground: the colour that shows where no read does.
        covers: the first read shows everywhere, whatever is given for it.
        edge: over how many pixels a rectangle fades out, half of them inside; 0: a pixel is inside where its centre is.
        dtype: of the result; bytes are fractions of 255, then. None: the image's.
        interpolation, resample: of reads through maps, and the warp that computes them.

    Gradient:
        image, opacity, plane: exact. src_from_dst: almost everywhere. box: almost everywhere where it fades, none where not.
    """
    if dtype is not None:
        image = to_colors(image, opacity.dtype)
    rows = torch.arange(len(image), device=image.device)
    outside = constant(ground, opacity.dtype, image.device)[None] if any(ground) else None

    def read(k: int) -> Tensor:
        picture = image[rows + offset[:, k]]
        if src_from_dst is None:
            return picture
        size = (image.shape[-2], image.shape[-1])
        maps = src_from_dst[:, k]
        return resample(picture, pack(maps, size=size, interpolation=interpolation, padding_mode="constant", fill=outside))

    below = read(0) if covers else (image.new_zeros(()) if outside is None else outside.to(image.dtype)[:, :, None, None])
    below = below.expand_as(image)
    for k in range(int(covers), opacity.shape[1]):
        share = opacity[:, k, None, None]
        if box is not None:
            share = share * cover(box[:, k], (image.shape[-2], image.shape[-1]), edge)  # b h w
        if plane is not None and k == opacity.shape[1] - 1:
            share = share * plane
        below = _laid(below, read(k), share[:, None])
    return rounded(below, dtype)


def _laid(below: Tensor, read: Tensor, share: Tensor) -> Tensor:
    if not read.is_floating_point():
        return torch.where(share > 0.5, read, below)
    share = share.to(read.dtype)
    # A NaN of a read that is covered whole, or of one with share 0, must not reach the result.
    below, read = (torch.where(part, one, torch.nan_to_num(one)) for part, one in ((share < 1, below), (share > 0, read)))
    return torch.lerp(below, read, share.expand_as(below))
