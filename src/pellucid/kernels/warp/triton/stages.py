"""Colour on a block of pixels, forward and backward: channel mixes and fills, of any number of channels.

Owns: the arithmetic of ``color.mix.compose``.
Must not: read the image.
Read next: ``gradients.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.lanes import fused
from pellucid.kernels.stages import chain
from pellucid.kernels.stages.printed.blocks import clip as clipped
from pellucid.kernels.stages.printed.blocks import clip_backward as to_clipped

__all__ = [
    "CLIP",
    "FIRST_MIX",
    "HUE",
    "LAST_MIX",
    "LEVELS",
    "MATRIX",
    "SECOND_MIX",
    "add_products",
    "clip",
    "clip_backward",
    "cover",
    "lay_over",
    "mix",
    "shift",
    "to_covered",
    "to_ground",
    "unmix",
    "unmixed",
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
def unmixed(p, g, C: tl.constexpr, OC: tl.constexpr, FLAGS: tl.constexpr, SLOTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """A source's gradient from the output's, through the mixes that FLAGS name of a sample's parameters p; no other stage."""
    if LAST_MIX & FLAGS:
        g = unmix(p + SLOTS[3], g, OC, OC)
    if SECOND_MIX & FLAGS:
        g = unmix(p + SLOTS[2], g, OC, OC)
    if MATRIX & FLAGS:
        g = unmix(p, g, OC, C)
    return g


@triton.jit
def shift(offset, x, N: tl.constexpr):  # type: ignore[no-untyped-def]
    """X + offset, for N channels."""
    shifted = ()
    for c in tl.static_range(N):
        shifted = shifted + (x[c] + tl.load(offset + c),)
    return shifted


@triton.jit
def cover(offset, fill, x, covered, first, COUNT: tl.constexpr, GROUPS: tl.constexpr, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """X + offset * covered + fill * (1 - covered), for channels first ... first + K - 1 of COUNT."""
    shown = ()
    for c in tl.static_range(K):
        at = tl.minimum(first + c, COUNT - 1) if GROUPS > 1 else c
        shown = shown + (fused(tl.load(fill + at), 1.0 - covered, fused(tl.load(offset + at), covered, x[c])),)
    return shown


@triton.jit
def to_covered(offset, fill, g, first, COUNT: tl.constexpr, GROUPS: tl.constexpr, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """The gradient of ``covered``."""
    total = tl.zeros(g[0].shape, g[0].dtype)
    for c in tl.static_range(K):
        at = tl.minimum(first + c, COUNT - 1) if GROUPS > 1 else c
        total = fused(tl.load(offset + at) - tl.load(fill + at), g[c], total)
    return total


@triton.jit
def lay_over(  # type: ignore[no-untyped-def]
    found, share, uncovered, fills, first, LINKS: tl.constexpr, SOFT: tl.constexpr, FILLS: tl.constexpr, COUNT: tl.constexpr,
    GROUPS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """What the source gave by its share, over the fills of LINKS canvases (none unless FILLS); ``uncovered`` begins with the last.
    SOFT: shares are not 0 and 1 alone.
    """
    laid = ()
    for c in tl.static_range(K):
        value = tl.where(share > 0.0, found[c] * share if SOFT else found[c], 0.0)
        if FILLS:
            at = tl.minimum(first + c, COUNT - 1) if GROUPS > 1 else c
            for back in tl.static_range(LINKS):
                value = fused(tl.load(fills + (LINKS - 1 - back) * COUNT + at), uncovered[back], value)
        laid = laid + (value,)
    return laid


@triton.jit
def to_ground(fill, g, first, COUNT: tl.constexpr, GROUPS: tl.constexpr, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """The gradient of what a canvas leaves uncovered."""
    total = tl.zeros(g[0].shape, g[0].dtype)
    for c in tl.static_range(K):
        at = tl.minimum(first + c, COUNT - 1) if GROUPS > 1 else c
        total = fused(tl.load(fill + at), g[c], total)
    return total


@triton.jit
def add_products(totals, g, x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Totals + g x^T, row by row: a matrix's gradient."""
    sums = ()
    for o in tl.static_range(ROWS):
        for c in tl.static_range(COLUMNS):
            sums = sums + (tl.fma(g[o], x[c], totals[o * COLUMNS + c]),)
    return sums


@triton.jit
def clip(x, N: tl.constexpr):  # type: ignore[no-untyped-def]
    """Every channel within [0, 1]."""
    held = ()
    for c in tl.static_range(N):
        held = held + clipped((x[c],))
    return held


@triton.jit
def clip_backward(x, g, N: tl.constexpr):  # type: ignore[no-untyped-def]
    """Zero where the clip's input lay outside [0, 1]; the ends count as inside, as in ``torch.clamp``."""
    passed = ()
    for c in tl.static_range(N):
        passed = passed + to_clipped((x[c],), (g[c],))
    return passed
