"""The hash for CUDA devices: the words of a whole batch in one launch, where the tensor code takes a hundred.

Owns: `philox`, for any kernel that draws, and `draw_words`, which launches one. The words equal those of ``philox.py`` bit for bit.
Must not: be imported without Triton.
Read next: ``key.py``.
"""

from contextlib import nullcontext

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["draw_words", "philox"]

_BLOCK = 128


@triton.jit
def philox(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Return four 32-bit words for each counter (c0, c1, c2, c3) under the key (k0, k1); all are blocks of uint32."""
    for _ in tl.static_range(10):
        high0, low0 = tl.umulhi(c0, 0xD2511F53), c0 * 0xD2511F53
        high2, low2 = tl.umulhi(c2, 0xCD9E8D57), c2 * 0xCD9E8D57
        c0, c1, c2, c3 = high2 ^ c1 ^ k0, low2, high0 ^ c3 ^ k1, low0
        k0 += 0x9E3779B9
        k1 += 0xBB67AE85
    return c0, c1, c2, c3


@triton.jit
def _draw(  # type: ignore[no-untyped-def]
    seed, step, index, slots, keep, words, index_step, samples, count, MASKED: tl.constexpr, BLOCK: tl.constexpr
):
    """Draw the words of one block of the (sample, slot) grid."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    drawn = at < samples * count
    slot = at % count
    sample = tl.load(index + (at // count) * index_step, mask=drawn, other=0)
    if MASKED:
        sample = tl.where(tl.load(keep + slot, mask=drawn, other=0) == 0, 0, sample)
    zero = tl.zeros((BLOCK,), tl.int64)
    turn, key = zero + tl.load(step), zero + tl.load(seed)
    c3 = tl.load(slots + slot, mask=drawn, other=0).to(tl.uint32)
    w0, w1, w2, w3 = philox(
        sample.to(tl.uint32), (sample >> 32).to(tl.uint32), turn.to(tl.uint32), c3, key.to(tl.uint32), (key >> 32).to(tl.uint32)
    )
    out = words + at * 4
    tl.store(out, w0.to(tl.int64), mask=drawn)
    tl.store(out + 1, w1.to(tl.int64), mask=drawn)
    tl.store(out + 2, w2.to(tl.int64), mask=drawn)
    tl.store(out + 3, w3.to(tl.int64), mask=drawn)


def draw_words(seed: Tensor, step: Tensor, index: Tensor, slots: Tensor, keep: Tensor | None) -> Tensor:
    """Return (b, 4 s) words; see :func:`pellucid.random.key.draw_words`."""
    samples, count = index.shape[0], slots.shape[0]
    words = index.new_empty((samples, 4 * count))
    if words.numel():
        kept = slots if keep is None else keep
        with torch.cuda.device(index.device) if index.is_cuda else nullcontext():
            _draw[(triton.cdiv(samples * count, _BLOCK),)](
                seed, step, index, slots.contiguous(), kept.contiguous(), words, index.stride(0), samples, count,
                MASKED=keep is not None, BLOCK=_BLOCK,
            )  # fmt: skip
    return words
