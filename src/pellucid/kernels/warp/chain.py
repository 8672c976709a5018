"""Chains of maps with canvases between them, in plain PyTorch: the specification.

Owns: coordinates from canvas to canvas, how much each canvas covers, and the fills of what they do not.
Must not: see an image, except to blend it over the ground of the canvases.
Read next: ``cpu/links.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from pellucid.geometry.bends import Bend, displaced
from pellucid.kernels.warp.layout import BENDS, LINK
from pellucid.types import Size

__all__ = ["Chained", "coordinates", "follow", "laid_over"]


class Chained(NamedTuple):
    """The result of a chain of maps for every output pixel.

    Args:
        x, y: where it reads the source; not finite where a map has no point.
        share: how much of it the source makes up; the rest is fill of the canvases.
        ground: that rest; None where every fill is zero.
    """

    x: Float[Tensor, "b h2 w2"]
    y: Float[Tensor, "b h2 w2"]
    share: Float[Tensor, "b 1 h2 w2"]
    ground: Float[Tensor, "b c h2 w2"] | None


def coordinates(
    src_from_dst: Float[Tensor, "b rows 3"], size: Size, shift: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """Input x and y of every output pixel, or of points that lie (right, down) of their centres, each (b, h2, w2)."""
    height, width = size
    u = torch.arange(width, dtype=src_from_dst.dtype, device=src_from_dst.device)
    v = torch.arange(height, dtype=src_from_dst.dtype, device=src_from_dst.device)[:, None]
    return _project(src_from_dst, u, v) if shift is None else _project(src_from_dst, u + shift[0], v + shift[1])


def follow(
    src_from_dst: Float[Tensor, "#b rows 3"],
    links: Float[Tensor, "#b k 13"],
    fills: Float[Tensor, "#b k c"] | None,
    canvases: tuple[str, ...],
    size: Size,
    control: Float[Tensor, "#b 2 gh gw"] | None = None,
) -> Chained:
    """Follow every output pixel through k canvases to the source.

    A point on a canvas that lies within it goes on to the next map. One outside goes on from the nearest point of the canvas's
    rectangle, and in the filling modes it shows the fill by as much as a bilinear sample next to the border would: the canvas
    covers it by a ramp of one pixel's width (where it is hard, by a step half a pixel out). So if the map on one side of a canvas
    moves whole pixels, the result is that of two resamplings in turn, to rounding. At a ``bend``, and at a ``kink`` (linear
    between knots), points are displaced instead.

    Args:
        src_from_dst: of the source from the first canvas.
        links: of each canvas, first canvas first: its map from the next (of the last from the output), then its rectangle
            (x0, y0, x1, y1), pixel centres, or of a bend its grid.
        fills: of each canvas; None is zero.
        canvases: of each: ``zeros``, ``hard``, ``border``, ``reflection`` (of a whole canvas). A point that is not finite shows
            fill in the first two and nothing in the others. And ``bend`` or ``kink``, at most once.
        size: (height, width) of the output.
        control: of the bend.

    Gradient:
        src_from_dst, links, control: almost everywhere, from the right where a point lies on the border. fills: exact. Twice
            differentiable.
    """
    maps, windows = links[..., : LINK - 4].unflatten(-1, (3, 3)), links[..., LINK - 4 :]
    x, y = coordinates(maps[:, -1], size)  # b h2 w2
    share = x.new_ones(()).expand(x.shape)
    ground: Tensor | None = None
    for k in range(len(canvases) - 1, -1, -1):
        covered = torch.isfinite(x) & torch.isfinite(y)
        x, y = torch.where(covered, x, 0.0), torch.where(covered, y, 0.0)
        cover = covered.to(x.dtype)
        if canvases[k] in BENDS:
            assert control is not None
            share = share * cover
            moved = displaced(x.flatten(1), y.flatten(1), Bend(control, windows[:, k], canvases[k] == "kink"))
            x, y = _project(_nearer(src_from_dst, maps, k), *(part.unflatten(1, x.shape[1:]) for part in moved))
            continue
        x0, y0, x1, y1 = windows[:, k, :, None, None].unbind(1)  # b 1 1
        if canvases[k] == "reflection":
            x, y = _folded(x, x1), _folded(y, y1)
        if canvases[k] in ("zeros", "hard"):
            hard = canvases[k] == "hard"
            cover = cover * _cover(x, x0, x1, hard) * _cover(y, y0, y1, hard)
            if fills is not None:
                shown = fills[:, k, :, None, None] * (share * (1.0 - cover))[:, None]
                ground = shown if ground is None else ground + shown
        share = share * cover
        x, y = _project(_nearer(src_from_dst, maps, k), _clamp(x, x0, x1), _clamp(y, y0, y1))
    return Chained(x, y, share[:, None], ground)


def _nearer(src_from_dst: Tensor, maps: Tensor, k: int) -> Tensor:
    """The map from canvas k on to the next one, or to the source."""
    return src_from_dst if k == 0 else maps[:, k - 1]


def laid_over(
    found: Shaped[Tensor, "b c h w"], share: Float[Tensor, "b 1 h w"], ground: Tensor | None
) -> Shaped[Tensor, "b c h w"]:
    """Blend the pixels read from the source over the ground of the canvases. Labels, whose shares are whole, keep their dtype."""
    seen = share > 0.0
    if not found.dtype.is_floating_point:
        return torch.where(seen, found, torch.zeros_like(found) if ground is None else ground.to(found.dtype))
    found = torch.where(seen, found * share.to(found.dtype), 0.0)  # NaN stays where it is seen
    return found if ground is None else found + ground.to(found.dtype)


def _folded(x: Tensor, last: Tensor) -> Tensor:
    """Coordinates reflected onto a canvas, whose edge pixels are repeated."""
    length = torch.floor(last) + 1.0  # whole pixels: nothing to differentiate
    t = torch.remainder(x + 0.5, 2.0 * length)
    return torch.where(t < length, t, 2.0 * length - t) - 0.5


def _cover(x: Tensor, low: Tensor, high: Tensor, hard: bool) -> Tensor:
    """The weight of a canvas's own pixels in a sample at x."""
    if hard:
        inside: Bool[Tensor, "b h w"] = (x >= low - 0.5) & (x < high + 0.5)
        return inside.to(x.dtype)
    beside = torch.where(x < low, x - low, high - x)
    return torch.where((x >= low) & (x < high), 1.0, (1.0 + beside).clamp(min=0.0))


def _clamp(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return torch.where(x < low, low, torch.where(x < high, x, high))


def _project(m: Float[Tensor, "b rows 3"], x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Map points, given by x and y."""
    m = m[:, :, :, None, None]
    rows = [m[:, i, 0] * x + (m[:, i, 1] * y + m[:, i, 2]) for i in range(m.shape[1])]  # b h w
    if len(rows) == 2:
        return rows[0], rows[1]
    # On the horizon, and where a coordinate or its slope overflows, the point is nowhere: an infinite coordinate. Its gradient
    # stays finite because the divisor is replaced before the division.
    nowhere = ~(torch.isfinite(rows[0] / rows[2] / rows[2]) & torch.isfinite(rows[1] / rows[2] / rows[2]))
    w = torch.where(nowhere, 1.0, rows[2])
    return torch.where(nowhere, torch.inf, rows[0] / w), torch.where(nowhere, torch.inf, rows[1] / w)
