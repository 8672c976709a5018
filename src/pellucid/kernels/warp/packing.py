"""A resample as one value: everything a pass needs beside the image.

Owns: `Resample`, its static part `Recipe`, and writing and reading the row of colour parameters.
Must not: compute; packing only moves numbers, so gradients pass through it by themselves.
Read next: ``reference.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.kernels.stages.chain import Unpacked, kept_to_first_mix, laid_out, of_levels, read_back, stretched, without_colors
from pellucid.kernels.warp.layout import CANVASES, LINK, MODES, TAPS
from pellucid.segments.chain import Stage
from pellucid.types import Size

__all__ = ["Link", "Opened", "Recipe", "Resample", "canvas_kind", "pack", "unpack"]


class Link(NamedTuple):
    """A canvas between two warps, which is never painted.

    Args:
        kind: what shows outside of it: ``zeros`` or ``hard`` (fill, from half a pixel outside on), ``border``, ``reflection``. Or
            ``bend`` or ``kink``: it cuts nothing off, but moves points by displacements, cubic or linear between knots.
        mid_from_dst: from the next canvas (from the output, if this is the last) to this one.
        window: its rectangle (x0, y0, x1, y1), pixel centres; of displacements their `grid`.
        fill: None is zero.
        control: displacements, as `Bend` has them; at most one link has any.
    """

    kind: str
    mid_from_dst: Float[Tensor, "b_or_1 3 3"]
    window: Float[Tensor, "b_or_1 4"]
    fill: Float[Tensor, "b_or_1 c2"] | None = None
    control: Float[Tensor, "b_or_1 2 gh gw"] | None = None

    def to(self, dtype: torch.dtype) -> Link:
        """Convert map, window and control to another precision."""
        control = None if self.control is None else self.control.to(dtype)
        return self._replace(mid_from_dst=self.mid_from_dst.to(dtype), window=self.window.to(dtype), control=control)


def canvas_kind(padding_mode: str, *, hard: bool) -> str:
    """The kind of a canvas with this padding; ``hard``: it ends with its pixels, without a ramp."""
    return ("hard" if hard else "zeros") if padding_mode in ("zeros", "constant") else padding_mode


class Recipe(NamedTuple):
    """The static part of a resample; it does not depend on an input's size.

    Args:
        size: (height, width) of the output.
        interpolation, padding_mode: as :func:`pack` takes them.
        flags: which colour stages there are, and more, as in ``../stages/chain.py``.
        out_channels: of the output; 0: as many as the image has.
        dtype: of the result; None: as computed.
        footprint: as :func:`pack` takes it.
        canvases: the kinds of the canvases between the maps.
    """

    size: tuple[int, int]
    interpolation: str = "bilinear"
    padding_mode: str = "zeros"
    flags: int = 0
    out_channels: int = 0
    dtype: torch.dtype | None = None
    footprint: Size | None = None
    canvases: tuple[str, ...] = ()

    @property
    def levels(self) -> bool:
        """Whether 8-bit numbers are levels from 0 to 255, not fractions."""
        return of_levels(self.flags)

    def options(self, channels: int) -> tuple[list[int], list[int], float]:
        """Size, (taps, mode, flags, output channels, kinds of canvases) and the cubic kernel's parameter, for compiled code."""
        cubic = -0.75 if self.interpolation == "bicubic_opencv" else -0.5
        numbers = TAPS[self.interpolation], MODES[self.padding_mode], self.flags, self.out_channels or channels
        return list(self.size), [*numbers, *(CANVASES[kind] for kind in self.canvases)], cubic


class Resample(NamedTuple):
    """A pass without its images: the arguments of every implementation.

    Args:
        recipe: the static part.
        mapping: output pixel to input pixel, row by row; six numbers where the map is affine.
        window, field: as :func:`pack` takes them.
        links: of each canvas, first canvas first, its map from the next and its rectangle.
        params: the colours, as ``../stages/chain.py`` lays them out.
        table: the footprint's weights for affine maps, every pixel's shape for homographies and fields, as ``weight_table`` and
            ``stretches`` in ``footprint.py`` make them.
            Beside links the displacements of the one that has any.
        prologue, epilogue: pointwise stages on the source and on the result, which ``params`` do not hold.
        slopes: how many pixels the slopes to map, window, field and links are blurred by; None: they are the pass's own.
    """

    recipe: Recipe
    mapping: Float[Tensor, "b_or_1 6_or_9"]
    window: Float[Tensor, "b_or_1 4"] | None
    params: Shaped[Tensor, "b_or_1 n"]
    field: Float[Tensor, "b_or_1 2 h2 w2"] | None = None
    links: Float[Tensor, "b_or_1 k 13"] | None = None
    table: Float[Tensor, "b_or_1 *numbers"] | None = None
    prologue: tuple[Stage, ...] = ()
    epilogue: tuple[Stage, ...] = ()
    slopes: Float[Tensor, "b_or_1"] | None = None

    def to(self, dtype: torch.dtype) -> Resample:
        """The same numbers in another dtype; stages convert theirs when they run."""
        mapping, params = self.mapping.to(dtype), self.params.to(dtype)
        moves = self.window, self.field, self.links, self.table
        window, field, links, table = [None if part is None else part.to(dtype) for part in moves]
        return self._replace(mapping=mapping, window=window, params=params, field=field, links=links, table=table)

    def returning(self, dtype: torch.dtype | None) -> Resample:
        """The same pass, whose result is of this dtype (None: as computed)."""
        return self._replace(recipe=self.recipe._replace(dtype=dtype))

    def without_colors(self) -> Resample:
        """The same pass without colours; its result is in the dtype in which everything is computed."""
        recipe = self.recipe._replace(flags=without_colors(self.recipe.flags), out_channels=0, dtype=self.mapping.dtype)
        return self._replace(recipe=recipe, params=self.mapping.new_zeros((1, 1)), prologue=(), epilogue=())

    def without_moves(self) -> Resample:
        """The pass's colours alone, for pictures of the result's size."""
        still = constant((1.0, 0.0, 0.0, 0.0, 1.0, 0.0), self.mapping.dtype, self.mapping.device)[None]
        recipe = self.recipe
        recipe = Recipe(recipe.size, flags=stretched(recipe.flags), out_channels=recipe.out_channels, dtype=recipe.dtype)
        return Resample(recipe, still, None, self.params, prologue=self.prologue, epilogue=self.epilogue)

    def with_stages_after(self, channels: int) -> Resample:
        """The same pass, whose stages are run on its result."""
        plain, stages = self.without_stages(channels), unpack(self, channels).stages
        return plain._replace(recipe=plain.recipe._replace(dtype=self.recipe.dtype), epilogue=(*stages, *self.epilogue))

    def without_stages(self, channels: int) -> Resample:
        """The same pass up to its first mix, in the dtype in which everything is computed."""
        recipe, out = self.recipe, self.recipe.out_channels or channels
        flags, params = kept_to_first_mix(recipe.flags, self.params, channels, out, len(recipe.canvases))
        recipe = recipe._replace(flags=flags, dtype=self.mapping.dtype)
        return self._replace(recipe=recipe, params=params, epilogue=())


class Opened(NamedTuple):
    """A pass whose colours are affine in a mean colour that is not known yet.

    Args:
        resample: the pass; its colours are those at a mean of zero, in float64.
        slopes: what each channel of the mean adds to them.
    """

    resample: Resample
    slopes: Float[Tensor, "b_or_1 n c"]

    def at(self, mean: Float[Tensor, "b c"]) -> Resample:
        """The pass at a mean."""
        params = self.resample.params
        for level, slope in zip(mean.unbind(1), self.slopes.unbind(2), strict=True):
            params = params + slope * level[:, None]
        return self.resample._replace(params=params)


def pack(
    src_from_dst: Float[Tensor, "b_or_1 2_or_3 3"],
    *,
    size: Size,
    interpolation: str = "bilinear",
    padding_mode: str = "zeros",
    fill: Shaped[Tensor, "b_or_1 c2"] | None = None,
    matrix: Float[Tensor, "b_or_1 c2 c"] | None = None,
    offset: Float[Tensor, "b_or_1 c2"] | None = None,
    window: Float[Tensor, "b_or_1 4"] | None = None,
    footprint: Size | None = None,
    field: Float[Tensor, "b_or_1 2 h2 w2"] | None = None,
    dtype: torch.dtype | None = None,
    levels: bool = False,
    antialias: bool = True,
    links: Sequence[Link] = (),
    prologue: Sequence[Stage] = (),
    epilogue: Sequence[Stage] = (),
    slopes: Float[Tensor, "b_or_1"] | None = None,
) -> Resample:
    """Say how to resample: the one place where all of it is listed.

    Args:
        src_from_dst: output pixel to input pixel, homogeneous; two rows where the map is affine.
        size: (height, width) of the output.
        interpolation: ``bilinear``, ``nearest``, ``bicubic`` (Keys, a = -0.5) or ``bicubic_opencv`` (a = -0.75).
        padding_mode: ``zeros``, ``constant`` (both show ``fill``), ``border``, ``reflection``, ``reflect_101``, ``wrap``.
        fill: the colour outside, after any colour map; None is zero. Non-finite coordinates show it in every mode.
        matrix, offset: colour map on the channels.
        window: (x0, y0, x1, y1), pixel centres: sampling is clamped to this rectangle, and what lies more than half a
            pixel outside of it counts as outside the image. The meaning of crop-then-resize.
        footprint: (vertical, horizontal) static bounds of how many input pixels an output pixel spans; when given, each output
            pixel is a mean over all that it spans (antialiasing), of which :func:`pellucid.kernels.warp.footprint.shares` says
            how much counts: the kernel is stretched over the pixel's parallelogram, as a resize does along the axes. Affine maps
            weigh pixels from a table. Only for warps, without window and links.
        field: displacements in input pixels, x then y, added to what the map gives; with a map of zeros, where to read. A point
            whose map or displacement is not finite is nowhere.
        dtype: of the result: floating, or uint8: 255 steps of [0, 1], rounded half to even. An image then counts as colours, 8-bit
            ones as fractions of 255. None: as computed, in the widest dtype of the arguments.
        levels: 8-bit numbers are levels from 0 to 255 instead, read and written as they are.
        antialias: whether a resize stretches its kernel to the footprint where that is more than a pixel.
        links: the canvases that lie between the source's map and the output, first canvas first; then ``src_from_dst`` leads to the
            source from the first. Only for warps, without a field.
        prologue, epilogue: pointwise colour stages applied to the source and to the result.
        slopes: a Gaussian's standard deviation in pixels: map, window, field and links get gradients from the source blurred so.
    """
    colors = laid_out(matrix, offset, fill, epilogue, [link.fill for link in links], levels=levels, sharp=not antialias)
    fused, flags, pieces, out_channels = colors
    kinds = tuple(link.kind for link in links)
    recipe = Recipe((size[0], size[1]), interpolation, padding_mode, flags, out_channels, dtype, footprint, kinds)
    rows = _row(pieces, src_from_dst)
    chain = _chain(links) if links else None
    control = next((link.control for link in links if link.control is not None), None)
    stages = tuple(prologue), tuple(epilogue[fused:])
    return Resample(recipe, src_from_dst.flatten(1), window, rows, field, chain, control, *stages, slopes)


def _chain(links: Sequence[Link]) -> Float[Tensor, "b_or_1 k 13"]:
    parts = [part for link in links for part in (link.mid_from_dst.flatten(1), link.window)]
    rows = next((part.shape[0] for part in parts if part.shape[0] != 1), 1)  # there may be none
    return torch.cat([part.expand(rows, -1) for part in parts], 1).unflatten(1, (len(links), LINK))


def _row(pieces: list[tuple[Tensor | None, int]], like: Tensor) -> Tensor:
    """One row of numbers per sample (or one row for all)."""
    given = [piece for piece, _ in pieces if piece is not None]
    if not given:
        return like.new_zeros((1, 1))
    rows = next((piece.shape[0] for piece in given if piece.shape[0] != 1), 1)  # there may be none
    parts = []
    for piece, numbers in pieces:
        part = given[0].new_zeros((1, numbers)) if piece is None else piece.reshape(-1, numbers)
        parts.append(part.expand(rows, numbers))
    return torch.cat(parts, 1)


def unpack(resample: Resample, channels: int) -> Unpacked:
    """Undo :func:`pack` on the colours, for an image of so many channels; absent parts may come back as zeros."""
    recipe = resample.recipe
    return read_back(recipe.flags, resample.params, channels, recipe.out_channels or channels, len(recipe.canvases))
