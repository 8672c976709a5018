"""Colours of a block of pixels: tuples of one block (P pixels) per channel, so that a thread holds all channels of its pixels.

Owns: loading, storing, starting and summing such tuples.
Must not: know what they mean.
Read next: ``stages.py``.
"""

import torch
import triton
import triton.language as tl

__all__ = [
    *("LANES", "NUMBERS", "POINTERS", "add_scaled", "exists", "from_sample", "load_channels", "scaled", "some", "store_channels"),
    *("store_sums", "zeros"),
]


LANES = 64 if torch.version.hip else 32
"""Threads of a warp."""
NUMBERS = (
    *("stride_b", "stride_c", "stride_y", "stride_x", "grad_b", "grad_c", "grad_y", "grad_x"),
    *("field_b", "field_c", "field_y", "field_x", "height", "width", "src_height", "src_width", "out_height", "out_width"),
    *("tiles_x", "tiles", "blocks", "chunks", "count", "sample", "samples", "channels", "param_count"),
    *("map_step", "window_step", "param_step", "fill_step", "order_step", "factor_step", "kernel_step"),
    *("link_step", "knots_down", "knots_across", "table_step", "table_rows", "table_columns"),
    *("word_step", "mean_step", "sigma_step", "index_step"),
)  # fmt: skip
"""Arguments that Triton must not look at: it would compile anew for a size, a stride or a batch that is 1 or a multiple of 16."""
POINTERS = (
    *("image", "grad", "out", "to_image", "mapping", "window", "fill", "colors", "field", "links", "table", "inverse"),
    *("folded", "unfold", "units", "to_map", "to_params", "to_source", "to_field", "to_table"),
    *("slopes", "control", "sums"),
)
"""Likewise, of which it must not see whether 16 bytes divide them: each would double the variants. A thread's pixels lie in
different rows, so there is nothing to load together.
"""


@triton.jit
def zeros(N: tl.constexpr, P: tl.constexpr, F: tl.constexpr):  # type: ignore[no-untyped-def]
    """N blocks of zeros."""
    blocks = ()
    for _ in tl.static_range(N):
        blocks = blocks + (tl.zeros((P,), F),)
    return blocks


@triton.jit
def exists(lane, channel, COUNT: tl.constexpr, GROUPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where a channel is one of COUNT; every channel of a single group is."""
    if GROUPS > 1:
        lane = lane & (tl.zeros(lane.shape, tl.int32) + channel < COUNT)
    return lane


@triton.jit
def from_sample(pointer, sample, step):  # type: ignore[no-untyped-def]
    """A pointer ``sample`` steps on. Two numbers of 32 bits have a product of 64, which is one instruction."""
    return pointer + sample.to(tl.int64) * step.to(tl.int64)


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
    pixels, stride, lane, first, blocks, COUNT: tl.constexpr, GROUPS: tl.constexpr, K: tl.constexpr, STEPS: tl.constexpr = 255.0
):
    """Write the channels first ... first + K - 1 of COUNT to ``pixels``, which are those of the first; 8 bits as STEPS of 1."""
    for c in tl.static_range(K):
        value = _stored(blocks[c], pixels.dtype.element_ty, STEPS)
        tl.store(pixels + c * stride, value, mask=exists(lane, first + c, COUNT, GROUPS))


@triton.jit
def add_scaled(totals, factor, blocks, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """Totals + factor * blocks."""
    sums = ()
    for c in tl.static_range(K):
        sums = sums + (tl.fma(factor, blocks[c], totals[c]),)
    return sums


@triton.jit
def scaled(blocks, factor, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """Factor * blocks."""
    products = ()
    for c in tl.static_range(K):
        products = products + (blocks[c] * factor,)
    return products


@triton.jit
def some(blocks, FIRST: tl.constexpr, COUNT: tl.constexpr):  # type: ignore[no-untyped-def]
    """COUNT of the blocks, from block FIRST on."""
    kept = ()
    for k in tl.static_range(COUNT):
        kept = kept + (blocks[FIRST + k],)
    return kept


@triton.jit
def store_sums(out, first, blocks, LIMIT: tl.constexpr, GROUPS: tl.constexpr, N: tl.constexpr):  # type: ignore[no-untyped-def]
    """Write each block's sum over its pixels, as numbers first ... first + N - 1 of LIMIT."""
    for k in tl.static_range(N):
        if GROUPS > 1:
            if first + k < LIMIT:
                tl.store(out + first + k, tl.sum(blocks[k], 0))
        else:
            tl.store(out + first + k, tl.sum(blocks[k], 0))
