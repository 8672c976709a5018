"""A picture over other pictures (a sticker or patch): a run that warps both resamples each of them once.

Owns: `Sticker`, how it is resampled and blended, and reading the argument ``over``.
Must not: draw, or know where the sticker comes from.
Read next: ``../engine/overlays.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid, wrong_type
from pellucid.functional import warp
from pellucid.kernels import color
from pellucid.kernels.stages.chain import adds_colors
from pellucid.kernels.warp.dtypes import rounded
from pellucid.kernels.warp.packing import Resample, unpack
from pellucid.types import Size

__all__ = ["Sticker", "check_nothing_over", "read_sticker"]


class Sticker(NamedTuple):
    """A picture that lies over other pictures.

    Args:
        picture: one for all, or one for each.
        own_from_src: the map from pixels of the pictures below to the sticker's own pixels.
    """

    picture: Float[Tensor, "b_or_1 c h w"]
    own_from_src: Float[Tensor, "b 3 3"]

    def on(self, image: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        """Blend the sticker onto pictures of any size."""
        shown, cover = _read(self.picture, self.own_from_src, (image.shape[2], image.shape[3]))
        return image * (1 - cover) + shown

    def along(
        self,
        image: Float[Tensor, "b c h w"],
        resample: Resample,
        src_from_dst: Float[Tensor, "b_or_1 3 3"],
        read: Callable[[Tensor, Resample], Tensor],
    ) -> Float[Tensor, "b c2 h2 w2"]:
        """Apply a pass to pictures with the sticker over them, resampling the pictures and the sticker once each.

        Let s and c be the resampled picture and its coverage, t and a those of the sticker (by the composed map). The colour map is
        applied to ``(1 - a) s + c t`` with coverage c, so the picture's border cuts off both. This is linear in both pictures.

        Args:
            image: the pictures below.
            resample: the pass.
            src_from_dst: its map, regardless of canvases.
            read: computes a pass.
        """
        channels = image.shape[1]
        _, matrix, _, stages, _ = unpack(resample, channels)
        mixed, own = resample.without_stages(channels), color.stages(self.picture, resample.prologue)
        shown, cover = _read(own, self.own_from_src @ src_from_dst.to(self.own_from_src.dtype), resample.recipe.size)
        one = image.new_ones(()).expand(image.shape[0], 1, *image.shape[2:])
        shown = read(one, resample.without_colors()) * shown
        out = (1 - cover) * read(image, mixed) + (shown if matrix is None else color.affine(shown, matrix.to(shown.dtype), None))
        if adds_colors(mixed.recipe.flags):  # an offset or a fill shows in the uncovered part and in the covered part
            black = torch.zeros_like(one).expand(-1, channels, -1, -1)
            out = out + cover * read(black, mixed._replace(prologue=()))
        return rounded(color.stages(out, (*stages, *resample.epilogue)), resample.recipe.dtype)


def read_sticker(over: object, images: Sequence[Tensor], name: str = "over[0]") -> Sticker:
    """Read the argument ``over``: a picture (``name`` in errors), and the maps from the images' pixels to the picture's."""
    if not (isinstance(over, tuple) and len(over) == 2 and all(isinstance(part, Tensor) for part in over)):
        raise wrong_type("over", expected="a picture and the maps to its pixels, both tensors", got=type(over).__name__)
    picture, maps = over
    picture, maps = picture[None] if picture.dim() == 3 else picture, maps[None] if maps.dim() == 2 else maps
    for image in images:
        if not (image.is_floating_point() and image.dim() == 4):
            got = f"{image.dtype} {tuple(image.shape)}"
            raise invalid("batch", expected="floating-point images (B, C, H, W) under a picture", got=got)
        batch, channels = image.shape[:2]
        if picture.dim() != 4 or picture.shape[0] not in (1, batch) or picture.shape[1] != channels or picture.dtype != image.dtype:
            expected = f"{image.dtype} (1 or {batch}, {channels}, h, w)"
            raise invalid(name, expected=expected, got=f"{picture.dtype} {tuple(picture.shape)}")
        if maps.shape[0] not in (1, batch) or maps.shape[1:] != (3, 3) or not maps.is_floating_point():
            raise invalid("over[1]", expected=f"maps ({batch}, 3, 3)", got=f"{maps.dtype} {tuple(maps.shape)}")
    return Sticker(picture, maps.expand(len(images[0]), 3, 3) if images else maps)


def check_nothing_over(over: object) -> None:
    """Raise for a sticker over a list of pictures, which may differ in size."""
    if over is not None:
        raise invalid("over", expected="None for a list of pictures", got=type(over).__name__, fix="Call with one at a time.")


def _read(picture: Tensor, own_from_dst: Tensor, size: Size) -> tuple[Tensor, Tensor]:
    """Return the resampled picture, and the share of each pixel that it covers."""
    return warp(picture, own_from_dst, size=size, antialias=True, return_coverage=True)
