"""Packing: everything a warp needs beside the image, as rows of numbers.

Owns: the order of the colour parameters in a row, there and back, and which epilogues fit one.
Must not: compute; packing is moving, so gradients pass through it by themselves.
Read next: ``autograd.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.warp.layout import CLIP, FIRST_MIX, HUE, LAST_MIX, LEVELS, MATRIX, MODES, SECOND_MIX, SHARP, TAPS
from pellucid.segments.chain import AffineStage, ClipStage, HueStage, Stage
from pellucid.types import Size

__all__ = ["Options", "Packed", "fusable", "pack", "unpack"]


class Options(NamedTuple):
    """What is not a tensor."""

    size: tuple[int, int]
    taps: int
    mode: int
    flags: int  # which colour stages there are, and more, as in ``layout.py``
    out_channels: int
    cubic: float
    names: tuple[str, str] = ("bilinear", "zeros")  # interpolation and padding, as the reference calls them
    dtype: torch.dtype | None = None  # of the result; None: as computed


class Packed(NamedTuple):
    """The arguments of one warp: what is static, the maps, the windows, the colour parameters and the displacements."""

    options: Options
    mapping: Float[Tensor, "b_or_1 6_or_9"]
    window: Float[Tensor, "b_or_1 4"] | None
    params: Float[Tensor, "b_or_1 n"]
    field: Float[Tensor, "b_or_1 2 h2 w2"] | None = None

    def to(self, dtype: torch.dtype) -> Packed:
        """The same numbers in another dtype."""
        window, field = (None if part is None else part.to(dtype) for part in (self.window, self.field))
        return Packed(self.options, self.mapping.to(dtype), window, self.params.to(dtype), field)

    def returning(self, dtype: torch.dtype | None) -> Packed:
        """The same warp, whose result is of this dtype (None: as computed)."""
        return self._replace(options=self.options._replace(dtype=dtype))


def pack(
    channels: int,
    src_from_dst: Float[Tensor, "b_or_1 2_or_3 3"],
    *,
    size: Size,
    interpolation: str,
    padding_mode: str,
    fill: Float[Tensor, "b_or_1 c2"] | None,
    matrix: Float[Tensor, "b_or_1 c2 c"] | None,
    offset: Float[Tensor, "b_or_1 c2"] | None,
    window: Float[Tensor, "b_or_1 4"] | None,
    epilogue: Sequence[Stage],
    field: Float[Tensor, "b_or_1 2 h2 w2"] | None = None,
    dtype: torch.dtype | None = None,
    levels: bool = False,
    antialias: bool = True,
) -> Packed:
    """Pack the arguments of :func:`pellucid.kernels.warp.reference.warp`; the epilogue must be :func:`fusable` as a whole.

    ``antialias`` is that of :func:`pellucid.kernels.resize.reference.resize`; a warp does not read it.
    """
    out_channels = channels if matrix is None else matrix.shape[-2]
    flags = (LEVELS if levels else 0) | (0 if antialias else SHARP)
    pieces: list[tuple[Tensor | None, int]] = []
    if matrix is not None or offset is not None or fill is not None:
        flags |= FIRST_MIX | (0 if matrix is None else MATRIX)
        pieces += [] if matrix is None else [(matrix, out_channels * channels)]
        pieces += [(offset, out_channels), (fill, out_channels)]
    for stage in epilogue:
        if isinstance(stage, ClipStage):
            flags |= CLIP
        elif isinstance(stage, HueStage):
            flags |= HUE
            pieces.append((stage.hue_shift, 1))
        else:
            flags |= LAST_MIX if flags & CLIP else SECOND_MIX
            pieces += [(stage.matrix, out_channels**2), (stage.offset, out_channels), (None, out_channels)]
    options = Options(
        (size[0], size[1]),
        TAPS[interpolation],
        MODES[padding_mode],
        flags,
        out_channels,
        -0.75 if interpolation == "bicubic_opencv" else -0.5,
        (interpolation, padding_mode),
        dtype,
    )
    return Packed(options, src_from_dst.flatten(1), window, _row(pieces, src_from_dst), field)


def _row(pieces: list[tuple[Tensor | None, int]], like: Tensor) -> Tensor:
    """One row of numbers per sample (or one row for all)."""
    given = [piece for piece, _ in pieces if piece is not None]
    if not given:
        return like.new_zeros((1, 1))
    rows = max(piece.shape[0] for piece in given)
    parts = []
    for piece, numbers in pieces:
        part = given[0].new_zeros((1, numbers)) if piece is None else piece.reshape(-1, numbers)
        parts.append(part.expand(rows, numbers))
    return torch.cat(parts, 1)


class Unpacked(NamedTuple):
    """The colours of a row, as the reference takes them."""

    fill: Tensor | None
    matrix: Tensor | None
    offset: Tensor | None
    epilogue: tuple[Stage, ...]


def unpack(options: Options, params: Tensor, channels: int) -> Unpacked:
    """Undo :func:`pack` on the colour parameters; what was left out may come back as zeros."""
    out, at = options.out_channels, 0

    def take(*shape: int) -> Tensor:
        nonlocal at
        numbers = torch.Size(shape).numel()
        at += numbers
        return params[:, at - numbers : at].reshape(-1, *shape)

    matrix = take(out, channels) if options.flags & MATRIX else None
    offset, fill = (take(out), take(out)) if options.flags & FIRST_MIX else (None, None)
    epilogue: list[Stage] = [HueStage(take(1)[:, 0])] if options.flags & HUE else []
    for flag in (SECOND_MIX, LAST_MIX):
        if flag == LAST_MIX and options.flags & CLIP:
            epilogue.append(ClipStage())
        if options.flags & flag:
            epilogue.append(AffineStage(take(out, out), take(out)))
            take(out)  # its fill, which is not used
    return Unpacked(fill, matrix, offset, tuple(epilogue))


def fusable(epilogue: Sequence[Stage]) -> int:
    """How many leading stages fit the pattern [hue] [affine] [clip] [affine]; the rest must be run on the result."""
    place = 0
    for count, stage in enumerate(epilogue):
        if isinstance(stage, HueStage):
            fits, after = place == 0, 1
        elif isinstance(stage, ClipStage):
            fits, after = place <= 2, 3
        else:
            assert isinstance(stage, AffineStage)
            square = stage.matrix.shape[-1] == stage.matrix.shape[-2]
            fits, after = square and place != 2 and place < 4, 2 if place < 2 else 4
        if not fits:
            return count
        place = after
    return len(epilogue)
