"""The hash, compiled: the same words as ``philox.py`` at a fortieth of the calls, on CPU tensors.

Owns: the operator `pellucid::draw_words` and the Numba function behind it.
Must not: be needed: without Numba, and on other devices, the tensor version runs.
Read next: ``key.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.compilers import translated
from pellucid.tape import Rows, is_plain_eager

__all__ = ["draw_rows", "draw_words", "triton_works"]

torch.library.define("pellucid::draw_words", "(Tensor seed, Tensor step, Tensor index, Tensor slots, Tensor? keep) -> Tensor")


def draw_words(seed: Tensor, step: Tensor, index: Tensor, slots: Tensor, keep: Tensor | None) -> Tensor:
    """(b, 4 s) words; see :func:`pellucid.random.key.draw_words`."""
    if is_plain_eager():  # without torch's dispatcher, which costs more than the words
        return _compiled(seed, step, index, slots, keep)
    words: Tensor = torch.ops.pellucid.draw_words.default(seed, step, index, slots, keep)
    return words


@torch.library.register_fake("pellucid::draw_words")
def _fake(seed: Tensor, step: Tensor, index: Tensor, slots: Tensor, keep: Tensor | None) -> Tensor:
    del seed, step, keep
    return index.new_empty((index.shape[0], 4 * slots.shape[0]))


def draw_rows(seed: int, step: int, index: Tensor, slots: Tensor, keep: Tensor | None, numbers: tuple[int, ...]) -> Rows:
    """The words as an array of float64, which holds 32 bits exactly; every row ends in ``numbers``."""
    words = 4 * slots.shape[0]
    rows = np.empty((index.shape[0], words + len(numbers)))
    rows[:, words:] = numbers
    _fill("float64", seed, step, index, slots, keep, rows)
    return rows


def _compiled(seed: Tensor, step: Tensor, index: Tensor, slots: Tensor, keep: Tensor | None) -> Tensor:
    words = index.new_empty((index.shape[0], 4 * slots.shape[0]))
    _fill("int64", int(seed), int(step), index, slots, keep, words.numpy())
    return words


def _fill(dtype: str, seed: int, step: int, index: Tensor, slots: Tensor, keep: Tensor | None, words: Rows) -> None:
    numbers = slots.numpy()
    _kernel(dtype)(seed, step, index.numpy(), numbers, numbers if keep is None else keep.numpy(), keep is not None, words)


torch.library.impl("pellucid::draw_words", "CPU")(_compiled)


@cache
def triton_works() -> bool:
    """Whether Triton can be imported. A missing one is reported where kernels are chosen, not here."""
    try:
        import_module("triton")
    except Exception:  # a broken installation raises many things
        return False
    return True


@cache
def _kernel(dtype: str) -> Callable[..., None]:
    """Compile on first use; the result is cached on disk where that is possible."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    first, second = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
    weyl_low, weyl_high = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)

    def fill(seed: Any, step: Any, index: Any, slots: Any, keep: Any, masked: Any, words: Any) -> None:
        for b in range(index.shape[0]):
            for s in range(slots.shape[0]):
                sample = np.uint64(index[b])
                if masked and keep[s] == 0:
                    sample = np.uint64(0)
                c0, c1 = sample & mask, sample >> half
                c2, c3 = np.uint64(step) & mask, np.uint64(slots[s])
                k0, k1 = np.uint64(seed) & mask, np.uint64(seed) >> half
                for _ in range(10):
                    low, high = first * c0, second * c2
                    c0, c1, c2, c3 = (high >> half) ^ c1 ^ k0, high & mask, (low >> half) ^ c3 ^ k1, low & mask
                    k0, k1 = (k0 + weyl_low) & mask, (k1 + weyl_high) & mask
                words[b, 4 * s] = c0
                words[b, 4 * s + 1] = c1
                words[b, 4 * s + 2] = c2
                words[b, 4 * s + 3] = c3

    signature = f"void(int64, int64, int64[:], int64[:], int64[:], boolean, {dtype}[:, :])"
    kernel: Callable[..., None] = translated(fill, signature, nogil=True)
    return kernel
