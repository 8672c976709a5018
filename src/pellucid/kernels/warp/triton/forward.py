"""The forward kernels: one block of output pixels per program, from the image to the finished colour; and labels.

Owns: the order of phases: coordinates, taps, first mix, hue, second mix, clip, last mix.
Must not: know of torch; ``launch.py`` passes pointers, strides and compile-time options.
Read next: ``stages.py``.
"""

from collections import namedtuple

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.axes import AXES, read_span
from pellucid.kernels.warp.triton.blocks import from_sample, store_planes, view
from pellucid.kernels.warp.triton.coordinates import FILLED, fold, pixels, settle
from pellucid.kernels.warp.triton.links import find
from pellucid.kernels.warp.triton.sampling import hold_in_window, read
from pellucid.kernels.warp.triton.spans import at_point, read_weighted
from pellucid.kernels.warp.triton.stages import CLIP, LAST_MIX, LEVELS, clip, mix_all, through

__all__ = ["copy_labels", "forward", "source"]


Source = namedtuple("Source", "colour covered along_x along_y rise_x rise_y found held point")
"""What pixels read: colour, coverage, the slopes of both along x and along y, where, the window there, and antialiased points.
Fields that do not apply are filled, too, and mean nothing.
"""


@triton.jit
def source(picture, given, u, v, drawn, SLOPES: tl.constexpr, S):  # type: ignore[no-untyped-def]
    """Read pixels, of which those in ``drawn`` exist; slopes only where SLOPES."""
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


@pixels
def forward(image, out, given, u, v, S: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program (tile across, down, sample and group): K channels are read, N written; several groups where no stage mixes them."""
    out_height, out_width = given.out_height, given.out_width
    drawn = (u < out_width) & (v < out_height)
    read = source(view(image, given, S.NEAR, S), given, u, v, drawn, False, S)
    colour = through(read.colour, read.covered, read.found, given.colors, given.first, S).mixed
    if CLIP & S.FLAGS:
        colour = clip(colour)
    if LAST_MIX & S.FLAGS:
        colour = mix_all(given.colors + S.SLOTS[3], colour, S)
    STEPS: tl.constexpr = 1.0 if LEVELS & S.FLAGS else 255.0
    place = u, v, drawn, out_height, out_width
    store_planes(out, given.b * S.OC + given.first, place, given.first, colour, S.OC, S, S.GROUPS, STEPS)


@pixels
def copy_labels(image, out, given, u, v, S: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program (tile across, down, sample and channel): every output pixel is a copy of its nearest input pixel, or of the fill
    (``colors``).
    """
    height, width, out_height, out_width = given.height, given.width, given.out_height, given.out_width
    drawn = (u < out_width) & (v < out_height)
    found, frame = hold_in_window(given, find(given, u, v, drawn, S), S)
    ix, _, _ = settle(found.x, frame[0], frame[2], width, 1, S.EDGE, S.WINDOW)
    iy, _, _ = settle(found.y, frame[1], frame[3], height, 1, S.EDGE, S.WINDOW)
    usable = found.usable
    if S.EDGE == FILLED:
        usable = usable & (ix >= 0) & (ix < width) & (iy >= 0) & (iy < height)
    picture = view(image, given, 0, S)
    at = fold(iy, height, S.EDGE).to(S.INDEX) * picture.step_y + fold(ix, width, S.EDGE).to(S.INDEX) * picture.step_x
    value = tl.where(usable, tl.load(picture.pixels + at, mask=usable, other=0), tl.load(given.colors + given.first))
    plane = out_width.to(S.INDEX) * out_height
    tl.store(from_sample(out, given.b * S.C + given.first, plane) + (v.to(S.INDEX) * out_width + u), value, mask=drawn)
