"""How much of a picture's resolution its crop can use.

Owns: the size that is enough, from the draw.
Must not: decode.
Read next: ``decoding.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from pellucid.data.decoding import Enough
from pellucid.data.samples import Sample
from pellucid.pipeline import Pipeline
from pellucid.random.key import Key
from pellucid.transforms import RandomResizedCrop
from pellucid.transforms.base import as_size
from pellucid.types import Size

__all__ = ["Drafts"]


class Drafts:
    """The crops that a pipeline begins with.

    Args:
        pipeline: one whose first transform is a RandomResizedCrop, without learned numbers; any other leaves pictures whole. What
            such a crop draws is a share of the picture, so that it is the same crop of a smaller copy.
    """

    def __init__(self, pipeline: Any) -> None:
        first = pipeline.transforms[0] if isinstance(pipeline, Pipeline) and pipeline.transforms else None
        self._crop: RandomResizedCrop | None = None
        if isinstance(first, RandomResizedCrop) and first.antialias and not pipeline.learned.distributions:
            self._crop, self._seed = first, pipeline._seed
            self._alone = Pipeline([first], same_on_batch=pipeline.options.same_on_batch)

    def of(self, samples: Sequence[Sample]) -> list[Enough] | None:
        """For each sample, how much of a picture's size is enough; None where all of it is."""
        if self._crop is None:
            return None
        key = Key(self._seed, samples[0].epoch, torch.tensor([sample.number for sample in samples]))
        drawn = self._alone.draw(torch.empty(len(samples), 1, 8, 8), key=key).params[0]
        size = as_size("size", self._crop.size)
        return [_enough(*pair, size) for pair in zip(drawn["scale"].tolist(), drawn["ratio"].tolist(), strict=True)]


def _enough(scale: float, ratio: float, size: Size) -> Enough:
    def enough(whole: Size) -> Size | None:
        height, width = whole
        area = scale * height * width
        shape = max(min(ratio, width**2 / area), area / height**2)
        larger = min(math.sqrt(area * shape) / size[1], math.sqrt(area / shape) / size[0])
        return (math.ceil(height / larger), math.ceil(width / larger)) if larger >= 2.0 else None

    return enough
