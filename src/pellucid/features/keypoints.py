"""Select the K best keypoints of each image from a response map, in static shapes.

Owns: non-maximum suppression, the choice of the K highest, and their sub-pixel places.
Must not: compute responses.
Read next: ``soft_argmax.py``, ``classical.py``.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.errors import invalid
from pellucid.features.derivatives import check_grey
from pellucid.features.soft_argmax import soft_argmax

__all__ = ["Keypoints", "gather_map", "select_keypoints", "suppress_non_maxima"]


class Keypoints(NamedTuple):
    """K keypoints per image, highest score first; rows where ``valid`` is False hold no keypoint (point and score are 0)."""

    points: Tensor
    """(B, K, 2): x before y, pixel centres at integers."""
    scores: Tensor
    """(B, K): the response at the pixel the keypoint was found on."""
    valid: Tensor
    """(B, K), boolean."""


def suppress_non_maxima(response: Float[Tensor, "b 1 h w"], radius: int = 4) -> Bool[Tensor, "b 1 h w"]:
    """Return where a response is the highest within ``radius`` pixels along each axis.

    Flat neighbourhoods and values that are not finite are no maxima. If several values are equal and highest, all are maxima.

    Args:
        response: a map for each image.
        radius: pixels, at least 1.

    Returns:
        True at maxima.

    Gradient:
        none (the result is boolean).

    Errors:
        InvalidArgument for a radius below 1, and as :func:`structure_tensor` for shapes.

    Source:
        ``scipy.ndimage.maximum_filter``.

    Example:
        >>> suppress_non_maxima(torch.tensor([[[[0.0, 2, 1, 0, 3]]]]), 2)
        tensor([[[[False,  True, False, False,  True]]]])
    """
    check_grey("response", response)
    if radius < 1:
        raise invalid("radius", expected="at least 1 pixel", got=radius)
    finite = torch.isfinite(response)
    values = response.detach()
    size = 2 * radius + 1
    highest = F.max_pool2d(torch.where(finite, values, -torch.inf), size, 1, radius)
    lowest = -F.max_pool2d(torch.where(finite, -values, -torch.inf), size, 1, radius)
    return finite & (values == highest) & (highest > lowest)


def select_keypoints(
    response: Float[Tensor, "b 1 h w"],
    count: int,
    *,
    radius: int = 4,
    border: int = 0,
    threshold: float | None = None,
    refine: int = 2,
    temperature: float = 0.15,
    visible: Bool[Tensor, "b 1 h w"] | None = None,
) -> Keypoints:
    """Return the ``count`` highest local maxima of each response map, placed with sub-pixel precision.

    Args:
        response: one map per image.
        count: rows of the result; images with fewer maxima have rows marked not valid.
        radius: maxima have no higher response within this many pixels along each axis.
        border: ignore this many pixels along the image's edges.
        threshold: ignore maxima at or below this response.
        refine: half the width of the window whose soft-argmax is the keypoint's place; 0 keeps the pixel.
        temperature: of the soft-argmax, see :func:`~pellucid.features.soft_argmax`.
        visible: False marks pixels that may not be keypoints.

    Gradient:
        points: to the response inside the refinement window, and through it to weights and image (soft-argmax; which pixels are
        maxima has no gradient; none at all with ``refine=0``). scores: exact. Second order: yes. Deterministic: yes.
    Errors:
        InvalidArgument for shapes and numbers that do not fit; InvalidType for integers.
    Source:
        ``skimage.feature.peak_local_max``, ``tests/features/test_keypoints.py``.

    Example:
        >>> response = torch.zeros(1, 1, 9, 9)
        >>> response[0, 0, 4, 3:5] = torch.tensor([1.0, 0.9])
        >>> found = select_keypoints(response, 2)
        >>> found.points[0].tolist(), found.valid[0].tolist()
        ([[3.33..., 4.0], [0.0, 0.0]], [True, False])
    """
    check_grey("response", response)
    for name, value, least in (("count", count, 1), ("border", border, 0), ("refine", refine, 0)):
        if value < least:
            raise invalid(name, expected=f"at least {least}", got=value)
    h, w = response.shape[-2:]
    allowed = suppress_non_maxima(response, radius) & _inside(h, w, border, response.device)
    if visible is not None:
        allowed = allowed & visible
    if threshold is not None:
        allowed = allowed & (response > threshold)
    ranked = torch.where(allowed, response.detach(), -torch.inf).flatten(1)  # b hw
    best, index = ranked.topk(min(count, h * w), dim=1)  # b k
    missing = count - best.shape[1]
    best, index = F.pad(best, (0, missing), value=-torch.inf), F.pad(index, (0, missing))
    valid = best > -torch.inf
    safe = torch.where(torch.isfinite(response), response, 0.0)
    scores = torch.where(valid, safe.flatten(1).gather(1, index), 0.0)
    pixels = torch.stack((index % w, index // w), dim=-1)  # b k 2
    points = pixels.to(response.dtype)
    if refine:
        values, inside = _windows(response, pixels, refine)
        points = points + soft_argmax(values, temperature=temperature, inside=inside)
    return Keypoints(torch.where(valid[..., None], points, 0.0), scores, valid)


def gather_map(maps: Float[Tensor, "b c h w"], pixels: Int[Tensor, "b *k 2"]) -> Float[Tensor, "b c *k"]:
    """Return the values at integer pixels (x, y); a pixel outside reads the nearest one inside.

    Gradient:
        maps: exact.
    """
    h, w = maps.shape[-2:]
    index = pixels[..., 1].clamp(0, h - 1) * w + pixels[..., 0].clamp(0, w - 1)  # b *k
    flat = index.flatten(1)[:, None].expand(-1, maps.shape[1], -1)
    return maps.flatten(2).gather(2, flat).reshape(*maps.shape[:2], *index.shape[1:])


def _inside(h: int, w: int, border: int, device: torch.device) -> Bool[Tensor, "h w"]:
    y, x = torch.arange(h, device=device), torch.arange(w, device=device)
    return ((y >= border) & (y < h - border))[:, None] & (x >= border) & (x < w - border)


def _windows(response: Tensor, pixels: Int[Tensor, "b k 2"], reach: int) -> tuple[Tensor, Tensor]:
    """Return the (b, k, n, n) neighbourhoods of pixels, and a mask of their pixels inside the image."""
    h, w = response.shape[-2:]
    step = torch.arange(-reach, reach + 1, device=response.device)
    around = torch.stack(torch.meshgrid(step, step, indexing="xy"), dim=-1)  # n n 2, x before y
    places = pixels[:, :, None, None] + around  # b k n n 2
    x, y = places.unbind(-1)
    return gather_map(response, places)[:, 0], (x >= 0) & (x < w) & (y >= 0) & (y < h)
