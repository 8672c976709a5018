"""Antialiasing: the weights with which an output pixel reads all the input pixels that it spans.

Owns: where sub-samples lie, the weight table of an affine map, and reading an image with it, in plain PyTorch.
Must not: know colours, fills or canvases.
Read next: ``reference.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.constants import wide_dtype
from pellucid.kernels.warp.taps import FILLED_MODES, fold_index, keys_cubic, tent
from pellucid.types import Size

__all__ = [
    "BLOCK",
    "PHASES",
    "gather_stretched",
    "gather_table",
    "local_steps",
    "longer_axis",
    "sample_counts",
    "shares",
    "weight_table",
]

PHASES = 8
"""Steps per input pixel and axis at which weights are tabulated; between them they are interpolated."""

BLOCK = 8
"""Columns are read in such blocks, one vector each; rows of a table are longer by what the last block may take too much."""

_FAR = float(1 << 22)
_RAMP = 5.0


def shares(longest: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """How much of an output pixel's footprint counts, from the length of its longer axis in input pixels.

    Nothing up to one pixel: nothing aliases there, and a map that moves nothing changes nothing. All of it from 1.25 pixels on; in
    between it grows evenly.
    """
    return (_RAMP - _RAMP / longest.clamp(min=1.0)).clamp(max=1.0)


def weight_table(
    src_from_dst: Float[Tensor, "#b _ 3"], bound: Size, interpolation: str = "bilinear", weights: str = "tent"
) -> Float[Tensor, "#b phases rows phases columns"]:
    """The weights of the pixels around a point, for every position of that point between pixels.

    An affine map gives all output pixels one footprint, the parallelogram of its two steps. What :func:`shares` leaves out is
    weighed by the kernel along the axes.

    Args:
        src_from_dst: affine maps, output pixel to input pixel.
        bound: (vertical, horizontal) bounds of the input pixels per output pixel; more than the larger is cut off.
        interpolation: ``bilinear`` (a tent) or a cubic kernel.
        weights: ``tent`` stretches the kernel over the parallelogram, one axis along each step, as a resize stretches it along the
            image's axes; the two agree where the map turns nothing. ``box`` averages the kernel as it is over the parallelogram.

    Returns:
        [b, f, r, g, c] is the weight of the pixel ``r + 1 - rows / 2`` rows below and ``c + 1 - rows / 2`` columns right of the one
        whose centre lies f / PHASES of a row above and g / PHASES of a column left of the point. Weights sum to one; columns from
        ``rows`` on are padding. In this order, what is interpolated lies side by side.

    Gradient:
        src_from_dst: exact almost everywhere.
    """
    kernel, support = _kernel(interpolation)
    steps = src_from_dst[:, :2, :2].to(wide_dtype(src_from_dst.device))  # b (x, y) (along u, along v)
    steps = torch.where(torch.isfinite(steps).all(-1).all(-1)[:, None, None], steps, 0.0)
    with torch.autocast(src_from_dst.device.type, enabled=False):
        table = (_stretched if weights == "tent" else _averaged)(steps, max(bound), kernel, support)
    padded = torch.nn.functional.pad(table, (0, -(table.shape[-1] - 1) % BLOCK + BLOCK - 1))
    return padded.contiguous().to(src_from_dst.dtype)


def _stretched(steps: Tensor, bound: int, kernel: Callable[[Tensor], Tensor], support: int) -> Tensor:
    """The kernel over a parallelogram, and as much of the kernel along the axes as is left."""
    half = math.ceil(math.sqrt(2.0) * support * bound)  # how far from a point a pixel may lie
    apart = _offsets(half, steps)  # phases pixels
    found = Stretched.of(steps[:, :, :, None, None, None, None], half / support)  # b (x, y) (along u, along v) and ones
    parts = found.weights(apart, apart[:, :, None, None], kernel)  # b phases rows phases columns
    turned, straight = (part / part.sum((2, 4), keepdim=True) for part in parts)
    return found.share * turned + (1.0 - found.share) * straight


class Stretched(NamedTuple):
    """How a kernel lies over a footprint.

    Args:
        frame: the parallelogram's steps (x, y) (along u, along v), made a pixel wide where they were narrower.
        straight: the widths of the kernel along the axes.
        share: how much the one over the parallelogram counts.
    """

    frame: Float[Tensor, "b 2 2 *grid"]
    straight: Float[Tensor, "b 2 *grid"]
    share: Float[Tensor, "b *grid"]

    @classmethod
    def of(cls, steps: Float[Tensor, "b 2 2 *grid"], most: float) -> Stretched:
        """For a map's finite steps, reaching at most so far along each axis in units of the kernel."""
        longest = longer_axis(steps)
        one = torch.eye(2, dtype=steps.dtype, device=steps.device).reshape(2, 2, *[1] * (steps.ndim - 3))
        steps = _widened(torch.where((longest > 1.0)[:, None, None], steps, one))
        steps = steps * (most / steps.abs().sum(2, keepdim=True)).clamp(max=1.0)
        return cls(steps, torch.linalg.vector_norm(steps, dim=2).clamp(min=1.0), shares(longest))

    def weights(self, across: Tensor, down: Tensor, kernel: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """(over the parallelogram, along the axes) of pixels so far from the point, not normalised."""
        (a, b), (c, d) = self.frame[:, 0].unbind(1), self.frame[:, 1].unbind(1)
        area = a * d - b * c
        turned = kernel((d * across - b * down) / area) * kernel((a * down - c * across) / area)
        return turned, kernel(across / self.straight[:, 0]) * kernel(down / self.straight[:, 1])


def _averaged(steps: Tensor, bound: int, kernel: Callable[[Tensor], Tensor], support: int) -> Tensor:
    """The mean of the kernel over k x k points of a parallelogram."""
    k = 4 * math.ceil((1.25 * bound + 3) / 4)
    half, parts = math.ceil(math.sqrt(0.5) * bound), []  # how far from the middle such a point may lie
    steps = steps * shares(longer_axis(steps))[:, None, None]
    for axis in (1, 0):
        along = steps[:, axis]  # b 2
        along = along * (2.0 * half / along.abs().sum(-1, keepdim=True).clamp(min=2.0 * half))
        place = (torch.arange(k, dtype=along.dtype, device=along.device) + 0.5) / k - 0.5
        offset = (along[:, :1, None] * place + along[:, 1:, None] * place[:, None]).flatten(1)  # b k*k
        parts.append(kernel(_offsets(half + support, steps).flatten() - offset[:, :, None]))  # b k*k phases*pixels
    table = parts[0].mT @ parts[1] / (k * k)
    return table.unflatten(2, (PHASES + 1, -1)).unflatten(1, (PHASES + 1, -1))


def _offsets(half: int, like: Tensor) -> Float[Tensor, "phases pixels"]:
    """From points at every phase to the pixels around them."""
    pixel = torch.arange(1 - half, 1 + half, dtype=like.dtype, device=like.device)
    return pixel - torch.arange(PHASES + 1, dtype=like.dtype, device=like.device)[:, None] / PHASES


def _parts(steps: Float[Tensor, "b 2 2 *grid"]) -> tuple[Float[Tensor, "b 2 *grid"], Float[Tensor, "b 2 *grid"]]:
    """A map as p z + q conj(z) of complex numbers z = x + i y: its axes are |p| + |q| and ||p| - |q|| long."""
    (a, b), (c, d) = steps[:, 0].unbind(1), steps[:, 1].unbind(1)
    return torch.stack((a + d, c - b), 1) / 2.0, torch.stack((a - d, c + b), 1) / 2.0


def _length(v: Float[Tensor, "b 2 *grid"]) -> Float[Tensor, "b *grid"]:
    """With a gradient of zero at zero."""
    zero = (v == 0.0).all(1)
    return torch.where(zero, 0.0, torch.linalg.vector_norm(torch.where(zero[:, None], 1.0, v), dim=1))


def longer_axis(steps: Float[Tensor, "b 2 2 *grid"]) -> Float[Tensor, "b *grid"]:
    """The longer axis of what a map makes of a circle."""
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


def sample_counts(src_from_dst: Float[Tensor, "b 3 3"], size: Size, bound: Size) -> tuple[Float[Tensor, "b 2"], int]:
    """Sub-samples of an output pixel along (width, height) under homographies, and the most there may be.

    As many as the longest step of any pixel needs, which is one at a corner of the output.
    """
    most = max(bound) + 2
    with torch.no_grad():
        ends = [(u, v) for u in (0.0, size[1] - 1.0) for v in (0.0, size[0] - 1.0)]
        corners = torch.tensor([(*end, 1.0) for end in ends], dtype=src_from_dst.dtype, device=src_from_dst.device)
        x, y, w = (corners @ src_from_dst.mT).unbind(-1)  # b 4
        steps = _steps(src_from_dst, x / w, y / w, w)
        longest = torch.nan_to_num(torch.linalg.vector_norm(steps, dim=1), nan=torch.inf).amax(2)  # b 2
        counts = torch.where(longest > 1.0, torch.ceil(longest) + 2.0, 1.0).clamp(max=most)
    return counts, most


def local_steps(
    src_from_dst: Float[Tensor, "b 3 3"], x: Float[Tensor, "b h2 w2"], y: Float[Tensor, "b h2 w2"]
) -> Float[Tensor, "b 2 2 h2 w2"]:
    """The finite steps (x, y) (along u, along v) of every output pixel, which is read at x and y."""
    v = torch.arange(x.shape[-2], dtype=x.dtype, device=x.device)[:, None]
    u = torch.arange(x.shape[-1], dtype=x.dtype, device=x.device)
    m = src_from_dst[:, 2, :, None, None]
    w = m[:, 0] * u + (m[:, 1] * v + m[:, 2])
    steps = _steps(src_from_dst, x, y, torch.where(torch.isfinite(1.0 / w), w, 1.0))
    return torch.where(torch.isfinite(steps), steps, 0.0)


def _steps(m: Tensor, x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """How far the point (x, y) moves in the input for a step along the output's width and one along its height."""
    m = m.reshape(m.shape[0], 3, 3, *[1] * (x.ndim - 1))
    return torch.stack([torch.stack([(m[:, i, k] - at * m[:, 2, k]) / w for k in (0, 1)], 1) for i, at in enumerate((x, y))], 1)


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


def gather_stretched(
    image: Float[Tensor, "b c h w"],
    x: Float[Tensor, "b h2 w2"],
    y: Float[Tensor, "b h2 w2"],
    steps: Float[Tensor, "b 2 2 h2 w2"],
    bound: Size,
    interpolation: str,
    padding_mode: str,
) -> tuple[Float[Tensor, "b c n"], Float[Tensor, "b n"]]:
    """What :func:`gather_table` gives with the weights ``tent``, where every point has a footprint of its own: its finite steps."""
    kernel, support = _kernel(interpolation)
    half = math.ceil(math.sqrt(2.0) * support * max(bound))
    found = Stretched.of(steps.flatten(3), half / support)
    x, y = x.flatten(1).clamp(-_FAR, _FAR), y.flatten(1).clamp(-_FAR, _FAR)
    column, row = torch.floor(x), torch.floor(y)
    tx, ty = x - column, y - row

    def parts(down: int, across: int) -> tuple[Tensor, Tensor]:
        return found.weights(across - tx, down - ty, kernel)

    around = range(1 - half, 1 + half)
    totals = [sum(kind) for kind in zip(*(parts(down, across) for down in around for across in around), strict=True)]

    def weight(down: int, across: int) -> Tensor:
        turned, straight = (part / total for part, total in zip(parts(down, across), totals, strict=True))
        return found.share * turned + (1.0 - found.share) * straight

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
