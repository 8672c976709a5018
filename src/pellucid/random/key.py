"""The random key: (seed, step, sample index) decides every draw.

Owns: `Key`, and `draw_words`: the random words of a batch of samples for a list of slots.
Must not: know of transforms or distributions.
Read next: ``distributions.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Int64
from torch import Tensor

from pellucid.core.arguments import plain
from pellucid.core.compilers import numba_works
from pellucid.core.tape import is_plain_eager
from pellucid.errors import invalid, wrong_type
from pellucid.random import compiled
from pellucid.random.philox import MASK, philox4x32, round_keys
from pellucid.random.stream import rank

__all__ = ["RANK_STRIDE", "Key", "counted", "default_index", "draw_words", "key_for", "on_device"]

RANK_STRIDE = 1 << 32
"""Distance between the default sample indices of two ranks."""


@dataclass(frozen=True, eq=False)
class Key:
    """The three numbers that decide a draw: the run's seed, the step, and each sample's index.

    Args:
        seed: integer in [0, 2^63), or an int64 scalar tensor.
        step: integer in [0, 2^32), or an int64 scalar tensor.
        index: (B,) integers that name the samples, for instance data-set indices; default 0..B-1, with the distributed
            rank folded into the upper 32 bits.

    Two calls with equal (seed, step, index of a sample) draw equal parameters for that sample, whatever else is in
    the batch, on every device and in every data-loading worker.

    Errors:
        InvalidType for anything but integers and tensors; InvalidArgument for integers out of range and an index that is not (B,).

    Example:
        >>> Key(seed=7, step=3).step
        3
    """

    seed: int | Tensor = 0
    step: int | Tensor = 0
    index: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("seed", "step"):
            value = plain(getattr(self, name))
            scalar = isinstance(value, Tensor) and value.dim() == 0 and value.dtype == torch.int64
            if not scalar and (not isinstance(value, int) or isinstance(value, bool)):
                raise wrong_type(f"Key.{name}", expected="an integer, or an int64 scalar tensor", got=repr(value))
            object.__setattr__(self, name, value)
        if isinstance(self.seed, int) and not 0 <= self.seed < 1 << 63:
            raise invalid("Key.seed", expected="an integer in [0, 2^63)", got=self.seed)
        if isinstance(self.step, int) and not 0 <= self.step < 1 << 32:
            raise invalid("Key.step", expected="an integer in [0, 2^32)", got=self.step)
        if self.index is not None:
            if not isinstance(self.index, Tensor):
                raise wrong_type(
                    "Key.index", expected="a (B,) integer tensor", got=type(self.index).__name__, fix="Use torch.tensor(ids)."
                )
            if self.index.dim() != 1 or self.index.is_floating_point():
                raise invalid("Key.index", expected="a (B,) integer tensor", got=f"{tuple(self.index.shape)} {self.index.dtype}")


def on_device(value: int | Tensor, device: torch.device) -> Int64[Tensor, ""]:
    """Return a seed or step as a tensor on the batch's device, without a copy from the host, which CUDA graphs cannot capture."""
    if isinstance(value, Tensor):
        return value
    if device.type == "cpu":
        return torch.tensor(value, dtype=torch.int64, device=device)
    return torch.full((), value, dtype=torch.int64, device=device)


def key_for(key: Key, samples: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return the (seed, step, index) tensors with which a key draws for this many samples."""
    if not isinstance(key, Key):
        raise wrong_type("key", expected="a Key", got=repr(key), fix="For example key=Key(seed=0, step=7).")
    seed, step = on_device(key.seed, device), on_device(key.step, device)
    index = default_index(samples, device) if key.index is None else key.index.to(device, torch.int64)
    if index.shape[0] != samples:
        raise invalid("Key.index", expected=f"one index per sample, ({samples},)", got=tuple(index.shape))
    return seed, step, index


def default_index(batch: int, device: torch.device) -> Int64[Tensor, "b"]:
    """Return the sample indices 0..B-1 of this rank; never write to them: they are cached."""
    plain = device.type == "cpu" and is_plain_eager()
    index, at = counted(batch) if plain else torch.arange(batch, dtype=torch.int64, device=device), rank()
    return index + at * RANK_STRIDE if at else index


@lru_cache(maxsize=64)
def counted(batch: int) -> Tensor:
    """Return 0..B-1. Cached, because making it takes as long as drawing for a few samples."""
    with torch.inference_mode(False):  # autograd cannot save tensors made in inference mode
        return torch.arange(batch, dtype=torch.int64)


def draw_words(
    seed: Int64[Tensor, ""],
    step: Int64[Tensor, ""],
    index: Int64[Tensor, "b"],
    slots: Int64[Tensor, "s"],
    keep: Int64[Tensor, "s"] | None = None,
) -> Int64[Tensor, "b four_s"]:
    """Return four 32-bit words for every (sample, slot), from one evaluation of the hash.

    The counter is (index, step, slot) and the key is the seed: nothing else decides the words. In slots whose ``keep`` is 0, every
    sample gets the words of sample index 0.
    """
    if index.device.type == "cpu" and numba_works() and not torch.compiler.is_exporting():  # exports use standard operators only
        return compiled.draw_words(seed, step, index, slots, keep)
    seed, step = seed.to(index.device), step.to(index.device)
    if index.is_cuda and is_plain_eager() and compiled.triton_works():
        from pellucid.random.philox_triton import draw_words as launch

        return launch(seed, step, index, slots, keep)
    grid = index[:, None] * (torch.ones_like(slots) if keep is None else keep)  # b s
    even = torch.stack((grid & MASK, (step & MASK).expand_as(grid)))  # 2 b s
    odd = torch.stack(((grid >> 32) & MASK, slots.expand_as(grid)))
    keys = round_keys(seed & MASK, seed >> 32)[:, :, None, None]
    return philox4x32(even, odd, keys).flatten(1)
