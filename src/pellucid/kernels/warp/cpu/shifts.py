"""Which passes only move pictures by whole pixels, told from their maps.

Owns: `shifts`, their maps as whole numbers, and `undone`, the inverses of those.
Must not: import Numba, or look at pixels.
Read next: ``moves.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.kernels.several import Pictures
from pellucid.kernels.stages.chain import as_read
from pellucid.kernels.warp.layout import MODES
from pellucid.types import Size

__all__ = ["Shifts", "shifts", "undone"]

_FAR = float(1 << 22)  # as in ``../taps.py``
Shifts = Int64[np.ndarray[Any, Any], "#b 6"]


def shifts(
    image: Tensor | Pictures,
    mapping: Float[Tensor, "#b n"],
    window: Tensor | None,
    others: tuple[Any, ...],
    size: Size,
    options: list[int],
) -> Shifts | None:
    """The maps, as ``copies.moves_whole_pixels`` tells them one by one, of a pass whose samples all are copies; None of others.

    Args:
        others: field, links, table.
    """
    _, mode, flags, out_channels, *_ = options
    if any(part is not None for part in others) or not as_read(flags) or out_channels != image.shape[1] or not _any(image):
        return None
    m = mapping.numpy()
    if not (abs(m[:, :6]) < _FAR).all() or (m.shape[1] == 9 and not (m[:, 6:] == (0.0, 0.0, 1.0)).all()):
        return None
    whole = m[:, :6].astype(np.int64)
    a, b, _, d, e, _ = whole.T
    straight, turned = (b == 0) & (d == 0) & (abs(a * e) == 1), (a == 0) & (e == 0) & (abs(b * d) == 1)
    if not (whole == m[:, :6]).all() or not (straight | turned).all():
        return None
    if mode == MODES["zeros"] and window is None:
        return whole
    low, high = np.zeros(2), _sizes(image) - 1
    if window is not None:
        edges = window.numpy()
        low, high = np.maximum(edges[:, :2], low), np.minimum(edges[:, 2:], high)
    for place in (whole[:, 2::3], whole[:, 2::3] + whole[:, 0::3] * (size[1] - 1) + whole[:, 1::3] * (size[0] - 1)):
        if not ((place >= low) & (place <= high)).all():
            return None
    return whole


def _any(image: Tensor | Pictures) -> bool:
    return not isinstance(image, Tensor) or image.numel() > 0


def _sizes(image: Tensor | Pictures) -> Float[np.ndarray[Any, Any], "#b 2"]:
    """Width and height, of each sample or of all."""
    if isinstance(image, Tensor):
        return np.array([(image.shape[3], image.shape[2])], np.float64)
    sizes = np.empty((image.shape[0], 2))
    for part, where in zip(image.parts, image.places, strict=True):
        sizes[list(where)] = part.shape[3], part.shape[2]
    return sizes


def undone(maps: Shifts) -> Shifts:
    """The maps the other way: what each pixel of the image gave its colour to."""
    a, b, c, d, e, f = maps.T
    return np.ascontiguousarray(np.stack((a, d, -(a * c + d * f), b, e, -(b * c + e * f)), 1))
