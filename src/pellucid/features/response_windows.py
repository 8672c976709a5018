"""Response maps of two views in one frame, cut into windows.

Owns: warping a response map into the other view, the mask of pixels that both views see, and cutting windows.
Must not: compute losses.
Read next: ``covariant_loss.py``.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.features.derivatives import check_grey
from pellucid.functional import warp

__all__ = ["SharedView", "cut_windows", "share_view"]


class SharedView(NamedTuple):
    """Responses of two views on the pixels of the first."""

    first: Tensor
    """(B, 1, H, W): the first view's response."""
    second: Tensor
    """(B, 1, H, W): the second view's response, warped into the first view."""
    visible: Tensor
    """(B, 1, H, W), boolean: pixels that both views see, away from the borders."""


def share_view(
    first: Float[Tensor, "b 1 h w"],
    second: Float[Tensor, "b 1 h2 w2"],
    second_from_first: Float[Tensor, "b 3 3"],
    *,
    border: int = 4,
) -> SharedView:
    """Warp the second view's response into the first view.

    Args:
        first: response of the first view.
        second: response of the second view.
        second_from_first: pixels of the first view to pixels of the second.
        border: pixels along the edges of either view that are ignored.

    Returns:
        Both responses in the first view, (B, 1, H, W), and which pixels both views see.

    Gradient:
        first, second: exact. second_from_first: almost everywhere.
    Errors:
        InvalidArgument for shapes that do not fit.

    Example:
        >>> from pellucid.features import share_view
        >>> view = share_view(torch.rand(1, 1, 16, 16), torch.rand(1, 1, 16, 16), torch.eye(3)[None])
        >>> int(view.visible.sum())  # less a border of 4
        64
    """
    check_grey("first", first)
    check_grey("second", second)
    if second_from_first.shape != (first.shape[0], 3, 3) or second.shape[0] != first.shape[0]:
        expected = "one homography and one second view for each first view"
        got = f"{tuple(second_from_first.shape)}, {tuple(second.shape)} for {tuple(first.shape)}"
        raise invalid("second_from_first", expected=expected, got=got)
    size = (first.shape[-2], first.shape[-1])
    moved = warp(second, second_from_first, size=size, padding_mode="border")
    seen = warp(_frame_mask(second, border), second_from_first.detach(), size=size)
    return SharedView(first, moved, (seen > 0.999) & (_frame_mask(first, border) > 0))


def cut_windows(maps: Float[Tensor, "b 1 h w"] | Bool[Tensor, "b 1 h w"], side: int, offset: tuple[int, int] = (0, 0)) -> Tensor:
    """Cut maps into squares that lie side by side.

    Args:
        maps: one map per image.
        side: side of a window, in pixels; at most the side of the map.
        offset: (y, x) of the first window; pixels beyond the last whole window on either side are left out.

    Returns:
        (B, N, side, side): views of every whole window.

    Gradient:
        maps: exact.

    Example:
        >>> cut_windows(torch.arange(16.0).reshape(1, 1, 4, 4), 2)[0, 1].tolist()
        [[2.0, 3.0], [6.0, 7.0]]
    """
    height, width = maps.shape[-2] - offset[0], maps.shape[-1] - offset[1]
    if side < 2 or min(height, width) < side or min(offset) < 0:
        got = f"side {side}, offset {offset}, map {tuple(maps.shape[-2:])}"
        raise invalid("side", expected="windows of at least 2 pixels that fit into the map", got=got)
    rows, columns = height // side, width // side
    part = maps[:, 0, offset[0] : offset[0] + rows * side, offset[1] : offset[1] + columns * side]
    return part.unflatten(1, (rows, side)).unflatten(3, (columns, side)).transpose(2, 3).flatten(1, 2)


def _frame_mask(like: Float[Tensor, "b 1 h w"], border: int) -> Float[Tensor, "b 1 h w"]:
    y, x = (torch.arange(n, device=like.device) for n in like.shape[-2:])
    inside = ((y >= border) & (y < like.shape[-2] - border))[:, None] & (x >= border) & (x < like.shape[-1] - border)
    return inside.to(like.dtype).expand(like.shape)
