"""The hash compiled by Numba for CPU tensors: the same words as ``philox.py`` in a fortieth of the calls.

Owns: the operator `pellucid::draw_words`, `field_words`, `uniform_field`, `symmetric_field`, and the Numba functions behind them.
Must not: be required: without Numba, and on other devices, the tensor version runs.
Read next: ``key.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pellucid.core.compilers import numba_works, translated
from pellucid.core.compilers.alike import alike
from pellucid.core.tape import Rows, is_plain_eager

__all__ = ["draw_words", "field_words", "row_filler", "symmetric_field", "triton_works", "uniform_field"]

torch.library.define("pellucid::draw_words", "(Tensor seed, Tensor step, Tensor index, Tensor slots, Tensor? keep) -> Tensor")


def draw_words(seed: Tensor, step: Tensor, index: Tensor, slots: Tensor, keep: Tensor | None) -> Tensor:
    """Return (b, 4 s) words; see :func:`pellucid.random.key.draw_words`."""
    if is_plain_eager():  # skips torch's dispatcher, which would take longer than the hash
        return _compiled(seed, step, index, slots, keep)
    words: Tensor = torch.ops.pellucid.draw_words.default(seed, step, index, slots, keep)
    return words


@torch.library.register_fake("pellucid::draw_words")
def _fake(seed: Tensor, step: Tensor, index: Tensor, slots: Tensor, keep: Tensor | None) -> Tensor:
    del seed, step, keep
    return index.new_empty((index.shape[0], 4 * slots.shape[0]))


def row_filler(slots: Tensor, keep: Tensor | None) -> Callable[[int, int, NDArray[np.int64], Rows], None]:
    """Return a function that writes the words of (seed, step, index) to the beginning of float64 rows (32 bits fit exactly)."""
    return partial(alike(_kernel("float64")), *_given(slots, keep))


def _given(slots: Tensor, keep: Tensor | None) -> tuple[Any, ...]:
    numbers = slots.numpy()
    return numbers, numbers if keep is None else keep.numpy(), keep is not None


def field_words(words: Tensor, blocks: int) -> Tensor | None:
    """Return (b, n, 4) words, see :func:`pellucid.random.patterns.field_words`; None if the tensor code has to run."""
    if not _plain(words):
        return None
    found = words.new_empty((words.shape[0], blocks, 4))
    _field_kernel()(words.numpy(), found.numpy())
    return found


def symmetric_field(words: Tensor, shape: tuple[int, int, int], scale: Tensor) -> Tensor | None:
    """Return the field of :func:`pellucid.random.patterns.symmetric_field`, or None if the tensor code has to run.

    It computes in NumPy: torch's threads would go on spinning next to the threads of the pass that reads the field.
    """
    if type(scale) is not Tensor or scale.dtype != torch.float64 or (torch.is_grad_enabled() and scale.requires_grad):
        return None
    field = uniform_field(words, shape, torch.float64)
    if field is None:
        return None
    numbers = field.flatten(2).numpy()
    numbers *= 2.0
    numbers -= 1.0
    numbers *= scale.expand(numbers.shape[:2]).numpy()[..., None]
    return field


def uniform_field(words: Tensor, shape: tuple[int, int, int], dtype: torch.dtype) -> Tensor | None:
    """Return the field of :func:`pellucid.random.patterns.uniform_field`, or None if the tensor code has to run."""
    if dtype not in (torch.float32, torch.float64) or not _plain(words):
        return None
    found = torch.empty((len(words), *shape), dtype=dtype, device=words.device)
    if found.numel():
        _uniform_kernel(str(dtype).removeprefix("torch."))(words.numpy(), found.flatten(1).numpy())
    return found


def _plain(words: Tensor) -> bool:
    return type(words) is Tensor and words.is_cpu and words.dtype == torch.int64 and is_plain_eager() and numba_works()


def _compiled(seed: Tensor, step: Tensor, index: Tensor, slots: Tensor, keep: Tensor | None) -> Tensor:
    words = index.new_empty((index.shape[0], 4 * slots.shape[0]))
    _kernel("int64")(*_given(slots, keep), int(seed), int(step), index.numpy(), words.numpy())
    return words


torch.library.impl("pellucid::draw_words", "CPU")(_compiled)


@cache
def triton_works() -> bool:
    """Return whether Triton can be imported. The choice of kernels warns about a missing Triton; this function does not."""
    try:
        import_module("triton")
    except Exception:  # a broken installation raises many things
        return False
    return True


_MASK, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_FIRST, _SECOND = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_LOW, _WEYL_HIGH = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


@cache
def _field_kernel() -> Callable[..., None]:
    """Compile the hash of a sample's positions: the counter is the position, the key the sample's two words."""
    mask, half, first, second, weyl_low, weyl_high = _MASK, _HALF, _FIRST, _SECOND, _WEYL_LOW, _WEYL_HIGH

    def fill(words: Any, found: Any) -> None:
        zero = np.uint64(0)
        for b in range(found.shape[0]):
            low, high = np.uint64(words[b, 0]) & mask, np.uint64(words[b, 1]) & mask
            for i in range(found.shape[1]):
                c0, c1, c2, c3 = np.uint64(i), zero, zero, zero
                k0, k1 = low, high
                for _ in range(10):
                    right, left = first * c0, second * c2
                    c0, c1, c2, c3 = (left >> half) ^ c1 ^ k0, left & mask, (right >> half) ^ c3 ^ k1, right & mask
                    k0, k1 = (k0 + weyl_low) & mask, (k1 + weyl_high) & mask
                found[b, i, 0], found[b, i, 1], found[b, i, 2], found[b, i, 3] = c0, c1, c2, c3

    kernel: Callable[..., None] = translated(fill, "void(int64[:, :], int64[:, :, ::1])", nogil=True)
    return kernel


_BLOCKS = 256  # how many counters are hashed together, in vector registers


@cache
def _uniform_kernel(dtype: str) -> Callable[..., None]:
    """Compile the field of numbers uniform on (0, 1): the upper 24 bits of each position's hash by its sample's two words."""
    mask, half, first, second, weyl_low, weyl_high = _MASK, _HALF, _FIRST, _SECOND, _WEYL_LOW, _WEYL_HIGH
    number, blocks, eight = getattr(np, dtype), _BLOCKS, np.uint64(8)

    def fill(words: Any, found: Any) -> None:
        zero, count, rows = np.uint64(0), found.shape[1], np.empty((4, blocks), np.int32)
        a, b, c, d = rows[0], rows[1], rows[2], rows[3]
        for sample in range(found.shape[0]):
            low, high = np.uint64(words[sample, 0]) & mask, np.uint64(words[sample, 1]) & mask
            for start in range(0, (count + 3) // 4, blocks):
                for i in range(blocks):
                    c0, c1, c2, c3 = np.uint64(start + i) & mask, zero, zero, zero
                    k0, k1 = low, high
                    for _ in range(10):
                        right, left = first * c0, second * c2
                        c0, c1, c2, c3 = (left >> half) ^ c1 ^ k0, left & mask, (right >> half) ^ c3 ^ k1, right & mask
                        k0, k1 = (k0 + weyl_low) & mask, (k1 + weyl_high) & mask
                    a[i], b[i], c[i], d[i] = c0 >> eight, c1 >> eight, c2 >> eight, c3 >> eight
                part = found[sample, 4 * start : min(4 * (start + blocks), count)]
                for k in range(4):
                    row = rows[k]
                    for i in range((len(part) - k + 3) // 4):
                        part[4 * i + k] = (number(row[i]) + number(0.5)) * number(2.0**-24)

    kernel: Callable[..., None] = translated(fill, f"void(int64[:, :], {dtype}[:, ::1])", nogil=True)
    return kernel


@cache
def _kernel(dtype: str) -> Callable[..., None]:
    """Compile on first use; the result is cached on disk where that is possible."""
    mask, half, first, second, weyl_low, weyl_high = _MASK, _HALF, _FIRST, _SECOND, _WEYL_LOW, _WEYL_HIGH

    def fill(slots: Any, keep: Any, masked: Any, seed: Any, step: Any, index: Any, words: Any) -> None:
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

    signature = f"void(int64[:], int64[:], boolean, int64, int64, int64[:], {dtype}[:, :])"
    kernel: Callable[..., None] = translated(fill, signature, nogil=True)
    return kernel
