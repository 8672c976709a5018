"""A strip of output pixels: where it lies, what it reads, and the phases that forward and backward share.

Owns: the choice between copying, staging and laying out pixels apart, a strip's way in and out.
Must not: apply colour.
Read next: ``sweep.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.color.curves import NUMBERS
from pellucid.kernels.jit import fused, noinline
from pellucid.kernels.stages.chain import CURVE, FIRST_MIX, HUE, LAST_MIX, MATRIX, SECOND_MIX
from pellucid.kernels.warp.cpu.apart import add_apart, lay_apart
from pellucid.kernels.warp.cpu.coordinates import BORDER, FILLED, boxes, settle
from pellucid.kernels.warp.cpu.copies import copy_strip, moves_whole_pixels
from pellucid.kernels.warp.cpu.gather import LINE, gather_edge, gather_staged, weigh
from pellucid.kernels.warp.cpu.layout import Call
from pellucid.kernels.warp.cpu.links import find
from pellucid.kernels.warp.cpu.quads import soon_written
from pellucid.kernels.warp.cpu.scatter import scatter_edge, scatter_staged
from pellucid.kernels.warp.cpu.staged import choose_band, stage

__all__ = [
    "COLUMNS",
    "PLANE",
    "ROWS",
    "STAGED",
    "announce",
    "at_sample",
    "copy_pixels",
    "find_strip",
    "folds",
    "is_copy",
    "lay_out",
    "load_strip",
    "next_band",
    "parameter_places",
    "read_strip",
    "rule_of",
    "scatter_strip",
    "settle_strip",
    "store_strip",
    "strip_at",
    "write_pixels",
]

(ROWS, STAGED, LEFT, TOP, COLUMNS, LINES, PLANE, RING) = range(8)


@fused
def parameter_places(flags, channels, out_channels):  # type: ignore[no-untyped-def]
    """Where a sample's parameters lie: first matrix (or -1), first offset, hue_shift, second mix, curve, last mix, the canvases'
    fills.
    """
    matrix, offset = -1, 0
    if flags & MATRIX:
        matrix, offset = 0, out_channels * channels
    hue_shift = offset + 2 * out_channels if flags & FIRST_MIX else 0
    second = hue_shift + 1 if flags & HUE else hue_shift
    curve = second + out_channels * out_channels + 2 * out_channels if flags & SECOND_MIX else second
    last = curve + NUMBERS if flags & CURVE else curve
    fills = last + out_channels * out_channels + 2 * out_channels if flags & LAST_MIX else last
    return matrix, offset, hue_shift, second, curve, last, fills


@fused
def at_sample(call, pictures, b):  # type: ignore[no-untyped-def]
    """The call with what belongs to one sample."""
    row = pictures[b if len(pictures) > 1 else 0]
    return Call(
        row[0] + b * row[1], row[2] + b * row[3], row[4], row[5], row[6], row[7], row[8],
        call.channels, call.out_channels, call.out_height, call.out_width, call.taps, call.mode, call.projective, call.flags,
        call.map_step, call.window_step, call.param_step, call.field_step, call.strip, call.block, call.blocks, call.still,
        call.cubic, call.unit,
    )  # fmt: skip


@fused
def rule_of(call, window):  # type: ignore[no-untyped-def]
    """The border rule; a window clamps, whatever it is."""
    return BORDER if len(window) == 4 else call.mode


@fused
def folds(call, window):  # type: ignore[no-untyped-def]
    """Whether the border rule folds coordinates back; then pixels may lie too far outside to be laid out."""
    return (call.mode > BORDER) & (len(window) == 0)


@fused
def is_copy(call, m, fields, chain, window):  # type: ignore[no-untyped-def]
    """Whether a sample is copied rather than resampled."""
    shape, size = (call.height, call.width), (call.out_height, call.out_width)
    if chain is not None or (fields is not None and fields.size > 0):
        return False
    return moves_whole_pixels(m, call.projective, call.mode, window, shape, size)


@fused
def copy_pixels(img, call, unit, m, v, first, width, lines, out, place, cover):  # type: ignore[no-untyped-def]
    """Copy a strip of such a sample to a ``place`` in ``out``, and write its coverage; both as in ``copy_strip``."""
    shape, strides = (call.height, call.width), (call.stride_c, call.stride_y, call.stride_x)
    copy_strip(
        img, call.base, call.channels, shape, strides, unit, m, v, first, width, lines, out, place, cover
    )  # fmt: skip


@fused
def next_band(img, call, unit, m, fields, chain, window, b, v, last, strip, index, own, frame, quad, reads):  # type: ignore[no-untyped-def]
    """Choose the next band of a sample, rows v to ``last`` at most, and stage it if it is to be read."""
    noinline()
    shape = (call.height, call.width)
    _, _, held = boxes(shape, call.taps, call.mode, window, strip.dtype.type)
    planes = (call.channels + 2) // 3
    rule = rule_of(call, window)
    choose_band(call, m, fields, chain, b, rule, v, last, planes, len(quad), strip, index, own, held, frame)
    if frame[STAGED] == 1 and reads:
        strides = (call.stride_c, call.stride_y, call.stride_x)
        stage(img, call.base, call.channels, shape, strides, unit, rule, frame, quad)


@fused
def find_strip(call, m, fields, chain, fills, window, b, v, first, width, strip, frame, kind, index, own):  # type: ignore[no-untyped-def]
    """As ``find`` and :func:`settle_strip` after it, in one loop where the map is affine and nothing else moves points."""
    if chain is None and fields is None:
        settle_strip(call, m, v, window, strip, frame, kind, index)
        return False
    cut = find(call, m, fields, chain, fills, b, v, first, width, strip, index, own)
    settle_strip(call, None, v, window, strip, frame, kind, index)
    return cut


@fused
def settle_strip(call, m, v, window, strip, frame, kind, index):  # type: ignore[no-untyped-def]
    """Classify a strip, and say where what each pixel reads is laid out. m is None where coordinates are known, else affine."""
    shape = (call.height, call.width)
    inner, outer, held = boxes(shape, call.taps, call.mode, window, strip.dtype.type)
    corner, lines = (frame[LEFT] - frame[RING], frame[TOP] - frame[RING]), (frame[LINES], frame[COLUMNS])
    settle(
        m, v, strip[4], strip[5], strip[0], strip[1], call.taps, inner, outer, held, shape, corner, lines, kind, index, strip[2],
        strip[3],
    )  # fmt: skip
    if frame[STAGED] == 0:
        for u in range(len(index)):
            index[u] = u * 4 * call.taps * call.taps


@fused
def lay_out(img, call, unit, base, window, strip, frame, kind, k, quad):  # type: ignore[no-untyped-def]
    """Where the pixels of channels 3 k to 3 k + 2 are, after laying out those that were not staged."""
    noinline()
    if frame[STAGED] == 1:
        return quad[k * frame[PLANE] :]
    shape, strides = (call.height, call.width), (call.stride_c, call.stride_y, call.stride_x)
    _, _, held = boxes(shape, call.taps, call.mode, window, strip.dtype.type)
    at, count = base + np.uint64(3 * k * call.stride_c), min(call.channels - 3 * k, 3)
    lay_apart(img, at, count, shape, strides, unit, rule_of(call, window), call.taps, held, strip[0], strip[1], kind, quad)
    return quad


@fused
def read_strip(img, call, parameter, unit, base, window, strip, frame, quad, cubics, quads, kind, index, out, edge, soon):  # type: ignore[no-untyped-def]
    """Read one settled strip into ``out``, and its coverage into the strip.

    Where ``cubics``, ``edge`` and ``soon``, as in ``gather_staged``, are None, what would need them is not compiled.
    """
    channels, cover = call.channels, strip[7]
    if cubics is not None and call.taps == 4:
        weigh(strip[2], strip[3], parameter, cubics)
    for k in range((channels + 2) // 3):
        pixels, rows = lay_out(img, call, unit, base, window, strip, frame, kind, k, quad), out[3 * k : min(3 * k + 3, channels)]
        gather_staged(pixels, frame[COLUMNS], call.taps, index, strip[2], strip[3], cubics, quads, rows, cover, soon)
    if cubics is not None and call.taps == 4 and rule_of(call, window) != FILLED:
        _cover_fully(kind, cover)
    if edge is not None and folds(call, window):
        tap_index, weight, slope = edge
        sc, sy, sx = np.uint64(call.stride_c), np.uint64(call.stride_y), np.uint64(call.stride_x)
        gather_edge(
            img, base, channels, (call.height, call.width), sc, sx, sy, unit, call.taps, parameter, call.mode, window, strip[0],
            strip[1], kind, tap_index, weight, slope, out, cover,
        )  # fmt: skip


@fused
def scatter_strip(  # type: ignore[no-untyped-def]
    img, call, parameter, unit, base, window, strip, frame, quad, into, cubics, quads, kind, index, needs, g, to_cover, nothing,
    along, to_image, owned, edge,
):  # fmt: skip
    """The adjoint of :func:`read_strip`: a settled strip's gradients of x and y, and of the image, as far as they were not staged.

    Args:
        into: of the stage, as in ``unstage``.
        along: along x and along y.
        nothing: zeros.
    """
    channels, shape, rule = call.channels, (call.height, call.width), rule_of(call, window)
    zero, size = strip.dtype.type(0.0), 4 * call.taps * call.taps * len(kind)
    staged = frame[STAGED] == 1
    along[:] = zero
    for k in range((channels + 2) // 3):
        count, pixels, found = min(channels - 3 * k, 3), quad, into
        if staged:
            pixels, found = quad[k * frame[PLANE] :], into[2 * k * frame[PLANE] :]
        else:
            if needs[1]:
                pixels = lay_out(img, call, unit, base, window, strip, frame, kind, k, quad)
            into[: 8 + 2 * size] = zero
        scatter_staged(
            pixels, found[8:], frame[COLUMNS], call.taps, needs, index, strip[2], strip[3], cubics, g[3 * k : 3 * k + count],
            to_cover if (k == 0) & (rule == FILLED) else nothing, quads, along[0], along[1],
        )  # fmt: skip
        if needs[0] and not staged:
            _, _, held = boxes(shape, call.taps, call.mode, window, strip.dtype.type)
            own = owned + 3 * k * call.height * call.width
            add_apart(into, count, shape, rule, call.taps, held, strip[0], strip[1], kind, quads, to_image, own)
    if edge is not None and folds(call, window):
        tap_index, weight, slope = edge
        strides = (call.stride_c, call.stride_y, call.stride_x)
        scatter_edge(
            img, base, strides, unit, to_image, np.uint64(owned), channels, shape, needs, call.taps, parameter, call.mode, window,
            strip[0], strip[1], kind, tap_index, weight, slope, g, to_cover, along[0], along[1],
        )  # fmt: skip


@fused
def _cover_fully(kind, cover):  # type: ignore[no-untyped-def]
    """Where nothing fades, the sum of weights is one but for rounding."""
    noinline()
    for u in range(len(cover)):
        cover[u] = 1 if kind[u] == 2 else 0


@fused
def write_pixels(strip, first, width):  # type: ignore[no-untyped-def]
    """Write what a strip's pixels have whatever the sample: their columns from ``first`` on, their rows from 0, and ones."""
    noinline()
    us, vs, ones = strip[4], strip[5], strip[8]
    for u in range(len(us)):
        us[u], vs[u], ones[u] = first + u % width, u // width, 1


@fused
def strip_at(call, r):  # type: ignore[no-untyped-def]
    """Where a strip lies: (sample, first row, first column, columns). Strips go down a block of columns, then to the next."""
    strips = (call.out_height + call.strip - 1) // call.strip
    b, k = r // (strips * call.blocks), r % (strips * call.blocks)
    first = k // strips * call.block
    return b, k % strips * call.strip, first, min(call.block, call.out_width - first)


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
def announce(target, first, at, width, step, lines, rows):  # type: ignore[no-untyped-def]
    """Ask for the memory of a strip's place in the output, or in its gradient."""
    noinline()
    for o in range(rows):
        row = target[first + o]
        for k in range(lines):
            for u in range(0, width, LINE // target.itemsize):
                soon_written(row, np.uint64(at + k * step + u))


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
