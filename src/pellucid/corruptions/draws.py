"""The random words, numbers and fields that a key draws for a batch, one after the other.

Owns: `Draws`.
Must not: keep a field.
Read next: ``table.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.kernels.blend.reference import gaussian_field
from pellucid.random.key import draw_words, on_device
from pellucid.random.patterns import uniform_field
from pellucid.random.philox import uniforms

__all__ = ["Draws"]


class Draws:
    """A stream of a key's draws for each sample of a batch.

    Args:
        seed, step: of the key.
        index: names the samples, on their device.
        size: (height, width) of the pictures.
        dtype: of the fields.
        first: the first slot of the random stream. Streams share no draw if their first slots lie further apart than they are long.
    """

    def __init__(
        self,
        seed: int | Tensor,
        step: int | Tensor,
        index: Int64[Tensor, "b"],
        size: tuple[int, int],
        dtype: torch.dtype,
        first: int,
    ) -> None:
        self.size, self.device = size, index.device
        self._seed, self._step = on_device(seed, self.device), on_device(step, self.device)
        self._index, self._dtype, self._slot = index, dtype, first

    def words(self) -> Int64[Tensor, "b 2"]:
        """Two new words for each sample."""
        return self._four()[:, :2]

    def numbers(self, count: int) -> Float[Tensor, "b n"]:
        """Numbers uniform on (0, 1), in float64."""
        return torch.cat([uniforms(self._four()) for _ in range(0, count, 4)], 1)[:, :count]

    def number(self, low: float, high: float) -> Float[Tensor, "b"]:
        """A number uniform on (low, high)."""
        return low + (high - low) * self.numbers(1)[:, 0]

    def uniform(self, channels: int) -> Float[Tensor, "b n h w"]:
        """Fields of numbers uniform on (0, 1)."""
        return uniform_field(self.words(), (channels, *self.size), self._dtype)

    def square(self, side: int) -> Float[Tensor, "b n n"]:
        """A square field of numbers uniform on (0, 1)."""
        return uniform_field(self.words(), (1, side, side), self._dtype)[:, 0]

    def normal(self) -> Float[Tensor, "b h w"]:
        """A field of standard normal numbers."""
        return gaussian_field(self.words(), (1, *self.size), self._dtype)[:, 0]

    def _four(self) -> Int64[Tensor, "b 4"]:
        slot = torch.full((1,), self._slot, dtype=torch.int64, device=self.device)
        self._slot += 1
        return draw_words(self._seed, self._step, self._index, slot)
