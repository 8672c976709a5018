"""Pairs of views of one photograph, related by a known homography, made while training.

Owns: drawing the two views, and the required overlap.
Must not: resample or change colours itself; the pipeline does.
Read next: ``../../pipeline/records.py`` for ``record.matrix``; ``patch_pairs.py`` for pairs of patches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from pellucid.errors import invalid
from pellucid.geometry.matrices import inverse
from pellucid.geometry.points import transform_points
from pellucid.pipeline import Pipeline
from pellucid.pipeline.records import Record
from pellucid.random import Key, Normal
from pellucid.transforms import RandomAffine, RandomCrop, RandomGamma, RandomGaussianBlur, RandomGaussianNoise, RandomPerspective

__all__ = ["HomographicPairs", "ViewPairs"]

_GRID: Final = 17
"""Points a side of the grid on which overlap is counted."""


@dataclass(frozen=True)
class ViewPairs:
    """A batch of pairs.

    Args:
        first, second: the views.
        second_from_first: pixels of the first view to pixels of the second, float64, exact.
        first_valid, second_valid: masks of the pixels of each view that show the photograph, and not its outside.
        overlap: the share of the first view that the second shows.
        photographs: the index of the photograph that each pair shows.
    """

    first: Float[Tensor, "b 1 h w"]
    second: Float[Tensor, "b 1 h w"]
    second_from_first: Float64[Tensor, "b 3 3"]
    first_valid: Bool[Tensor, "b 1 h w"]
    second_valid: Bool[Tensor, "b 1 h w"]
    overlap: Float64[Tensor, "b"]
    photographs: Int[Tensor, "b"]


@final
class HomographicPairs:
    """Draw pairs of views from photographs: the same place under two viewpoints and two lights.

    Both views show the same random window; each is rotated, scaled, shifted and seen in perspective on its own, with its own
    gamma, gain, blur and noise. Pair i of step s depends only on (seed, s, i).

    Args:
        photographs: grey tensors (1, H, W), for instance an :class:`~pellucid.features.data.ImageFolder`.
        size: side of the views, in pixels; smaller photographs are padded.
        strength: strength of the change of viewpoint; 1 pulls corners in by up to a quarter of the side.
        overlap: accept pairs whose overlap lies in this range.
        tries: draws per pair; if none is accepted, the one nearest to the range is taken.
        photometric: strength of the change of light, blur and noise; 0 is none.
        seed: seed of the draws.

    Gradient:
        none: the views are data.
    Errors:
        ``InvalidArgument`` for numbers out of range, or no photographs.

    Example:
        >>> pairs = HomographicPairs([torch.rand(1, 96, 96)], size=64)
        >>> batch = pairs(step=0, count=2)
        >>> batch.first.shape, batch.second_from_first.shape
        (torch.Size([2, 1, 64, 64]), torch.Size([2, 3, 3]))
    """

    def __init__(
        self,
        photographs: Sequence[Tensor],
        *,
        size: int = 192,
        strength: float = 1.0,
        overlap: tuple[float, float] = (0.4, 1.0),
        tries: int = 4,
        photometric: float = 1.0,
        seed: int = 0,
    ) -> None:
        if len(photographs) == 0:
            raise invalid("photographs", expected="at least one", got="none")
        if size < 16:
            raise invalid("size", expected="at least 16 pixels", got=size)
        if not 0 <= strength < 2:
            raise invalid("strength", expected="in [0, 2)", got=strength)
        if not 0 <= overlap[0] < overlap[1] <= 1:
            raise invalid("overlap", expected="(low, high) with 0 <= low < high <= 1", got=overlap)
        if tries < 1:
            raise invalid("tries", expected="at least 1", got=tries)
        if not 0 <= photometric <= 1:
            raise invalid("photometric", expected="in [0, 1]", got=photometric)
        self.photographs = photographs
        self.size, self.overlap, self.tries, self.seed = size, overlap, tries, seed
        light, s = photometric, strength
        self.pipeline = Pipeline(
            [
                RandomCrop(size, pad_if_needed=True),
                RandomPerspective(0.5 * s, p=1.0),
                RandomAffine(Normal(0.0, 15.0 * s), translate=(0.1 * s, 0.1 * s), scale=(1 - 0.2 * s / 2, 1 + 0.5 * s)),
                RandomGamma((1 - 0.35 * light, 1 + 0.5 * light), gain=(1 - 0.3 * light, 1 + 0.15 * light)),
                RandomGaussianBlur(kernel_size=5, sigma=(0.3, 1.0), p=0.3 * light),
                RandomGaussianNoise(sigma=(0.0, 0.02 * light)),
            ],
            canvas="image",  # views show the whole photograph, not only the crop
            return_valid=True,
        )

    def __call__(self, step: int, count: int, *, start: int = 0) -> ViewPairs:
        """Draw pairs ``start`` to ``start + count - 1`` of a step; ranks of a distributed run take different starts."""
        parts = [self._draw_pair(step, start + i) for i in range(count)]
        columns = [torch.stack(column) for column in zip(*parts, strict=True)]
        first, second, matrix, first_valid, second_valid, overlap, which = columns
        return ViewPairs(first, second, matrix, first_valid, second_valid, overlap, which)

    def _draw_pair(self, step: int, number: int) -> tuple[Tensor, ...]:
        # One word of the same counter-based generator picks the photograph.
        dice = torch.Generator().manual_seed((self.seed * 1_000_003 + step) * 1_000_003 + number)
        which = int(torch.randint(len(self.photographs), (), generator=dice))
        picture = self.photographs[which]
        index = (number * (1 + self.tries) + torch.arange(1 + self.tries)).long()
        candidates = self.pipeline.draw(picture.expand(1 + self.tries, -1, -1, -1), key=Key(seed=self.seed, step=step, index=index))
        candidates = _share_window(candidates)
        first_from_photo, others = candidates.matrix[:1], candidates.matrix[1:]
        second_from_first = others @ inverse(first_from_photo)
        overlaps = _overlap(second_from_first, self.size)
        low, high = self.overlap
        miss = torch.where(overlaps < low, low - overlaps, torch.where(overlaps > high, overlaps - high, 0.0))
        chosen = int(miss.argmin())
        record = candidates[torch.tensor([0, 1 + chosen])]
        seen = self.pipeline.apply({"image": picture.expand(2, -1, -1, -1)}, record)
        valid = seen["valid"] > 0.999
        return (*seen["image"].unbind(), second_from_first[chosen], *valid.unbind(), overlaps[chosen], torch.tensor(which))


def _share_window(record: Record) -> Record:
    """Give every sample the crop of the first."""
    for name, value in record.params[0].items():
        record = record.with_param(0, name, value[:1].expand_as(value))
    return record


def _overlap(second_from_first: Float64[Tensor, "b 3 3"], size: int) -> Float64[Tensor, "b"]:
    """Return the share of a grid on the first view that falls on the second."""
    at = torch.linspace(0.0, size - 1.0, _GRID, dtype=torch.float64)
    points = torch.stack(torch.meshgrid(at, at, indexing="xy"), -1).reshape(1, -1, 2).expand(len(second_from_first), -1, -1)
    x, y = transform_points(points, second_from_first).unbind(-1)
    return ((x >= -0.5) & (x <= size - 0.5) & (y >= -0.5) & (y <= size - 0.5)).double().mean(1)
