"""The contract between the torch side and the compiled side: the numbers of a call, and a thread's memory.

Owns: their names; a named tuple is one to Python and to Numba.
Must not: import Numba.
Read next: ``op.py``.
"""

from typing import Any, NamedTuple

__all__ = [
    *("ALL", "COLORS", "PIXELS", "BackwardRows", "Backwards", "Call", "DualRows", "ForwardRows", "Given", "Room", "Sums", "Tables"),
]

ALL, PIXELS, COLORS = range(3)
"""What a call of `settle` does: samples from their pixels to their colours; strips of all samples up to their pixels; or on from
there.
"""


class Call(NamedTuple):
    """What all samples share. A step is 1 where every sample has a row of its own, 0 where all share one."""

    height: int
    """The result's size."""
    width: int
    cubic: bool
    filled: bool
    sharp: bool
    map_step: int
    window_step: int
    param_step: int
    strip: int
    """Rows of the result that go through all stages together."""
    line: int
    """How many pixels a line has room for."""
    unit: Any
    """The value of 1 in the image (1 / 255 for bytes), in the dtype in which everything is computed."""


class Given(NamedTuple):
    """Pixels, where pictures lie (``../../sources.py``), a row per sample of maps, windows and colours, and the colours' chain."""

    img: Any
    pictures: Any
    maps: Any
    windows: Any
    params: Any
    colors: Any


class Tables(NamedTuple):
    """Weights of both axes, tap by tap, and whether each output sees something; those across, output by output, too; scratch."""

    across: Any
    seen: Any
    down: Any
    seen_down: Any
    turned: Any
    weights: Any
    spare: Any


class Room(NamedTuple):
    """The memory of a thread.

    Args:
        rows: the rows of a strip, as one of the tuples below names them.
        floats: the numbers of a strip.
        lines: a line of the image each.
        places: each output's first pixel and number of pixels, across and down.
        index: where each output's first pixel lies in a line.
    """

    rows: Any
    floats: Any
    lines: Any
    places: Any
    index: Any
    tables: Any


class Backwards(NamedTuple):
    """The transposed table, as ``weights.turn`` writes it, its low ends as an index, too; the gradients of both axes' weights."""

    low: Any
    high: Any
    index: Any
    table: Any
    across: Any
    down: Any


class Sums(NamedTuple):
    """Where gradients go: the image's is flat; the others are float64 and have a row per sample."""

    image: Any
    maps: Any
    windows: Any
    params: Any


class ForwardRows(NamedTuple):
    """Where the rows of each name begin in a strip: coverage and ones; the pixels read, and their result."""

    cover: int
    ones: int
    source: int
    result: int
    height: int


class DualRows(NamedTuple):
    """As `ForwardRows`, with zeros, the tangent of the pixels read, that of the result, and the former's part along a line."""

    cover: int
    ones: int
    source: int
    result: int
    nothing: int
    changed: int
    shown: int
    near: int
    height: int


class BackwardRows(NamedTuple):
    """Coverage and ones; the gradients of the pixels read and of the result, spare rows, and scratch; then the pixels read, the
    first mix's result, and the input of each later step but the first.
    """

    cover: int
    ones: int
    to_source: int
    grad: int
    spare: int
    scratch: int
    source: int
    mixed: int
    later: int
    height: int
