"""Keyed numbers for measurements: rows of uniform or normal values by seed, step, index and slot.

Owns: `uniform_rows` and `normal_rows`, the public functions for code that needs keyed numbers without a pipeline.
Must not: be used by pipelines, whose plans assign their own slots.
Read next: ``key.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.random.key import Key, draw_words, on_device
from pellucid.random.normals import normal_pairs
from pellucid.random.philox import uniforms

__all__ = ["normal_rows", "uniform_rows"]


def uniform_rows(key: Key, index: Int64[Tensor, "n"], *, slot: int = 0) -> Float[Tensor, "n 4"]:
    """Return four independent numbers in (0, 1) for every index.

    Args:
        key: gives seed and step; its own index is ignored.
        index: identifies the rows; equal indices draw equal rows.
        slot: identifies the purpose; draws in different slots are independent.

    Returns:
        float64.

    Example:
        >>> from pellucid.random import Key, uniform_rows
        >>> rows = uniform_rows(Key(7), torch.arange(3))
        >>> bool(torch.equal(rows[1:], uniform_rows(Key(7), torch.arange(1, 3)))), tuple(rows.shape)
        (True, (3, 4))
    """
    return uniforms(_words(key, index, slot))


def normal_rows(key: Key, index: Int64[Tensor, "n"], *, slot: int = 0) -> Float[Tensor, "n 4"]:
    """Return four independent standard normal numbers for every index.

    Args:
        key: gives seed and step; its own index is ignored.
        index: identifies the rows; equal indices draw equal rows.
        slot: identifies the purpose; draws in different slots are independent.

    Returns:
        float32.

    Example:
        >>> from pellucid.random import Key, normal_rows
        >>> normal_rows(Key(7), torch.arange(3)).shape
        torch.Size([3, 4])
    """
    return normal_pairs(_words(key, index, slot), torch.float32)


def _words(key: Key, index: Int64[Tensor, "n"], slot: int) -> Int64[Tensor, "n 4"]:
    device = index.device
    slots = torch.tensor([slot], dtype=torch.int64, device=device)
    return draw_words(on_device(key.seed, device), on_device(key.step, device), index, slots)
