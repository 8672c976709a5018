"""The forward kernels: one block of output pixels per program, from the image to the finished colour; and labels.

Owns: the order of phases: coordinates, taps, first mix, hue, second mix, clip, last mix.
Must not: know of torch; ``launch.py`` passes pointers, strides and compile-time options.
Read next: ``stages.py``.
"""

from collections import namedtuple

import triton
import triton.language as tl

from pellucid.kernels.stages.printed.blocks import hue
from pellucid.kernels.warp.triton.axes import AXES, read_span
from pellucid.kernels.warp.triton.blocks import from_sample, store_planes, view
from pellucid.kernels.warp.triton.coordinates import FILLED, fold, program, settle
from pellucid.kernels.warp.triton.fixed import kernel
from pellucid.kernels.warp.triton.links import find
from pellucid.kernels.warp.triton.sampling import hold_in_window, read
from pellucid.kernels.warp.triton.spans import at_point, read_weighted
from pellucid.kernels.warp.triton.stages import (
    CLIP,
    FIRST_MIX,
    HUE,
    LAST_MIX,
    LEVELS,
    MATRIX,
    SECOND_MIX,
    clip,
    cover,
    lay_over,
    mix,
    mix_all,
)

__all__ = ["copy_labels", "forward", "source"]


Source = namedtuple("Source", "colour covered along_x along_y rise_x rise_y found held point")
"""What pixels read: colour, coverage, the slopes of both along x and along y, where, the window there, and antialiased points.
What does not apply is there, too, and means nothing.
"""


@triton.jit
def source(picture, given, u, v, drawn, SLOPES: tl.constexpr, S):  # type: ignore[no-untyped-def]
    """What pixels read, of which ``drawn`` are there; slopes only where SLOPES."""
    none = tl.zeros((S.P,), S.F)
    along_x, along_y, rise_x, rise_y, found, held, point = none, none, none, none, none, none, none
    if S.SPAN == AXES:
        colour, covered = read_span(picture, given, u, v, drawn, S)
    else:
        found = find(given, u, v, drawn, S)
        if S.SPAN:
            point = at_point(given, u, v, found, S)
            colour, covered = read_weighted(picture, given, point, found.usable, S)
        else:
            found, held = hold_in_window(given, found, S)
            colour, along_x, along_y, covered, rise_x, rise_y = read(picture, given, found, held, SLOPES, S)
    return Source(colour, covered, along_x, along_y, rise_x, rise_y, found, held, point)


@kernel
def forward(  # type: ignore[no-untyped-def]
    image, stride_b, stride_c, stride_y, stride_x, out,
    mapping, window, colors, field, table, field_b, field_c, field_y, field_x, height, width, out_height, out_width,
    map_step, window_step, param_step, table_step, rows, columns, sample, S: tl.constexpr,
):  # fmt: skip
    """Program (tile across, down, sample and group): K channels are read, N written; several groups where no stage mixes them."""
    given, u, v = program(
        mapping, window, colors, field, table, field_b, field_c, field_y, field_x, height, width, out_height, out_width,
        map_step, window_step, param_step, table_step, rows, columns, sample, S,
    )  # fmt: skip
    drawn = (u < out_width) & (v < out_height)
    read = source(view(image, given, stride_b, stride_c, stride_y, stride_x, S.NEAR, S), given, u, v, drawn, False, S)
    colour, p = read.colour, given.colors
    if FIRST_MIX & S.FLAGS:
        if MATRIX & S.FLAGS:
            colour = mix(p, colour, S.OC, S.C)
        colour = cover(p + S.SLOTS[0], colour, read.covered, given.first, S)
    if S.LINKS:
        colour = lay_over(colour, read.found, p, given.first, S)
    if HUE & S.FLAGS:
        colour = hue(tl.load(p + S.SLOTS[1]), colour)
    if SECOND_MIX & S.FLAGS:
        colour = mix_all(p + S.SLOTS[2], colour, S)
    if CLIP & S.FLAGS:
        colour = clip(colour)
    if LAST_MIX & S.FLAGS:
        colour = mix_all(p + S.SLOTS[3], colour, S)
    STEPS: tl.constexpr = 1.0 if LEVELS & S.FLAGS else 255.0
    place = u, v, drawn, out_height, out_width
    store_planes(out, given.b * S.OC + given.first, place, given.first, colour, S.OC, S, S.GROUPS, STEPS)


@kernel
def copy_labels(  # type: ignore[no-untyped-def]
    image, stride_b, stride_c, stride_y, stride_x, out,
    mapping, window, colors, field, table, field_b, field_c, field_y, field_x, height, width, out_height, out_width,
    map_step, window_step, param_step, table_step, rows, columns, sample, S: tl.constexpr,
):  # fmt: skip
    """Program (tile across, down, sample and channel): every output pixel is a copy of its nearest input pixel, or of the fill
    (``colors``).
    """
    given, u, v = program(
        mapping, window, colors, field, table, field_b, field_c, field_y, field_x, height, width, out_height, out_width,
        map_step, window_step, param_step, table_step, rows, columns, sample, S,
    )  # fmt: skip
    drawn = (u < out_width) & (v < out_height)
    found, frame = hold_in_window(given, find(given, u, v, drawn, S), S)
    ix, _, _ = settle(found.x, frame[0], frame[2], width, 1, S.EDGE, S.WINDOW)
    iy, _, _ = settle(found.y, frame[1], frame[3], height, 1, S.EDGE, S.WINDOW)
    usable = found.usable
    if S.EDGE == FILLED:
        usable = usable & (ix >= 0) & (ix < width) & (iy >= 0) & (iy < height)
    picture = view(image, given, stride_b, stride_c, stride_y, stride_x, 0, S)
    at = fold(iy, height, S.EDGE).to(S.INDEX) * picture.step_y + fold(ix, width, S.EDGE).to(S.INDEX) * picture.step_x
    value = tl.where(usable, tl.load(picture.pixels + at, mask=usable, other=0), tl.load(given.colors + given.first))
    plane = out_width.to(S.INDEX) * out_height
    tl.store(from_sample(out, given.b * S.C + given.first, plane) + (v.to(S.INDEX) * out_width + u), value, mask=drawn)
