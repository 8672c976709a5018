"""A strip of output pixels: where it lies, what it reads, and the phases that forward and backward share.

Owns: the meaning of a call's integers, the choice between copying, staging and reading pixel by pixel, a strip's way in and out.
Must not: apply colour.
Read next: ``sweep.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import fused, noinline
from pellucid.kernels.warp.cpu.coordinates import BORDER, FILLED, boxes, settle
from pellucid.kernels.warp.cpu.copies import copy_strip, moves_whole_pixels
from pellucid.kernels.warp.cpu.gather import gather_edge, gather_faded, gather_staged, weigh
from pellucid.kernels.warp.cpu.layout import META
from pellucid.kernels.warp.cpu.staged import choose_band, stage
from pellucid.kernels.warp.layout import FIRST_MIX, HUE, MATRIX, SECOND_MIX

__all__ = [
    "BLOCKS",
    "CHANNELS",
    "COLUMNS",
    "FIELD_STRIDE",
    "FLAGS",
    "HEIGHT",
    "MAP_STRIDE",
    "MODE",
    "OUT_CHANNELS",
    "OUT_HEIGHT",
    "OUT_WIDTH",
    "OWN_STRIDE",
    "PARAM_STRIDE",
    "PLANE",
    "PROJECTIVE",
    "ROWS",
    "STAGED",
    "STRIDE_B",
    "STRIDE_C",
    "STRIDE_X",
    "STRIDE_Y",
    "STRIP",
    "TAPS",
    "WIDTH",
    "WINDOW_STRIDE",
    "copy_pixels",
    "is_copy",
    "load_strip",
    "next_band",
    "parameter_places",
    "read_strip",
    "rule_of",
    "settle_strip",
    "store_strip",
    "strip_at",
    "write_pixels",
]

(BATCH, CHANNELS, HEIGHT, WIDTH, OUT_CHANNELS, OUT_HEIGHT, OUT_WIDTH, STRIDE_B, STRIDE_C, STRIDE_Y, STRIDE_X) = range(11)
(TAPS, MODE, PROJECTIVE, FLAGS, MAP_STRIDE, WINDOW_STRIDE, PARAM_STRIDE, STRIP, BLOCK, BLOCKS) = range(11, 21)
FIELD_STRIDE, OWN_STRIDE = range(21, META)
(ROWS, STAGED, LEFT, TOP, COLUMNS, LINES, PLANE, RING) = range(8)


@fused
def parameter_places(flags, channels, out_channels):  # type: ignore[no-untyped-def]
    """Where the stages' numbers lie in a sample's parameters: first matrix (or -1), first offset, hue_shift, second, last mix."""
    matrix, offset = -1, 0
    if flags & MATRIX:
        matrix, offset = 0, out_channels * channels
    hue_shift = offset + 2 * out_channels if flags & FIRST_MIX else 0
    second = hue_shift + 1 if flags & HUE else hue_shift
    last = second + out_channels * out_channels + 2 * out_channels if flags & SECOND_MIX else second
    return matrix, offset, hue_shift, second, last


@fused
def rule_of(meta, window):  # type: ignore[no-untyped-def]
    """The border rule; a window clamps, whatever it is."""
    return BORDER if len(window) == 4 else meta[MODE]


@fused
def is_copy(meta, m, fields, window):  # type: ignore[no-untyped-def]
    """Whether a sample is copied rather than resampled."""
    shape, size = (meta[HEIGHT], meta[WIDTH]), (meta[OUT_HEIGHT], meta[OUT_WIDTH])
    if fields is not None and fields.size > 0:
        return False
    return moves_whole_pixels(m, meta[PROJECTIVE], meta[MODE], window, shape, size)


@fused
def copy_pixels(img, meta, unit, b, m, v, first, width, lines, out, place, cover):  # type: ignore[no-untyped-def]
    """Copy a strip of such a sample to a ``place`` in ``out``, and write its coverage; both as in ``copy_strip``."""
    shape, strides = (meta[HEIGHT], meta[WIDTH]), (meta[STRIDE_C], meta[STRIDE_Y], meta[STRIDE_X])
    copy_strip(
        img, b * meta[STRIDE_B], meta[CHANNELS], shape, strides, unit, m, v, first, width, lines, out, place, cover
    )  # fmt: skip


@fused
def next_band(img, meta, unit, m, fields, window, b, v, last, strip, frame, quad, reads):  # type: ignore[no-untyped-def]
    """Choose the next band of a sample, rows v to ``last`` at most, and stage it if it is to be read."""
    noinline()
    shape = (meta[HEIGHT], meta[WIDTH])
    _, _, held = boxes(shape, meta[TAPS], meta[MODE], window, True, strip.dtype.type)
    planes = (meta[CHANNELS] + 2) // 3
    row, across, rule = 2 * b * meta[FIELD_STRIDE], meta[OUT_WIDTH], rule_of(meta, window)
    choose_band(
        m, meta[PROJECTIVE], fields, row, across, shape, meta[TAPS], rule, v, last, meta[STRIP], planes, len(quad), strip, held,
        frame,
    )  # fmt: skip
    if frame[STAGED] == 1 and reads:
        strides = (meta[STRIDE_C], meta[STRIDE_Y], meta[STRIDE_X])
        stage(img, b * meta[STRIDE_B], meta[CHANNELS], shape, strides, unit, rule, frame, quad)


@fused
def settle_strip(meta, window, strip, frame, kind, index):  # type: ignore[no-untyped-def]
    """Classify a strip whose coordinates are known, and split those that read the stage; how many are of kind 2 and of kind 1."""
    shape, staged = (meta[HEIGHT], meta[WIDTH]), frame[STAGED] == 1
    inner, outer, held = boxes(shape, meta[TAPS], meta[MODE], window, staged, strip.dtype.type)
    corner, lines = (frame[LEFT] - frame[RING], frame[TOP] - frame[RING]), (frame[LINES], frame[COLUMNS])
    return settle(strip[0], strip[1], meta[TAPS], inner, outer, held, shape, corner, lines, kind, index, strip[2], strip[3])


@fused
def read_strip(img, meta, parameter, unit, base, window, strip, frame, quad, cubics, quads, kind, index, rest, out, edge):  # type: ignore[no-untyped-def]
    """Read one settled strip into ``out``, and its coverage into the strip.

    Where ``cubics`` or ``edge`` is None, what would need it is not compiled.
    """
    sc, sy, sx = np.uint64(meta[STRIDE_C]), np.uint64(meta[STRIDE_Y]), np.uint64(meta[STRIDE_X])
    channels, shape = meta[CHANNELS], (meta[HEIGHT], meta[WIDTH])
    x, y, cover = strip[0], strip[1], strip[7]
    if frame[STAGED] == 1:
        if cubics is not None:
            weigh(strip[2], strip[3], parameter, cubics)
        gather_staged(
            quad, frame[PLANE], frame[COLUMNS], channels, meta[TAPS], index, strip[2], strip[3], cubics, quads, out, cover
        )  # fmt: skip
        if cubics is not None and rule_of(meta, window) != FILLED:
            _cover_fully(kind, cover)
    else:
        _clear(out, channels, cover)
    if edge is None:
        if rest > 0:
            gather_faded(img, base, channels, shape, sc, sx, sy, unit, x, y, kind, out, cover)
    else:
        if rest > 0:
            tap_index, weight, slope = edge
            gather_edge(
                img, base, channels, shape, sc, sx, sy, unit, meta[TAPS], parameter, meta[MODE], window, x, y, kind, tap_index,
                weight, slope, out, cover,
            )  # fmt: skip


@fused
def _cover_fully(kind, cover):  # type: ignore[no-untyped-def]
    """Where nothing fades, the sum of weights is one but for rounding."""
    noinline()
    for u in range(len(cover)):
        cover[u] = 1 if kind[u] == 2 else 0


@fused
def _clear(out, channels, cover):  # type: ignore[no-untyped-def]
    zero = cover.dtype.type(0.0)
    cover[:] = zero
    for c in range(channels):
        out[c, :] = zero


@fused
def write_pixels(strip, first, width):  # type: ignore[no-untyped-def]
    """Write what a strip's pixels have whatever the sample: their columns from ``first`` on, their rows from 0, and ones."""
    noinline()
    us, vs, ones = strip[4], strip[5], strip[8]
    for u in range(len(us)):
        us[u], vs[u], ones[u] = first + u % width, u // width, 1


@fused
def strip_at(meta, r):  # type: ignore[no-untyped-def]
    """Where a strip lies: (sample, first row, first column, columns). Strips go down a block of columns, then to the next."""
    strips = (meta[OUT_HEIGHT] + meta[STRIP] - 1) // meta[STRIP]
    b, k = r // (strips * meta[BLOCKS]), r % (strips * meta[BLOCKS])
    first = k // strips * meta[BLOCK]
    return b, k % strips * meta[STRIP], first, min(meta[BLOCK], meta[OUT_WIDTH] - first)


@fused
def store_strip(source, target, first, at, width, step, rows):  # type: ignore[no-untyped-def]
    """Copy a strip, rows of ``width`` pixels, to its place in the output, whose rows lie ``step`` apart."""
    noinline()
    for o in range(rows):
        lines = len(source[o]) // width
        for k in range(1 if width == step else lines):
            x, y = source[o][k * width :], target[first + o][at + k * step :]
            for u in range(lines * width if width == step else width):
                y[u] = x[u]


@fused
def load_strip(source, first, at, width, step, target, rows):  # type: ignore[no-untyped-def]
    """Copy a strip from its place in the output's gradient."""
    noinline()
    for o in range(rows):
        lines = len(target[o]) // width
        for k in range(1 if width == step else lines):
            x, y = source[first + o][at + k * step :], target[o][k * width :]
            for u in range(lines * width if width == step else width):
                y[u] = x[u]
