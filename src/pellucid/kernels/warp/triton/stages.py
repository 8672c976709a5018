"""Colour on a block of pixels, forward and backward: channel mixes and fills, of any number of channels.

Owns: the arithmetic of ``color.reference.compose``.
Must not: read the image.
Read next: ``gradients.py``.
"""

from collections import namedtuple

import triton
import triton.language as tl

from pellucid.kernels.lanes import fused
from pellucid.kernels.stages import chain
from pellucid.kernels.stages.printed.blocks import clip as clipped
from pellucid.kernels.stages.printed.blocks import clip_backward as to_clipped
from pellucid.kernels.stages.printed.blocks import hue

__all__ = [
    *("CLIP", "FIRST_MIX", "HUE", "LAST_MIX", "LEVELS", "MATRIX", "SECOND_MIX", "add_products", "clip", "clip_backward"),
    *("mix_all", "through", "to_covered", "to_ground", "unmix", "unmixed"),
]

MATRIX, FIRST_MIX, HUE = tl.constexpr(chain.MATRIX), tl.constexpr(chain.FIRST_MIX), tl.constexpr(chain.HUE)
SECOND_MIX, CLIP, LAST_MIX = tl.constexpr(chain.SECOND_MIX), tl.constexpr(chain.CLIP), tl.constexpr(chain.LAST_MIX)
LEVELS = tl.constexpr(chain.LEVELS)


@triton.jit
def mix(matrix, x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Matrix @ x, for a (ROWS, COLUMNS) matrix in memory."""
    mixed = ()
    for o in tl.static_range(ROWS):
        total = tl.load(matrix + o * COLUMNS) * x[0]
        for c in tl.static_range(1, COLUMNS):
            total = fused(tl.load(matrix + o * COLUMNS + c), x[c], total)
        mixed = mixed + (total,)
    return mixed


@triton.jit
def unmix(matrix, g, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Transposed matrix @ g."""
    mixed = ()
    for c in tl.static_range(COLUMNS):
        total = tl.load(matrix + c) * g[0]
        for o in tl.static_range(1, ROWS):
            total = fused(tl.load(matrix + o * COLUMNS + c), g[o], total)
        mixed = mixed + (total,)
    return mixed


@triton.jit
def unmixed(p, g, S):  # type: ignore[no-untyped-def]
    """A source's gradient from the output's, through the mixes that FLAGS name of a sample's parameters p; no other stage."""
    if LAST_MIX & S.FLAGS:
        g = unmix(p + S.SLOTS[3], g, S.OC, S.OC)
    if SECOND_MIX & S.FLAGS:
        g = unmix(p + S.SLOTS[2], g, S.OC, S.OC)
    if MATRIX & S.FLAGS:
        g = unmix(p, g, S.OC, S.C)
    return g


@triton.jit
def mix_all(p, x, S):  # type: ignore[no-untyped-def]
    """A mix of all OC channels at p: a matrix and an offset."""
    mixed, shifted = mix(p, x, S.OC, S.OC), ()
    for c in tl.static_range(S.OC):
        shifted = shifted + (mixed[c] + tl.load(p + S.OC * S.OC + c),)
    return shifted


@triton.jit
def _channel(p, first, c, S):  # type: ignore[no-untyped-def]
    """The number of channel first + c, of OC."""
    return tl.load(p + (tl.minimum(first + c, S.OC - 1) if S.GROUPS > 1 else c))


@triton.jit
def cover(p, x, covered, first, S):  # type: ignore[no-untyped-def]
    """X + offset * covered + fill * (1 - covered), for channels from ``first`` on; offset and fill lie at p."""
    shown = ()
    for c in tl.static_range(S.N):
        laid = fused(_channel(p, first, c, S), covered, x[c])
        shown = shown + (fused(_channel(p + S.OC, first, c, S), 1.0 - covered, laid),)
    return shown


@triton.jit
def to_covered(p, g, first, S):  # type: ignore[no-untyped-def]
    """The gradient of ``covered``."""
    total = tl.zeros((S.P,), S.F)
    for c in tl.static_range(S.N):
        total = fused(_channel(p, first, c, S) - _channel(p + S.OC, first, c, S), g[c], total)
    return total


@triton.jit
def lay_over(colour, found, p, first, S):  # type: ignore[no-untyped-def]
    """Blend the colour, by its share, over the fills of canvases, the last one's first; there are none unless GROUNDS."""
    laid = ()
    for c in tl.static_range(S.N):
        value = tl.where(found.share > 0.0, colour[c] * found.share if S.SOFT else colour[c], 0.0)
        if S.GROUNDS >= 0:
            for back in tl.static_range(S.LINKS):
                value = fused(_channel(p + S.GROUNDS + (S.LINKS - 1 - back) * S.OC, first, c, S), found.uncovered[back], value)
        laid = laid + (value,)
    return laid


Colours = namedtuple("Colours", "composed shown turned mixed")
"""A pixel's colours after the first mix, over the fills of canvases, after the hue, and after the second mix (the clip's input)."""


@triton.jit
def through(colour, covered, found, p, first, S):  # type: ignore[no-untyped-def]
    """The chain of stages up to the clip."""
    if FIRST_MIX & S.FLAGS:
        if MATRIX & S.FLAGS:
            colour = mix(p, colour, S.OC, S.C)
        colour = cover(p + S.SLOTS[0], colour, covered, first, S)
    shown = lay_over(colour, found, p, first, S) if S.LINKS else colour
    turned = hue(tl.load(p + S.SLOTS[1]), shown) if HUE & S.FLAGS else shown
    return Colours(colour, shown, turned, mix_all(p + S.SLOTS[2], turned, S) if SECOND_MIX & S.FLAGS else turned)


@triton.jit
def to_ground(fill, g, first, S):  # type: ignore[no-untyped-def]
    """The gradient of the share that a canvas leaves uncovered."""
    total = tl.zeros((S.P,), S.F)
    for c in tl.static_range(S.N):
        total = fused(_channel(fill, first, c, S), g[c], total)
    return total


@triton.jit
def add_products(totals, g, x):  # type: ignore[no-untyped-def]
    """Totals + g x^T, row by row: a matrix's gradient."""
    sums = ()
    for o in tl.static_range(len(g)):
        for c in tl.static_range(len(x)):
            sums = sums + (tl.fma(g[o], x[c], totals[o * len(x) + c]),)
    return sums


@triton.jit
def clip(x):  # type: ignore[no-untyped-def]
    """Clip every channel to [0, 1]."""
    held = ()
    for c in tl.static_range(len(x)):
        held = held + clipped((x[c],))
    return held


@triton.jit
def clip_backward(x, g):  # type: ignore[no-untyped-def]
    """Zero where the clip's input lay outside [0, 1]; the ends count as inside, as in ``torch.clamp``."""
    passed = ()
    for c in tl.static_range(len(x)):
        passed = passed + to_clipped((x[c],), (g[c],))
    return passed
