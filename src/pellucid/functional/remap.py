"""Reading images at coordinates.

Owns: `remap`.
Must not: interpolate; the kernels do.
Read next: ``estimate.py``.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, Unpack, overload

import numpy as np
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.errors import invalid
from pellucid.functional.fills import Factor, FillValue, read_numbers
from pellucid.functional.images import CHANNELS_LAST, compute_dtype, join_batch, open_image
from pellucid.functional.opencv import read_border, read_interpolation, read_relative
from pellucid.functional.warps import CvOptions, Wanted, warped
from pellucid.kernels.warp import paired

__all__ = ["remap"]


_Map: TypeAlias = Tensor | np.ndarray[Any, Any]


@overload
def remap(
    image: Tensor,
    map_x: _Map,
    map_y: _Map,
    *,
    relative: bool = ...,
    return_coverage: Literal[False] = ...,
    **options: Unpack[CvOptions],
) -> Tensor: ...
@overload
def remap(
    image: Tensor, map_x: _Map, map_y: _Map, *, relative: bool = ..., return_coverage: Literal[True], **options: Unpack[CvOptions]
) -> tuple[Tensor, Tensor]: ...
def remap(
    image: Shaped[Tensor, "..."],
    map_x: Float[Tensor, "*b h2 w2"] | np.ndarray[Any, Any],
    map_y: Float[Tensor, "*b h2 w2"] | np.ndarray[Any, Any],
    *,
    interpolation: str | int = "bilinear",
    border_mode: str | int = "constant",
    border_value: FillValue = 0.0,
    relative: bool = False,
    channels_last: bool | None = None,
    antialias: bool | int = False,
    gradient_scale: Factor = 0.0,
    image_gradient: str = "exact",
    impl: str = "auto",
    return_coverage: bool = False,
) -> Shaped[Tensor, "..."] | tuple[Shaped[Tensor, "..."], Float[Tensor, "..."]]:
    """Read the image at coordinates, as ``cv2.remap``, with gradients to the image and to the maps.

    Args:
        image: as in :func:`warp_affine`.
        map_x: for each output pixel the x to read (pixel centres): (H2, W2) for all images, or (B, H2, W2).
        map_y: likewise the y.
        interpolation: as in :func:`warp_affine`.
        relative: the maps are displacements from each output pixel's own place, as OpenCV's flag WARP_RELATIVE_MAP says.
        antialias: as in :func:`warp`; the coordinates of its neighbours say how much of the image an output pixel spans.
        return_coverage: as in :func:`warp_affine`; 0 where a coordinate is not finite.

    Returns:
        (C, H2, W2) or (B, C, H2, W2), or channels last, in the dtype of ``image``.

    Gradient:
        image, border_value: exact. map_x, map_y: almost everywhere; none for ``nearest``. With ``gradient_scale`` or ``widened``:
        surrogate, as in :func:`warp`. A NaN or infinite coordinate shows
        ``border_value`` in its pixel, under every border mode, and has zero gradient.

    Source:
        ``cv2.remap``; ``scipy.ndimage.map_coordinates`` to 1e-12 in float64.

    Example:
        >>> image = torch.tensor([[[1.0, 2.0, 3.0]]])
        >>> remap(image, torch.tensor([[2.0, 0.5]]), torch.zeros(1, 2))
        tensor([[[3.0000, 1.5000]]])
    """
    interpolation, flagged = read_relative(interpolation)
    mode, inverse = read_interpolation(interpolation)
    if inverse:
        raise invalid("interpolation", expected="flags without WARP_INVERSE_MAP (maps always lead to the input)", got=interpolation)
    how = antialias, gradient_scale, image_gradient, impl, return_coverage, "border_value"
    wanted = Wanted(mode, read_border(border_mode), border_value, *how)
    pixels, layout = open_image(image, channels_last=channels_last, option=CHANNELS_LAST)
    shape = "numbers of shape (H, W) or (B, H, W)"
    maps = [read_numbers(name, part, device=pixels.device, expected=shape) for name, part in (("map_x", map_x), ("map_y", map_y))]
    if maps[0].shape != maps[1].shape or maps[0].dim() not in (2, 3) or min(maps[0].shape[-2:]) < 1:
        raise invalid("map_x, map_y", expected=f"{shape}, both the same", got=f"{tuple(maps[0].shape)} and {tuple(maps[1].shape)}")
    batched = maps[0].dim() == 3
    x, y = (part.to(compute_dtype(pixels.dtype))[None if part.dim() == 2 else ...] for part in maps)
    pixels, layout = join_batch(pixels, layout, "map_x, map_y", x.shape[0], batched)
    own = 1.0 if relative or flagged else 0.0  # how much an output pixel's own place counts
    src_from_dst = constant((own, 0.0, 0.0, 0.0, own, 0.0), x.dtype, x.device).view(1, 2, 3)
    return warped(pixels, layout, src_from_dst, (x.shape[-2], x.shape[-1]), wanted, paired(x, y))
