"""The contract between the torch side and the compiled side, beyond ``../layout.py``: the numbers of a call.

Owns: their names; a named tuple is one to Python and to Numba.
Must not: import Numba.
Read next: ``op.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["CAPACITY", "FRAME", "SPLINES", "Call", "Chain", "Room", "Rows", "Sums"]


class Call(NamedTuple):
    """The integers of a call: sizes, options, how work is cut, and where one of the pictures lies.

    A step is 1 where every sample has a row of its own, 0 where all share one. What of this belongs to a sample, a kernel takes
    from the table of pictures: see ``at_sample`` in ``strips.py``.
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
    flags: int
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
    """What a number of the image counts, in the dtype in which everything is computed."""


class Rows(NamedTuple):
    """A call's pictures, as ``../../sources.py`` describes them, maps, windows (without columns where there are none) and colour
    parameters, a row per sample or one for all.
    """

    pictures: Any
    maps: Any
    windows: Any
    params: Any


class Room(NamedTuple):
    """The memory of a thread: numbers for a strip, what is staged, its gradient, integers for a strip's pixels, and the frame."""

    floats: Any
    quad: Any
    into: Any
    index: Any
    kind: Any
    frame: Any


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

FRAME = 8
"""How many integers describe what is staged."""

SPLINES = {
    "bend": ((1 / 6, 4 / 6, 1 / 6, 0.0), (-1 / 2, 0.0, 1 / 2, 0.0), (1 / 2, -1.0, 1 / 2, 0.0), (-1 / 6, 1 / 2, -1 / 2, 1 / 6)),
    "kink": ((0.0, 1.0, 0.0, 0.0), (0.0, -1.0, 1.0, 0.0), (0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)),
}
"""What the four knots around a cell count in the polynomial there, by the power of the place between the inner two."""
