"""The counter-based generator: Philox 4x32-10 on integer tensors.

Owns: turning (key, counter) into uniformly distributed 32-bit words, the same on every device and in every batch split.
Must not: keep state, or read or write torch's global generator.
Read next: ``key.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor

from pellucid.core.constants import constant, wide_dtype

__all__ = ["philox4x32", "round_keys", "uniforms"]

MASK = 0xFFFFFFFF
ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def round_keys(low: Int64[Tensor, "*batch"], high: Int64[Tensor, "*batch"]) -> Int64[Tensor, "10 2 *batch"]:
    """Expand a 64-bit key (two 32-bit halves) into the keys of the ten rounds.

    Source:
        Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    key = torch.stack((low & MASK, high & MASK))  # 2 *b
    weyl = constant(_WEYL, torch.int64, key.device)
    turns = torch.arange(ROUNDS, dtype=torch.int64, device=key.device)
    bumps = (turns[:, None] * weyl).reshape(ROUNDS, 2, *([1] * low.dim()))
    keys = (key + bumps) & MASK  # 10 2 *b
    # `philox4x32` swaps the roles of its halves every round instead of moving memory; so do the keys, starting swapped.
    return torch.where((turns % 2 == 0).reshape(ROUNDS, *([1] * (low.dim() + 1))), keys.flip(1), keys)


def philox4x32(
    even: Int64[Tensor, "2 *grid"], odd: Int64[Tensor, "2 *grid"], keys: Int64[Tensor, "10 2 *grid_or_1"]
) -> Int64[Tensor, "*grid 4"]:
    """Hash a grid of 128-bit counters into four 32-bit words each.

    Args:
        even: counter words 0 and 2, each in [0, 2^32).
        odd: counter words 1 and 3, each in [0, 2^32).
        keys: from :func:`round_keys`, broadcastable against the grid.

    Returns:
        The four output words of each counter, as int64 in [0, 2^32).

    Gradient:
        none (integers).
    Source:
        The known-answer vectors of the Random123 distribution (``tests/random/test_philox.py``).
    """
    multipliers = constant(_MULTIPLIERS, torch.int64, even.device)
    multipliers = multipliers.reshape(2, *([1] * (even.dim() - 1)))
    swapped = multipliers.flip(0)
    for turn in range(ROUNDS):
        # The product of two 32-bit numbers may overflow into the sign bit of int64; the masks below remove that.
        product = even * (multipliers if turn % 2 == 0 else swapped)
        even = ((product >> 32) & MASK) ^ odd.flip(0) ^ keys[turn]
        odd = product & MASK
    return torch.stack((even, odd), dim=-1).movedim(0, -2).flatten(-2)


def uniforms(words: Shaped[Tensor, "*grid"]) -> Float[Tensor, "*grid"]:
    """Map 32-bit words to float64 in the open interval (0, 1); exact, so equal on every device.

    The words are int64, or the same whole numbers in float64, as tapes hold them.
    """
    return (words.to(wide_dtype(words.device)) + 0.5) * 2.0**-32
