"""Antialiasing: the weights with which an output pixel reads all the input pixels that it spans.

Owns: the weight table of an affine map, the shapes of other footprints, and reading an image with them, in plain PyTorch.
Must not: know colours, fills or canvases.
Read next: ``reference.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import full_precision, wide_dtype
from pellucid.kernels.warp.chain import coordinates
from pellucid.kernels.warp.taps import FILLED_MODES, fold_index, keys_cubic, tent
from pellucid.types import Size

__all__ = [
    *("BLOCK", "PHASES", "gather_stretched", "gather_table", "longer_axis", "shares", "steps_of"),
    *("stretches", "weight_table"),
]

PHASES = 8
"""Steps per input pixel and axis at which weights are tabulated; between them they are interpolated."""

BLOCK = 8
"""Columns are read in blocks of so many, one vector each; rows of a table are padded, as the last block may read too many."""

Kernel: TypeAlias = Callable[[Tensor], Tensor]

_FAR = float(1 << 22)
_RAMP = 5.0


def shares(longest: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """How much of an output pixel's footprint counts, from the length of its longer axis in input pixels.

    Nothing up to one pixel: nothing aliases there, and a map that moves nothing changes nothing. All of it from 1.25 pixels on; in
    between it grows evenly.
    """
    return (_RAMP - _RAMP / longest.clamp(min=1.0)).clamp(max=1.0)


def weight_table(
    src_from_dst: Float[Tensor, "#b _ 3"], bound: Size, interpolation: str = "bilinear"
) -> Float[Tensor, "#b phases rows phases columns"]:
    """The weights of the pixels around a point, for every position of that point between pixels.

    An affine map gives all output pixels one footprint, the parallelogram of its two steps, over which the kernel is stretched, one
    axis along each step, as a resize stretches it along the image's axes; the two agree where the map does not turn. The rest of
    the share that :func:`shares` gives it goes to the kernel along the axes.

    Args:
        src_from_dst: affine maps, output pixel to input pixel.
        bound: (vertical, horizontal) bounds of the input pixels per output pixel; more than the larger is cut off.
        interpolation: ``bilinear`` (a tent) or a cubic kernel.

    Returns:
        [b, f, r, g, c] is the weight of the pixel ``r + 1 - rows / 2`` rows below and ``c + 1 - rows / 2`` columns right of the one
        whose centre lies f / PHASES of a row above and g / PHASES of a column left of the point. Weights sum to one; columns from
        ``rows`` on are padding. In this order, numbers that are interpolated lie side by side.

    Gradient:
        src_from_dst: exact almost everywhere.
    """
    kernel, support = _kernel(interpolation)
    steps = src_from_dst[:, :2, :2].to(wide_dtype(src_from_dst.device))  # b (x, y) (along u, along v)
    steps = torch.where(torch.isfinite(steps).all(-1).all(-1)[:, None, None], steps, 0.0)
    with full_precision(src_from_dst.device):
        table = _stretched(steps, max(bound), kernel, support)
    padded = torch.nn.functional.pad(table, (0, -(table.shape[-1] - 1) % BLOCK + BLOCK - 1))
    return padded.contiguous().to(src_from_dst.dtype)


def _stretched(steps: Tensor, bound: int, kernel: Kernel, support: int) -> Tensor:
    """Mix the kernel over a parallelogram and the kernel along the axes, by the share of the first."""
    half = reach(bound, support)
    offsets = _offsets(half, steps)  # phases pixels
    shapes = _shapes(steps, half / support)[:, :, None, None, None, None]
    turned, straight = _weights(shapes, offsets, offsets[:, :, None, None], kernel)  # b phases rows phases columns
    share = shapes[:, 6]
    return share * (turned / turned.sum((2, 4), keepdim=True)) + (1.0 - share) * (straight / straight.sum((2, 4), keepdim=True))


def reach(bound: int, support: int) -> int:
    """How many pixels before and after a point a stretched kernel may reach."""
    return math.ceil(math.sqrt(2.0) * support * bound)


def _shapes(steps: Float[Tensor, "b 2 2 *grid"], most: float) -> Float[Tensor, "b 7 *grid"]:
    """How a kernel lies over the footprint of a map with these steps, reaching ``most`` of its units along an image's axis.

    Returns:
        The inverse of the steps, row by row, made a pixel wide where they were narrower; the inverse widths of the kernel along the
        axes; and the share of the first.
    """
    longest = longer_axis(steps)
    one = torch.eye(2, dtype=steps.dtype, device=steps.device).reshape(2, 2, *[1] * (steps.ndim - 3))
    steps = _widened(torch.where((longest > 1.0)[:, None, None], steps, one))
    steps = steps * (most / steps.abs().sum(2, keepdim=True)).clamp(max=1.0)
    (a, b), (c, d) = steps[:, 0].unbind(1), steps[:, 1].unbind(1)
    area = a * d - b * c
    straight = (1.0 / torch.hypot(*row).clamp(min=1.0) for row in ((a, b), (c, d)))
    return torch.stack((d / area, -b / area, -c / area, a / area, *straight, shares(longest)), 1)


def _weights(shapes: Tensor, across: Tensor, down: Tensor, kernel: Kernel) -> tuple[Tensor, Tensor]:
    """(over the parallelogram, along the axes) of pixels so far from the point, not normalised."""
    a, b, c, d, right, below, _ = shapes.unbind(1)
    return kernel(a * across + b * down) * kernel(c * across + d * down), kernel(right * across) * kernel(below * down)


def _offsets(half: int, like: Tensor) -> Float[Tensor, "phases pixels"]:
    """From points at every phase to the pixels around them."""
    pixel = torch.arange(1 - half, 1 + half, dtype=like.dtype, device=like.device)
    return pixel - torch.arange(PHASES + 1, dtype=like.dtype, device=like.device)[:, None] / PHASES


def _parts(steps: Float[Tensor, "b 2 2 *grid"]) -> tuple[Float[Tensor, "b 2 *grid"], Float[Tensor, "b 2 *grid"]]:
    """A map as p z + q conj(z) of complex numbers z = x + i y: its axes are |p| + |q| and ||p| - |q|| long."""
    (a, b), (c, d) = steps[:, 0].unbind(1), steps[:, 1].unbind(1)
    return torch.stack((a + d, c - b), 1) / 2.0, torch.stack((a - d, c + b), 1) / 2.0


def _length(v: Float[Tensor, "b 2 *grid"]) -> Float[Tensor, "b *grid"]:
    """The lengths of vectors, with a gradient of zero at zero."""
    x, y = v.unbind(1)
    zero = (x == 0.0) & (y == 0.0)
    return torch.where(zero, 0.0, torch.hypot(torch.where(zero, 1.0, x), y))


def longer_axis(steps: Float[Tensor, "b 2 2 *grid"]) -> Float[Tensor, "b *grid"]:
    """The longer axis of the ellipse that a map makes of a circle."""
    p, q = _parts(steps)
    return _length(p) + _length(q)


def _widened(steps: Float[Tensor, "b 2 2 *grid"]) -> Float[Tensor, "b 2 2 *grid"]:
    """The map whose shorter axis is at least a pixel long; the longer one is, and stays as it was."""
    p, q = _parts(steps)
    difference = _length(p) - _length(q)
    more = torch.relu(1.0 - difference.abs()) / 2.0 * torch.where(difference < 0.0, -1.0, 1.0)
    (px, py), (qx, qy) = (_direction(v).unbind(1) for v in (p, q))
    added = torch.stack((px - qx, -py - qy, py - qy, px + qx), 1) * more[:, None]
    return steps + added.unflatten(1, (2, 2))


def _direction(v: Float[Tensor, "b 2 *grid"]) -> Float[Tensor, "b 2 *grid"]:
    length = _length(v)[:, None]
    return v / torch.where(length == 0.0, 1.0, length)


def _local_steps(
    src_from_dst: Float[Tensor, "b 3 3"], x: Float[Tensor, "b h2 w2"], y: Float[Tensor, "b h2 w2"]
) -> Float[Tensor, "b 2 2 h2 w2"]:
    """The finite steps (x, y) (along u, along v) of every output pixel, which is read at x and y."""
    v = torch.arange(x.shape[-2], dtype=x.dtype, device=x.device)[:, None]
    u = torch.arange(x.shape[-1], dtype=x.dtype, device=x.device)
    m = src_from_dst[:, 2, :, None, None]
    w = m[:, 0] * u + (m[:, 1] * v + m[:, 2])
    w = torch.where(torch.isfinite(1.0 / w), w, 1.0)
    m = src_from_dst[..., None, None]
    steps = [torch.stack([(m[:, i, k] - at * m[:, 2, k]) / w for k in (0, 1)], 1) for i, at in enumerate((x, y))]
    return torch.where(torch.isfinite(found := torch.stack(steps, 1)), found, 0.0)


def gather_table(
    image: Float[Tensor, "b c h w"],
    x: Float[Tensor, "#b h2 w2"],
    y: Float[Tensor, "#b h2 w2"],
    table: Float[Tensor, "#b phases rows phases columns"],
    padding_mode: str,
) -> tuple[Float[Tensor, "b c n"], Float[Tensor, "b n"]]:
    """The weighted sums around finite points, and the weights inside of the image.

    Args:
        image: what is read.
        x, y: points.
        table: of :func:`weight_table`.
        padding_mode: where pixels outside come from.
    """
    batch, half = image.shape[0], table.shape[2] // 2
    weights = table.transpose(2, 3).flatten(1, 2)  # b phases*phases rows columns
    (row, f, ty), (column, g, tx) = _phase(y), _phase(x)  # b n
    at = f * (PHASES + 1) + g
    corners = ((at, (1 - ty) * (1 - tx)), (at + 1, (1 - ty) * tx), (at + PHASES + 1, ty * (1 - tx)), (at + PHASES + 2, ty * tx))

    def weight(down: int, across: int) -> Tensor:
        tap = weights[:, :, down + half - 1, across + half - 1].expand(batch, -1)
        return torch.stack([torch.gather(tap, 1, index.expand(batch, -1)) * share for index, share in corners]).sum(0)

    return _gather(image, row, column, half, weight, padding_mode)


def stretches(
    src_from_dst: Float[Tensor, "#b _ 3"],
    field: Float[Tensor, "#b 2 h2 w2"] | None,
    size: Size,
    bound: Size,
    interpolation: str,
) -> Float[Tensor, "#b 7 n"]:
    """How the kernel lies over the footprint of every output pixel of homographies and displacement fields.

    A field's steps are its central differences, one-sided at the edges. Numbers 1 to 4 map the offset of a source's pixel from the
    point to the kernel's own two axes; 5 and 6 do so for the kernel along the image's axes; the last is the share of the first
    kernel.

    Gradient:
        src_from_dst, field: exact almost everywhere.
    """
    _, support = _kernel(interpolation)
    steps = steps_of(src_from_dst, field, size)
    return _shapes(steps, reach(max(bound), support) / support).flatten(2)


def steps_of(
    src_from_dst: Float[Tensor, "#b _ 3"], field: Float[Tensor, "#b 2 h2 w2"] | None, size: Size
) -> Float[Tensor, "#b 2 2 h2 w2"]:
    """The finite steps (x, y) (along u, along v) of every output pixel; zero where the map or the field has none."""
    if src_from_dst.shape[1] == 2:
        steps = src_from_dst[:, :, :2, None, None].expand(-1, -1, -1, *size)
    else:
        x, y = coordinates(src_from_dst, size)
        usable = torch.isfinite(x) & torch.isfinite(y)
        steps = _local_steps(src_from_dst, torch.where(usable, x, 0.0), torch.where(usable, y, 0.0))
    if field is not None:
        steps = steps + torch.stack((_differences(field, 3), _differences(field, 2)), 2)
    return torch.where(torch.isfinite(steps), steps, 0.0)


def _differences(field: Float[Tensor, "#b 2 h2 w2"], axis: int) -> Float[Tensor, "#b 2 h2 w2"]:
    if field.shape[axis] == 1:
        return torch.zeros_like(field)
    return torch.gradient(field, dim=axis)[0]


def gather_stretched(
    image: Float[Tensor, "b c h w"],
    x: Float[Tensor, "#b h2 w2"],
    y: Float[Tensor, "#b h2 w2"],
    shapes: Float[Tensor, "#b 7 n"],
    bound: Size,
    interpolation: str,
    padding_mode: str,
) -> tuple[Float[Tensor, "b c n"], Float[Tensor, "b n"]]:
    """The results of :func:`gather_table`, where every point has a footprint of its own."""
    kernel, support = _kernel(interpolation)
    half = reach(max(bound), support)
    x, y = (at.flatten(1).clamp(-_FAR, _FAR).expand(image.shape[0], -1) for at in (x, y))
    column, row = torch.floor(x), torch.floor(y)
    tx, ty = x - column, y - row

    def parts(down: int, across: int) -> tuple[Tensor, Tensor]:
        return _weights(shapes, across - tx, down - ty, kernel)

    around = [(down, across) for down in range(1 - half, 1 + half) for across in range(1 - half, 1 + half)]
    turned, straight = (torch.stack(kind).sum(0) for kind in zip(*(parts(*place) for place in around), strict=True))

    def weight(down: int, across: int) -> Tensor:
        one, other = parts(down, across)
        return shapes[:, 6] * (one / turned) + (1.0 - shapes[:, 6]) * (other / straight)

    return _gather(image, row.to(torch.int64), column.to(torch.int64), half, weight, padding_mode)


def _gather(
    image: Tensor, row: Tensor, column: Tensor, half: int, weight_of: Callable[[int, int], Tensor], padding_mode: str
) -> tuple[Tensor, Tensor]:
    """The weighted sums of the pixels from ``half - 1`` before a pixel to ``half`` after it, and the weights inside."""
    batch, channels, height, width = image.shape
    flat = image.flatten(2)  # b c h*w
    total, covered = image.new_zeros(()), image.new_zeros(())
    for down in range(1 - half, 1 + half):
        for across in range(1 - half, 1 + half):
            weight, v, u = weight_of(down, across), row + down, column + across
            if padding_mode in FILLED_MODES:
                weight = weight * ((v >= 0) & (v < height) & (u >= 0) & (u < width))
            index = fold_index(v, height, padding_mode) * width + fold_index(u, width, padding_mode)
            total = total + torch.gather(flat, 2, index[:, None].expand(batch, channels, -1)) * weight[:, None]
            covered = covered + weight
    return total, covered if padding_mode in FILLED_MODES else torch.ones_like(covered)


def _phase(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(whole pixel, phase, share of the next phase) of coordinates, flat."""
    x = x.flatten(1).clamp(-_FAR, _FAR)
    pixel = torch.floor(x)
    fine = (x - pixel) * PHASES
    phase = torch.floor(fine).clamp(max=PHASES - 1)
    return pixel.to(torch.int64), phase.to(torch.int64), fine - phase


def _kernel(interpolation: str) -> tuple[Callable[[Tensor], Tensor], int]:
    """A kernel, and how far it reaches in pixels."""
    if interpolation == "bilinear":
        return tent, 1

    def cubic(t: Tensor) -> Tensor:
        t = t.abs()
        inner, outer = keys_cubic(t, a)[1], keys_cubic(t - 1.0, a)[0]
        return torch.where(t < 1.0, inner, torch.where(t < 2.0, outer, 0.0))

    a = -0.75 if interpolation == "bicubic_opencv" else -0.5
    return cubic, 2
