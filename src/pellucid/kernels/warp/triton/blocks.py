"""Colours of a block of pixels: tuples of one block (P pixels) per channel, so that a thread holds all channels of its pixels.

Owns: loading, storing, starting and summing such tuples; and numbers in fixed point.
Must not: know what they mean.
Read next: ``stages.py``.
"""

from collections import namedtuple

import triton
import triton.language as tl

__all__ = [
    *("View", "add_scaled", "dot", "exists", "from_sample", "load_at", "load_channels", "only", "scaled"),
    *("some", "store_channels", "store_planes", "store_sums", "to_fixed", "view", "zeros"),
]


@triton.jit
def zeros(N: tl.constexpr, P: tl.constexpr, F: tl.constexpr):  # type: ignore[no-untyped-def]
    """N blocks of zeros."""
    blocks = ()
    for _ in tl.static_range(N):
        blocks = blocks + (tl.zeros((P,), F),)
    return blocks


@triton.jit
def exists(lane, channel, COUNT: tl.constexpr, GROUPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The lanes in which a channel is one of COUNT; every channel of a single group is."""
    if GROUPS > 1:
        lane = lane & (tl.zeros(lane.shape, tl.int32) + channel < COUNT)
    return lane


@triton.jit
def from_sample(pointer, sample, step):  # type: ignore[no-untyped-def]
    """A pointer ``sample`` steps on. Two numbers of 32 bits have a product of 64, which is one instruction."""
    return pointer + sample.to(tl.int64) * step.to(tl.int64)


View = namedtuple("View", "pixels step_c step_y step_x first")
"""A sample's planes from channel ``first`` on: where they begin, and steps to the next channel, row and column."""


@triton.jit
def view(planes, given, NEAR: tl.constexpr, S):  # type: ignore[no-untyped-def]
    """The planes of a program's sample and group, from a pointer and four steps. NEAR: what is adjacent there, as in `Fixed`."""
    pointer, step_b, step_c, step_y, step_x = planes
    pixels = from_sample(pointer, given.b, step_b) + given.first.to(S.INDEX) * step_c
    across = 1 if NEAR == 1 else (S.C if NEAR == 2 else step_x.to(S.INDEX))
    return View(pixels, 1 if NEAR == 2 else step_c.to(S.INDEX), step_y.to(S.INDEX), across, given.first)


@triton.jit
def load_channels(  # type: ignore[no-untyped-def]
    pixels, stride, lane, first, COUNT: tl.constexpr, GROUPS: tl.constexpr, K: tl.constexpr, F: tl.constexpr
):
    """Channels first ... first + K - 1 of COUNT, of which the first lies at ``pixels``; zero where not in ``lane``."""
    blocks = ()
    for c in tl.static_range(K):
        seen = exists(lane, first + c, COUNT, GROUPS)
        blocks = blocks + (tl.load(pixels + c * stride, mask=seen, other=0).to(F),)
    return blocks


@triton.jit
def load_at(planes, row, column, lane, COUNT: tl.constexpr, K: tl.constexpr, S):  # type: ignore[no-untyped-def]
    """K channels, of COUNT, of the pixels at (row, column) of a `View`; zero where not in ``lane``."""
    pixels = planes.pixels + (row.to(S.INDEX) * planes.step_y + column.to(S.INDEX) * planes.step_x)
    return load_channels(pixels, planes.step_c, lane, planes.first, COUNT, S.GROUPS, K, S.F)


@triton.jit
def _stored(value, D: tl.constexpr, STEPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Values as elements of dtype D; 8 bits hold STEPS times the value, clipped and rounded half to even, and 0 for NaN."""
    if D == tl.uint8:
        # Adding and taking away 1.5 * 2^23 (2^52 in double) leaves whole numbers, as the unit in the last place there is 1.
        FAR: tl.constexpr = 12582912.0 if value.dtype == tl.float32 else 6755399441055744.0
        value = value * STEPS
        value = tl.minimum(tl.where(value > 0.0, value, 0.0), 255.0)
        value = (value + FAR) - FAR
    return value.to(D)


@triton.jit
def store_channels(  # type: ignore[no-untyped-def]
    pixels, stride, lane, first, blocks, COUNT: tl.constexpr, GROUPS: tl.constexpr, STEPS: tl.constexpr = 255.0
):
    """Write the blocks to ``pixels`` as channels from ``first`` on, of COUNT; 8 bits as STEPS of 1."""
    for c in tl.static_range(len(blocks)):
        value = _stored(blocks[c], pixels.dtype.element_ty, STEPS)
        tl.store(pixels + c * stride, value, mask=exists(lane, first + c, COUNT, GROUPS))


@triton.jit
def store_planes(out, number, place, first, blocks, COUNT: tl.constexpr, S, GROUPS: tl.constexpr = 1, STEPS: tl.constexpr = 255.0):  # type: ignore[no-untyped-def]
    """`store_channels` to planes in a row, from plane ``number`` on. ``place``: (column, row, lane, height, width of a plane)."""
    u, v, lane, height, width = place
    plane = width.to(S.INDEX) * height
    pixels = from_sample(out, number, plane) + (v.to(S.INDEX) * width + u)
    store_channels(pixels, plane, lane, first, blocks, COUNT, GROUPS, STEPS)


@triton.jit
def add_scaled(totals, factor, blocks):  # type: ignore[no-untyped-def]
    """Totals + factor * blocks."""
    sums = ()
    for c in tl.static_range(len(blocks)):
        sums = sums + (tl.fma(factor, blocks[c], totals[c]),)
    return sums


@triton.jit
def scaled(blocks, factor):  # type: ignore[no-untyped-def]
    """Factor * blocks."""
    products = ()
    for c in tl.static_range(len(blocks)):
        products = products + (blocks[c] * factor,)
    return products


@triton.jit
def only(where, blocks):  # type: ignore[no-untyped-def]
    """The blocks where a condition holds, else zero."""
    kept = ()
    for c in tl.static_range(len(blocks)):
        kept = kept + (tl.where(where, blocks[c], 0.0),)
    return kept


@triton.jit
def dot(g, x, total):  # type: ignore[no-untyped-def]
    """Total + the sum over channels of g * x."""
    for c in tl.static_range(len(x)):
        total = tl.fma(g[c], x[c], total)
    return total


@triton.jit
def some(blocks, FIRST: tl.constexpr, COUNT: tl.constexpr):  # type: ignore[no-untyped-def]
    """COUNT of the blocks, from block FIRST on."""
    kept = ()
    for k in tl.static_range(COUNT):
        kept = kept + (blocks[FIRST + k],)
    return kept


@triton.jit
def store_sums(out, first, blocks, LIMIT: tl.constexpr, GROUPS: tl.constexpr = 1):  # type: ignore[no-untyped-def]
    """Write each block's sum over its pixels, as numbers from ``first`` on, of LIMIT."""
    for k in tl.static_range(len(blocks)):
        if GROUPS == 1 or first + k < LIMIT:
            tl.store(out + first + k, tl.sum(blocks[k], 0))


@triton.jit
def to_fixed(value):  # type: ignore[no-untyped-def]
    """Value rounded to an integer of 64 bits.

    Single precision goes by halves of 32 bits: double precision costs 32 to 64 times as much on most devices.
    """
    if value.dtype == tl.float32:
        high = tl.floor(value * (2.0**-32))
        low = tl.floor(tl.fma(high, tl.full(value.shape, -(2.0**32), tl.float32), value) + 0.5)
        amount = (high.to(tl.int32).to(tl.int64) << 32) + low.to(tl.uint32).to(tl.int64)
    else:
        amount = tl.floor(value + 0.5).to(tl.int64)
    return amount
