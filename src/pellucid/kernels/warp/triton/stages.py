"""Colour on a block of pixels, forward and backward: channel mixes, the hue rotation, the clip.

Owns: the arithmetic of ``color.mix.compose`` and ``color.hsv.shift_hue`` with the same choices at grey and at ties.
Must not: read the image.
Read next: ``gradients.py``.
"""

import triton
import triton.language as tl

from pellucid.color import hsv
from pellucid.kernels.stages import chain

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
    "hue",
    "hue_backward",
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
FAINT = tl.constexpr(hsv.FAINT)


@triton.jit
def fused(number, block, total):  # type: ignore[no-untyped-def]
    """Number * block + total, rounded once; the number is one for all pixels."""
    return tl.fma(tl.broadcast_to(number, block.shape).to(block.dtype), block, total)


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
def unmixed(p, g, C: tl.constexpr, OC: tl.constexpr, FLAGS: tl.constexpr):  # type: ignore[no-untyped-def]
    """A source's gradient from the output's, through the mixes that FLAGS name of a sample's parameters p; no other stage."""
    matrix_at: tl.constexpr = (OC * C if MATRIX & FLAGS else 0) + (2 * OC if FIRST_MIX & FLAGS else 0)
    if LAST_MIX & FLAGS:
        g = unmix(p + matrix_at + (OC * OC + 2 * OC if SECOND_MIX & FLAGS else 0), g, OC, OC)
    if SECOND_MIX & FLAGS:
        g = unmix(p + matrix_at, g, OC, OC)
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
        held = held + (clipped(x[c]),)
    return held


@triton.jit
def clip_backward(x, g, N: tl.constexpr):  # type: ignore[no-untyped-def]
    """Zero where the clip's input lay outside [0, 1]; the ends count as inside, as in ``torch.clamp``."""
    passed = ()
    for c in tl.static_range(N):
        passed = passed + (tl.where((x[c] >= 0.0) & (x[c] <= 1.0), g[c], 0.0),)
    return passed


@triton.jit
def wave(k):  # type: ignore[no-untyped-def]
    """(the falling and rising side of a channel's hexagon before clipping, whether it rises) for a hue in sixths plus its start."""
    turned = tl.fma(tl.full(k.shape, -6.0, k.dtype), tl.floor(k * (1.0 / 6.0)), k)
    return tl.minimum(turned, 4.0 - turned), turned < 2.0


@triton.jit
def clipped(x):  # type: ignore[no-untyped-def]
    """Within [0, 1]; NaN stays."""
    return tl.minimum(tl.maximum(x, 0.0, tl.PropagateNan.ALL), 1.0, tl.PropagateNan.ALL)


@triton.jit
def largest(a, b, c):  # type: ignore[no-untyped-def]
    """Of three channels; NaN where one is. Without the word a GPU takes the other number, while the interpreter gives NaN."""
    return tl.maximum(tl.maximum(a, b, tl.PropagateNan.ALL), c, tl.PropagateNan.ALL)


@triton.jit
def smallest(a, b, c):  # type: ignore[no-untyped-def]
    """Of three channels; NaN where one is."""
    return tl.minimum(tl.minimum(a, b, tl.PropagateNan.ALL), c, tl.PropagateNan.ALL)


@triton.jit
def _sides(x, hue_shift):  # type: ignore[no-untyped-def]
    """(the largest and smallest of three channels; whether they are grey, the first is largest, the second is; 1 over the chroma;
    the hue in sixths from the largest channel's corner; `wave` of each channel).
    """
    r, g, b = x[0], x[1], x[2]
    value, low = largest(r, g, b), smallest(r, g, b)
    chroma = value - low
    grey, is_red, is_green = chroma < FAINT, value == r, value == g
    scale = 1.0 / tl.where(grey, 1.0, chroma)
    offset = tl.where(is_red, g - b, tl.where(is_green, b - r, r - g)) * scale
    start = tl.where(is_red, 0.0, tl.where(is_green, 2.0, 4.0))
    h = tl.where(grey, 0.0, start + offset) + 6.0 * hue_shift
    taken0, rises0 = wave(h + 5.0)
    taken1, rises1 = wave(h + 3.0)
    taken2, rises2 = wave(h + 1.0)
    return value, low, grey, is_red, is_green, scale, offset, taken0, rises0, taken1, rises1, taken2, rises2


@triton.jit
def hue(x, hue_shift):  # type: ignore[no-untyped-def]
    """Rotate the hue of three channels."""
    value, low, _, _, _, _, _, taken0, _, taken1, _, taken2, _ = _sides(x, hue_shift)
    fall = low - value
    return tl.fma(fall, clipped(taken0), value), tl.fma(fall, clipped(taken1), value), tl.fma(fall, clipped(taken2), value)


@triton.jit
def along_side(g, taken, rises):  # type: ignore[no-untyped-def]
    """The gradient g of a clipped side as that of the hue."""
    return tl.where(clipped(taken) == taken, tl.where(rises, g, -g), 0.0)


@triton.jit
def shared_by(where0, where1, where2):  # type: ignore[no-untyped-def]
    """1 over how many of three conditions hold, of which one does."""
    two = (where0 & where1) | (where1 & where2) | (where0 & where2)
    return tl.where(where0 & where1 & where2, 1.0 / 3.0, tl.where(two, 0.5, 1.0))


@triton.jit
def hue_backward(x, upstream, hue_shift):  # type: ignore[no-untyped-def]
    """(gradient of the three channels x, gradient of 6 * hue_shift per pixel)."""
    r, g, b = x[0], x[1], x[2]
    a0, a1, a2 = upstream[0], upstream[1], upstream[2]
    value, low, grey, is_red, is_green, scale, offset, taken0, rises0, taken1, rises1, taken2, rises2 = _sides(x, hue_shift)
    along = (low - value) * (along_side(a0, taken0, rises0) + along_side(a1, taken1, rises1) + along_side(a2, taken2, rises2))
    to_offset = tl.where(grey, 0.0, along * scale)
    to_low = tl.fma(a0, clipped(taken0), tl.fma(a1, clipped(taken1), tl.fma(a2, clipped(taken2), to_offset * offset)))
    # A tie shares the gradient of the largest (smallest) channel evenly, as torch's amax and amin do.
    to_value = (a0 + a1 + a2 - to_low) * shared_by(r == value, g == value, b == value)
    to_low = to_low * shared_by(r == low, g == low, b == low)
    # The channel after the largest (in the order red, green, blue, red) raises the hue, the one before lowers it.
    to0 = tl.where(is_red, 0.0, tl.where(is_green, -to_offset, to_offset))
    to1 = tl.where(is_red, to_offset, tl.where(is_green, 0.0, -to_offset))
    to0 += tl.where(r == value, to_value, 0.0) + tl.where(r == low, to_low, 0.0)
    to1 += tl.where(g == value, to_value, 0.0) + tl.where(g == low, to_low, 0.0)
    to2 = tl.where(is_red, -to_offset, tl.where(is_green, to_offset, 0.0))
    to2 += tl.where(b == value, to_value, 0.0) + tl.where(b == low, to_low, 0.0)
    return (to0, to1, to2), along
