"""What the operators ask of the compiled functions: the arguments as NumPy arrays without copies, and a thread's scratch memory.

Owns: `Asked`, `Pass`, and how a result is cut into strips.
Must not: compute pixels, or import Numba.
Read next: ``layout.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.several import Pictures
from pellucid.kernels.sources import Sources, sources_of
from pellucid.kernels.stages.chain import colors_of, has_curve, of_levels
from pellucid.kernels.threads import scratch
from pellucid.kernels.warp.cpu import layout
from pellucid.kernels.warp.layout import CANVASES, MODES

__all__ = ["BLOCK", "STRIP", "Asked", "Pass", "spline_of"]

STRIP = 1024
"""Pixels that go through all phases together: few enough for a close cache, enough to forget the calls."""
BLOCK = 128
"""Columns of a wide output finished before the next: what a long turned row reads lies in too many places."""


class Asked(NamedTuple):
    """The arguments of an operator."""

    image: Tensor | Pictures
    mapping: Tensor
    window: Tensor | None
    params: Tensor
    field: Tensor | None
    links: Tensor | None
    table: Tensor | None
    size: list[int]
    options: list[int]
    cubic: float


class Pass:
    """The arguments both compiled functions share, as NumPy arrays without copies, and the scratch memory of a thread."""

    loop: Any = None
    """The function that computes, where it is called again and again."""

    def __init__(self, asked: Asked, *, still: bool = False, sources: Sources | None = None) -> None:
        image, mapping, window, params, field, links, table, size, options, cubic = asked
        if links is None and table is not None:  # rows are read eight pixels at a time
            image, sources = _in_rows(image) if isinstance(image, Tensor) else image.each(_in_rows), None
        pixels, pictures, height, width = sources or sources_of(image, apart=image.dtype != mapping.dtype)
        batch, channels = image.shape[:2]
        taps, mode, flags, out_channels, *kinds = options
        self.out_shape = (batch, out_channels, size[0], size[1])
        block = size[1] if size[1] <= 2 * BLOCK or _moves_rows(mapping) else BLOCK
        if still:  # all of a picture is one row
            height, width = 1, height * width
            pictures[:, -2:] = height, width
            size, block = [height, width], min(width, STRIP)
        rows, blocks = max(1, min(size[0], STRIP // max(block, 1))), -(-size[1] // max(block, 1))
        self.strips, self.strip = -(-size[0] // rows) * blocks, rows * block
        work = np.float64 if mapping.dtype == torch.float64 else np.float32
        self.work, self.colored, self.canvases = work, (flags, channels, out_channels), -1 if links is None else len(kinds)
        self.colors, spread = colors_of(*self.colored), table if links is None else None
        self.bends = True if has_curve(flags) else None  # where it is None, they are not compiled
        folds = mode > MODES["border"] and window is None and spread is None
        self.cubics = taps == 4 and spread is None
        plain = mapping.shape[1] == 6 and not (folds or self.cubics)
        self.quads = 0 if still else max(_staged(channels, height, width, 3 if folds else 1), 4 * taps * taps * self.strip)
        own_fields = field is not None and field.shape[0] > 1 and field.stride(0) != 0
        windowed, unit = window is not None and window.shape[0] > 1, image.dtype == torch.uint8 and not of_levels(flags)
        steps = int(mapping.shape[0] > 1), int(windowed), int(params.shape[0] > 1), int(own_fields)
        sizes, projective, one = (channels, out_channels, size[0], size[1], taps, mode), mapping.shape[1] == 9, 255 if unit else 1
        call = layout.Call(0, 0, 0, 0, 0, 0, 0, *sizes, projective, *steps, rows, block, blocks, still, cubic, work(1 / one))
        windows = np.empty((1, 0), work) if window is None else window.contiguous().numpy()
        # None where an affine map alone tells what is read: the rest is not compiled.
        fields = None if plain or links is not None else np.empty((1, 0), work)
        if field is not None:  # one for all may also come expanded
            fields = (field if own_fields else field[:1]).contiguous().view(-1, max(size[0] * size[1], 1)).numpy()
        rows_of = layout.Rows(pictures, mapping.contiguous().numpy(), windows, params.contiguous().numpy(), self.colors)
        # None, too, where nothing is antialiased.
        weights = _weights(spread, pictures[:, 5], pictures[:, 8]) if spread is not None and spread.ndim != 3 else None
        shapes = spread.contiguous().numpy() if spread is not None and spread.ndim == 3 else None
        self.image = image  # whose memory the arrays show
        self.arguments: tuple[Any, ...] = (pixels, call, rows_of, fields, _chain(links, table, kinds, work), weights, shapes)

    def scratch(self, rows: Any, *, gradients: bool) -> tuple[Any, ...]:
        """The thread's own memory, with these rows of a strip."""
        work = self.work
        quad, into = scratch("stage", self.quads, work), scratch("stage's gradient", 2 * self.quads + 8 if gradients else 0, work)
        index, seen = scratch("index", self.strip, np.int32), scratch("seen", self.strip, np.int32)
        floats, frame = scratch("floats", rows.height * self.strip, work), scratch("frame", layout.FRAME, np.int64)
        cubics = scratch("cubics", 16 * self.strip, work) if self.cubics else None
        return layout.Room(rows, floats, quad, into, index, seen, frame), cubics, self.bends


def _chain(links: Tensor | None, control: Tensor | None, kinds: list[int], work: Any) -> layout.Chain | None:
    """The canvases of a call; ``control``: displacements of the one that bends."""
    if links is None:
        return None
    knots, shape, most = np.zeros((1, 0), work), (0, 0), np.zeros((1, 2), work)
    if control is not None:
        from pellucid.kernels.warp.cpu.bends import polynomials

        shape, most = (control.shape[2], control.shape[3]), np.empty((len(control), 2), work)
        knots = np.empty((len(control), (shape[0] - 3) * 8 * shape[1]), work)
        given = control.contiguous().numpy()
        polynomials(given, spline_of(kinds), knots, most, np.empty((shape[0], 2 * shape[1]), given.dtype))
    steps = int(links.shape[0] > 1), int(len(knots) > 1)
    return layout.Chain(links.contiguous().numpy(), np.array(kinds, np.int64), steps[0], knots, shape, most, steps[1])


def spline_of(kinds: list[int]) -> np.ndarray[Any, Any]:
    """The spline of the call's field: the weights of the knots around a cell, by powers of the place in it."""
    return np.array(next(spline for name, spline in layout.SPLINES.items() if CANVASES[name] in kinds))


def _staged(channels: int, height: int, width: int, sides: int) -> int:
    """How many numbers one staging needs: four a pixel, with the ring and the empty lines, of ``sides`` x ``sides`` images."""
    return min(layout.CAPACITY, -(-channels // 3) * 4 * (sides * width + 8) * (sides * height + 12))


def _in_rows(image: Tensor) -> Tensor:
    """The picture with columns that are adjacent in memory, copied if need be."""
    return image if image.stride(3) == 1 else image.contiguous()


def _weights(table: Tensor, *steps: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """The weights, how many rows and columns they have, which of those a sample uses, and where rows lie in image and gradient."""
    table = table.contiguous()
    rows, columns = table.shape[2], table.shape[4]
    some = (table != 0).transpose(2, 3).flatten(1, 2).any(1)  # b rows columns
    used = []
    for axis in (2, 1):
        seen = some.any(axis).numpy()  # b n
        used += [seen.argmax(1), seen.shape[1] - seen[:, ::-1].argmax(1)]
    return table.flatten(1).numpy(), rows, columns, np.stack(used, 1), *(np.arange(rows) * step[:, None] for step in steps)


def _moves_rows(mapping: Tensor) -> bool:
    """Whether every row of the result is one of the image, as it is or reversed."""
    a, b, c, d, *_ = mapping.numpy().T
    return mapping.shape[1] == 6 and bool(((abs(a) == 1.0) & (b == 0.0) & (np.floor(c) == c) & (d == 0.0)).all())
