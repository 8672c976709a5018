"""A strip of output pixels: where it lies, what it reads, and the phases that forward and backward share.

Owns: the choice between copying, staging, and copying the pixels around each point; reading a strip, and its adjoint.
Must not: apply colour.
Read next: ``sweep.py``.
"""

import numpy as np

from pellucid.kernels.jit import fused
from pellucid.kernels.warp.cpu import layout
from pellucid.kernels.warp.cpu.apart import add_apart, lay_apart
from pellucid.kernels.warp.cpu.coordinates import FILLED, rule_of, settle
from pellucid.kernels.warp.cpu.copies import moves_whole_pixels
from pellucid.kernels.warp.cpu.footprint import read_table
from pellucid.kernels.warp.cpu.gather import LINE, gather_staged, scatter_staged, weigh
from pellucid.kernels.warp.cpu.links import find
from pellucid.kernels.warp.cpu.quads import soon_written
from pellucid.kernels.warp.cpu.staged import choose_band, stage
from pellucid.kernels.warp.cpu.stretched import read_stretched

__all__ = [
    *("announce", "at_sample", "cut_out", "find_strip", "is_copy", "lay_out", "next_band"),
    *("place_of", "quads_of", "read_strip", "read_whole", "sample_of", "scatter_strip", "spot_of", "write_pixels"),
]


@fused.inlined
def at_sample(call, pictures, b):  # type: ignore[no-untyped-def]
    """The call with the numbers of one sample filled in."""
    row = pictures[b if len(pictures) > 1 else 0]
    return layout.Call(
        row[0] + b * row[1], row[2] + b * row[3], row[4], row[5], row[6], row[7], row[8],
        call.channels, call.out_channels, call.out_height, call.out_width, call.taps, call.mode, call.projective,
        call.map_step, call.window_step, call.param_step, call.field_step, call.strip, call.block, call.blocks, call.still,
        call.cubic, call.unit,
    )  # fmt: skip


@fused.inlined
def sample_of(call, rows, b):  # type: ignore[no-untyped-def]
    """A sample's numbers."""
    p = rows.params[b * call.param_step]
    fills = p[rows.colors.fills :] if rows.colors.grounds > 0 else p[:0]
    return layout.Sample(rows.maps[b * call.map_step], rows.windows[b * call.window_step], p, fills)


@fused
def spot_of(call, r):  # type: ignore[no-untyped-def]
    """Where strip r lies. Strips go down a block of columns, then to the next."""
    strips = (call.out_height + call.strip - 1) // call.strip
    b, k = r // (strips * call.blocks), r % (strips * call.blocks)
    first = k // strips * call.block
    return layout.Spot(b, k % strips * call.strip, first, min(call.block, call.out_width - first))


@fused
def place_of(call, spot):  # type: ignore[no-untyped-def]
    """Where a strip lies in the output, as `store` takes it."""
    return spot.b * call.out_channels, spot.v * call.out_width + spot.first, spot.width, call.out_width


@fused.inlined
def cut_out(room, n):  # type: ignore[no-untyped-def]
    """A strip of n pixels in a thread's memory."""
    height = room.rows.height
    rows = room.floats[: n * height].reshape(height, n)  # contiguous rows, or nothing is vectorised
    return layout.Strip(rows, room.seen[:n], room.index[:n], room.frame, room.quad, room.into, rows[room.rows.canvases :])


@fused
def quads_of(strip):  # type: ignore[no-untyped-def]
    """Scratch for pixels of four numbers."""
    return strip.rows[layout.QUADS : layout.SHARED].reshape(-1)


@fused
def is_copy(call, sample, fields, chain):  # type: ignore[no-untyped-def]
    """Whether a sample is copied rather than resampled."""
    shape, size = (call.height, call.width), (call.out_height, call.out_width)
    if chain is not None or (fields is not None and fields.size > 0):
        return False
    return moves_whole_pixels(sample.m, call.projective, call.mode, sample.window, shape, size)


@fused.noinline
def next_band(img, call, sample, fields, chain, spot, last, strip, reads):  # type: ignore[no-untyped-def]
    """Choose the next band of a sample, from the spot's row to ``last`` at most, and stage it if it is to be read."""
    choose_band(call, sample, fields, chain, spot, last, strip)
    if strip.frame[layout.STAGED] == 1 and reads:
        stage(img, call, rule_of(call, sample.window), strip.frame, strip.quad)


@fused.inlined
def find_strip(call, sample, fields, chain, tables, shapes, spot, strip):  # type: ignore[no-untyped-def]
    """Find where a strip reads, as `find`, and unless it has footprints which pixels see anything, as `settle`."""
    cut = find(call, sample.m, sample.fills, fields, chain, spot, strip)
    if tables is None and shapes is None:
        settle(call, sample.window, strip)
    return cut


@fused.inlined
def read_whole(img, call, sample, tables, shapes, spot, strip, cubics, out, soon):  # type: ignore[no-untyped-def]
    """Read what :func:`find_strip` found, with or without footprints, into ``out``; and its coverage."""
    if tables is not None:
        read_table(img, call, tables, spot.b, strip, out)
    elif shapes is not None:
        read_stretched(img, call, shapes, spot, strip, out)
    else:
        read_strip(img, call, sample.window, strip, cubics, out, soon)


@fused.noinline
def lay_out(img, call, window, strip, k):  # type: ignore[no-untyped-def]
    """The pixels of channels 3 k to 3 k + 2 in the stage; if they were not staged, those around each point, copied now."""
    if strip.frame[layout.STAGED] == 1:
        return strip.quad[k * strip.frame[layout.PLANE] :]
    lay_apart(img, call, k, window, strip)
    return strip.quad


@fused.inlined
def read_strip(img, call, window, strip, cubics, out, soon):  # type: ignore[no-untyped-def]
    """Read one settled strip into ``out``, and its coverage into the strip.

    Where ``cubics`` and ``soon``, as in ``gather_staged``, are None, code that needs them is not compiled.
    """
    rows, channels, columns = strip.rows, call.channels, strip.frame[layout.COLUMNS]
    tx, ty, cover = rows[layout.ACROSS], rows[layout.DOWN], rows[layout.COVER]
    if cubics is not None:
        weigh(tx, ty, call.cubic, cubics)
    for k in range((channels + 2) // 3):
        pixels, part = lay_out(img, call, window, strip, k), out[3 * k : min(3 * k + 3, channels)]
        gather_staged(pixels, columns, call.taps, strip.index, tx, ty, cubics, quads_of(strip), part, cover, soon)
    if cubics is not None and rule_of(call, window) != FILLED:
        _cover_fully(strip.seen, cover)


@fused.inlined
def scatter_strip(img, call, window, strip, cubics, needs, g, to_cover, nothing, to_image, along):  # type: ignore[no-untyped-def]
    """The adjoint of :func:`read_strip`: a settled strip's gradients of x and y, and of the image, or of the stage if it is staged.

    Args:
        nothing: zeros.
        along: along x and along y.
    """
    channels, rule, shares = call.channels, rule_of(call, window), (strip.rows[layout.ACROSS], strip.rows[layout.DOWN])
    zero, size, quads, frame = strip.rows.dtype.type(0.0), 4 * call.taps * call.taps * len(strip.seen), quads_of(strip), strip.frame
    staged = frame[layout.STAGED] == 1
    along[:] = zero
    for k in range((channels + 2) // 3):
        pixels, found, part = strip.quad, strip.into, g[3 * k : min(3 * k + 3, channels)]
        if staged:
            pixels, found = strip.quad[k * frame[layout.PLANE] :], strip.into[2 * k * frame[layout.PLANE] :]
        else:
            if needs[1]:
                pixels = lay_out(img, call, window, strip, k)
            strip.into[: 8 + 2 * size] = zero
        covered = to_cover if (k == 0) & (rule == FILLED) else nothing
        stage = pixels, found[8:], frame[layout.COLUMNS], strip.index
        scatter_staged(stage, call.taps, needs, shares, cubics, part, covered, quads, along)
        if needs[0] and not staged:
            add_apart(call, k, window, strip, quads, to_image)


@fused.noinline
def _cover_fully(seen, cover):  # type: ignore[no-untyped-def]
    """Write a coverage of 1 for pixels that see anything: where nothing fades, weights sum to 1 but for rounding."""
    for u in range(len(cover)):
        cover[u] = seen[u]


@fused.noinline
def write_pixels(rows, spot):  # type: ignore[no-untyped-def]
    """Write the rows of a strip that do not depend on the sample: its pixels' columns, their rows from 0, and ones."""
    us, vs, ones, first, width = rows[layout.US], rows[layout.VS], rows[layout.ONES], spot.first, spot.width
    for u in range(len(us)):
        us[u], vs[u], ones[u] = first + u % width, u // width, 1


@fused.noinline
def announce(target, place, lines, rows):  # type: ignore[no-untyped-def]
    """Prefetch the memory of a strip's ``place`` (as `store` takes it) in the output, or in its gradient."""
    first, at, width, step = place
    for o in range(rows):
        row = target[first + o]
        for k in range(lines):
            for u in range(0, width, LINE // target.itemsize):
                soon_written(row, np.uint64(at + k * step + u))
