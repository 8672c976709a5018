"""JPEG: encode and decode a picture as libjpeg-turbo does.

Owns: the steps of the codec, once in integers (the reference) and once without rounding (for its declared slopes).
Must not: have gradients where a codec has none; they are declared in ``surrogate.py``.
Read next: ``tables.py``, ``surrogate.py``.

Integers are held in float64, where sums of products below 2 ** 53 are exact and matrix products are fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.kernels.codec.tables import CHROMINANCE, COSINES, LUMINANCE, SUBSAMPLINGS, quantisation

__all__ = ["INTEGERS", "Rounding", "compress"]


class Rounding(NamedTuple):
    """How the codec rounds.

    Args:
        shift: (value, bits, bias) -> (value + bias) / 2 ** bits, brought to an integer.
        level: a coefficient in units of its quantisation step, brought to an integer.
    """

    shift: Callable[[Tensor, int, Tensor | float], Tensor]
    level: Callable[[Tensor], Tensor]


INTEGERS = Rounding(
    shift=lambda value, bits, bias: torch.floor((value + bias) / 2.0**bits),
    level=lambda steps: torch.copysign(torch.floor(steps.abs() + 0.5), steps),
)
"""libjpeg's rounding: shifts round down, after a bias; coefficients round half away from zero."""


def compress(
    levels: Float[Tensor, "b c h w"], quality: Float[Tensor, "#b"], subsampling: str, rounding: Rounding = INTEGERS
) -> Float[Tensor, "b c h w"]:
    """Encode and decode.

    Args:
        levels: one or three channels of whole numbers in [0, 255].
        quality: 1 to 100; rounded to a whole number.
        subsampling: ``4:4:4``, ``4:2:2`` or ``4:2:0``.
        rounding: ``INTEGERS`` for what a file holds.

    Returns:
        Whole numbers in [0, 255], bit for bit what Pillow reads from a file that it wrote.

    Gradient:
        none: a staircase.
    Source:
        ITU-T T.81 and T.871; libjpeg's slow integer transform and triangular upsampling (oracle: Pillow).
    """
    fine, coarse = (quantisation(quality, table).to(levels.dtype) for table in (LUMINANCE, CHROMINANCE))
    if levels.shape[1] == 1:
        return _through_blocks(levels, fine, rounding)
    luma, *chroma = _to_ycc(levels, rounding)
    luma = _through_blocks(luma, fine, rounding)
    height, width = levels.shape[-2:]
    blue, red = (_chroma(plane, coarse, SUBSAMPLINGS[subsampling], rounding)[..., :height, :width] for plane in chroma)
    return _to_rgb(luma, blue, red, rounding)


def _fixed(number: float) -> float:
    """A constant as libjpeg writes it: in units of 2 ** -16, rounded."""
    return float(int(number * 65536.0 + 0.5))


def _to_ycc(levels: Tensor, rounding: Rounding) -> list[Tensor]:
    red, green, blue = levels.split(1, 1)  # (b, 1, h, w)
    half, middle = 2.0**15, 128.0 * 2.0**16
    y = _fixed(0.299) * red + _fixed(0.587) * green + _fixed(0.114) * blue
    cb = -_fixed(0.16874) * red - _fixed(0.33126) * green + _fixed(0.5) * blue
    cr = _fixed(0.5) * red - _fixed(0.41869) * green - _fixed(0.08131) * blue
    return [rounding.shift(y, 16, half), rounding.shift(cb + middle, 16, half - 1.0), rounding.shift(cr + middle, 16, half - 1.0)]


def _to_rgb(luma: Tensor, blue: Tensor, red: Tensor, rounding: Rounding) -> Tensor:
    blue, red, half = blue - 128.0, red - 128.0, 2.0**15
    green = -_fixed(0.34414) * blue - _fixed(0.71414) * red
    colors = (
        luma + rounding.shift(_fixed(1.402) * red, 16, half),
        luma + rounding.shift(green, 16, half),
        luma + rounding.shift(_fixed(1.772) * blue, 16, half),
    )
    return torch.cat(colors, 1).clamp(0.0, 255.0)


def _chroma(plane: Tensor, steps: Tensor, size: tuple[int, int], rounding: Rounding) -> Tensor:
    """A plane of colour differences, stored at a part of its size; may come back a pixel larger per axis."""
    down, across = size
    if across == 1:
        return _through_blocks(plane, steps, rounding)
    width = (plane.shape[-1] + 1) // 2
    # The encoder repeats the last column until the halves fill whole blocks, but the last row only until it has a partner.
    plane = _padded(plane, -plane.shape[-2] % down, -plane.shape[-1] % 16)
    column = torch.arange(plane.shape[-1] // 2, dtype=plane.dtype, device=plane.device)
    summed = plane[..., ::2] + plane[..., 1::2]
    if down == 2:
        summed = summed[..., ::2, :] + summed[..., 1::2, :]
    halved = rounding.shift(summed, down, column % 2 + (down - 1.0))  # biases alternate, so that halves do not add up
    return _enlarged(_through_blocks(halved, steps, rounding)[..., :width], down, rounding)


def _enlarged(plane: Tensor, down: int, rounding: Rounding) -> Tensor:
    """Twice as wide (and high): each new sample lies a quarter from one old one, three quarters from the next; 3 to 1."""
    if plane.shape[-1] <= 2:  # where libjpeg repeats samples instead
        wide = plane.repeat_interleave(2, -1)
        return wide if down == 1 else wide.repeat_interleave(2, -2)
    if down == 2:
        plane = torch.stack([3.0 * plane + _before(plane.mT).mT, 3.0 * plane + _after(plane.mT).mT], -2).flatten(-3, -2)
    left, right = (8.0, 7.0) if down == 2 else (1.0, 2.0)
    bits = 2 * down
    pair = [rounding.shift(3.0 * plane + _before(plane), bits, left), rounding.shift(3.0 * plane + _after(plane), bits, right)]
    return torch.stack(pair, -1).flatten(-2)


def _before(plane: Tensor) -> Tensor:
    """Every sample's left neighbour; the first is its own."""
    return torch.cat([plane[..., :1], plane[..., :-1]], -1)


def _after(plane: Tensor) -> Tensor:
    return torch.cat([plane[..., 1:], plane[..., -1:]], -1)


def _padded(plane: Tensor, rows: int, columns: int) -> Tensor:
    """The last row and column repeated."""
    height, width = plane.shape[-2:]
    down = torch.cat([plane, plane[..., -1:, :].expand(*plane.shape[:-2], rows, width)], -2)
    return torch.cat([down, down[..., -1:].expand(*plane.shape[:-2], height + rows, columns)], -1)


def _through_blocks(plane: Tensor, steps: Tensor, rounding: Rounding) -> Tensor:
    """Transform blocks of 8 x 8, quantise them, and transform them back."""
    height, width = plane.shape[-2:]
    whole = _padded(plane, -height % 8, -width % 8)
    down, across = whole.shape[-2] // 8, whole.shape[-1] // 8
    cosines = constant([float(x) for row in COSINES for x in row], plane.dtype, plane.device).view(8, 8)
    blocks = whole.unflatten(-1, (across, 8)).unflatten(-3, (down, 8)).transpose(-3, -2) - 128.0  # (b, c, down, across, 8, 8)
    rows = rounding.shift(blocks @ cosines.mT, 11, 2.0**10)
    coefficients = rounding.shift(cosines @ rows, 15, 2.0**14)  # eight times the orthonormal ones
    stored = rounding.level(coefficients / (8.0 * steps)) * steps
    columns = rounding.shift(cosines.mT @ stored, 11, 2.0**10)
    decoded = rounding.shift(columns @ cosines, 18, 2.0**17) + 128.0
    return decoded.transpose(-3, -2).flatten(-4, -3).flatten(-2)[..., :height, :width].clamp(0.0, 255.0)
