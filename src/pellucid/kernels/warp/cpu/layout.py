"""The contract between the torch side and the compiled side, beyond ``../layout.py``: the numbers of a call.

Owns: their names; a named tuple is one to Python and to Numba.
Must not: import Numba.
Read next: ``op.py``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from pellucid.kernels.stages.chain import Colors, colors_of, has_curve
from pellucid.kernels.stages.strip import laid

__all__ = [
    *("COLUMNS", "FRAME", "LEFT", "LINES", "PLANE", "RING", "ROWS", "STAGED", "TOP", "ACROSS", "CAPACITY", "COVER"),
    *("DENOMINATOR", "DOWN", "ONES", "QUADS", "SHARED", "SPLINES", "US", "VS", "X", "Y", "BackwardRows", "Call", "Chain"),
    *("DualRows", "ForwardRows", "Room", "Rows", "Sample", "Spot", "Strip", "Sums", "backward_rows", "forward_rows"),
]


class Call(NamedTuple):
    """The integers of a call: sizes, options, how work is cut, and where one of the pictures lies.

    A step is 1 where every sample has a row of its own, 0 where all share one. A kernel fills in the numbers of a sample from the
    table of pictures: see ``at_sample`` in ``strips.py``.
    """

    base: int
    """Where the sample's picture begins, and"""
    own: int
    """where its gradient does, in elements;"""
    stride_c: int
    """strides, and"""
    stride_y: int
    stride_x: int
    height: int
    """its size."""
    width: int
    channels: int
    out_channels: int
    out_height: int
    out_width: int
    taps: int
    mode: int
    projective: bool
    map_step: int
    window_step: int
    param_step: int
    field_step: int
    strip: int
    """The rows of a strip,"""
    block: int
    """its columns, and"""
    blocks: int
    """how many strips lie side by side."""
    still: bool
    """Whether nothing moves; then a picture is one row, all of it seen."""
    cubic: float
    unit: Any
    """The value of 1 in the image (1 / 255 for bytes), in the dtype in which everything is computed."""


class Rows(NamedTuple):
    """A call's pictures, as ``../../sources.py`` describes them, maps, windows (without columns where there are none) and colour
    parameters, a row per sample or one for all; and the chain of colours, as ``../../stages/chain.py`` says it.
    """

    pictures: Any
    maps: Any
    windows: Any
    params: Any
    colors: Any


class Sample(NamedTuple):
    """The numbers of one sample: its map, window, parameters, and those of them that are the fills of canvases."""

    m: Any
    window: Any
    p: Any
    fills: Any


class Spot(NamedTuple):
    """Where a strip lies: the sample, its first row and column, and how many columns."""

    b: Any
    v: Any
    first: Any
    width: Any


class Room(NamedTuple):
    """The memory of a thread: which rows a strip has (one of the tuples below), numbers for them, staged pixels, their gradient,
    integers for a strip's pixels, and the frame.
    """

    rows: Any
    floats: Any
    quad: Any
    into: Any
    index: Any
    seen: Any
    frame: Any


class Strip(NamedTuple):
    """A strip in that memory: its rows, which pixels see anything, where they read the stage, the rest, the rows of canvases."""

    rows: Any
    seen: Any
    index: Any
    frame: Any
    quad: Any
    into: Any
    own: Any


X, Y, ACROSS, DOWN, US, VS, DENOMINATOR, COVER, ONES, QUADS = range(10)
"""Rows that every strip has: coordinates; their fractions between pixels; its columns, and its rows from its first on; what
coordinates were divided by; coverage; ones; and four rows for pixels of four numbers."""
SHARED = QUADS + 4


class ForwardRows(NamedTuple):
    """Where the other rows of a strip begin: the pixels read, their result, and those of canvases, as ``links.py`` has them."""

    source: int
    result: int
    canvases: int
    height: int


class BackwardRows(NamedTuple):
    """The gradients of the coverage, of coordinates and of the map's third row, and zeros; gradients of the pixels read and of the
    result, and spare rows; scratch; the pixels read, the first mix's result, that with canvases, the input of each later step but
    the first; two rows for shares of canvases, and the canvases' own.
    """

    to_cover: int
    along: int
    third: int
    nothing: int
    to_source: int
    grad: int
    spare: int
    scratch: int
    source: int
    mixed: int
    shown: int
    later: int
    shares: int
    canvases: int
    height: int


def _canvas_rows(colors: Colors, canvases: int, *, kept: bool) -> int:
    """The number of rows for so many canvases; ``kept``: with those that backward reads."""
    return 0 if canvases < 0 else 2 + colors.grounds + (4 * canvases if kept else 0)


@lru_cache(256)
def forward_rows(flags: int, channels: int, outputs: int, canvases: int) -> ForwardRows:
    """The rows of a strip in a forward pass; canvases: -1 where there is no chain of them."""
    colors, wide = colors_of(flags, channels, outputs), max(channels, outputs)
    return laid(ForwardRows, wide, wide, _canvas_rows(colors, canvases, kept=False), after=SHARED)


@lru_cache(256)
def backward_rows(flags: int, channels: int, outputs: int, canvases: int, *, traces: bool) -> BackwardRows:
    """The rows of a strip in a backward pass; ``traces``: whether gradients go on to canvases."""
    colors, links = colors_of(flags, channels, outputs), canvases >= 0
    own = channels, outputs, outputs, 4 if has_curve(flags) else 1
    kept = channels, outputs * colors.mixes, outputs * links, outputs * max(len(colors.steps) - 1, 0)
    return laid(BackwardRows, 1, 2, 1, 1, *own, *kept, 2 * links, _canvas_rows(colors, canvases, kept=traces), after=SHARED)


class DualRows(NamedTuple):
    """The tangents of coordinates and coverage; the pixels read, their tangents by the picture and by coordinates; the result."""

    moves: int
    moved_cover: int
    source: int
    changed: int
    moved: int
    result: int
    canvases: int
    height: int


class Sums(NamedTuple):
    """Where gradients go: those of maps, windows, parameters and links are float64 and have a row per sample."""

    image: Any
    """Flat and contiguous; a call owns the part of its samples."""
    maps: Any
    windows: Any
    params: Any
    fields: Any
    """(batch * 2, height * width)."""
    links: Any
    tables: Any
    """A row per sample, in the dtype in which everything is computed."""


class Chain(NamedTuple):
    """The canvases of a call."""

    links: Any
    """(samples or 1, canvases, LINK)."""
    kinds: Any
    """Of each canvas, as ``CANVASES`` numbers them."""
    step: int
    control: Any
    """(samples or 1, numbers of the polynomials that ``bends.py`` reads); empty where nothing bends."""
    knots: Any
    """Rows and columns of the grid."""
    most: Any
    """(samples or 1, 2): the largest displacement of a knot along x and along y."""
    control_step: int


CAPACITY = 1 << 18
"""The most numbers that ``staged.py`` lays out at once: a megabyte of float32, the second cache."""

ROWS, STAGED, LEFT, TOP, COLUMNS, LINES, PLANE, RING = range(8)
FRAME = 8
"""The integers that describe a band: its rows, whether it is staged, x and y of the first pixel, columns and lines with the ring,
numbers of a plane, and the ring's width."""

SPLINES = {
    "bend": ((1 / 6, 4 / 6, 1 / 6, 0.0), (-1 / 2, 0.0, 1 / 2, 0.0), (1 / 2, -1.0, 1 / 2, 0.0), (-1 / 6, 1 / 2, -1 / 2, 1 / 6)),
    "kink": ((0.0, 1.0, 0.0, 0.0), (0.0, -1.0, 1.0, 0.0), (0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)),
}
"""The weights of the four knots around a cell, by powers of the place between the inner two."""
