"""Pictures of several sizes that one lowering is for.

Owns: `Pictures`, and how a pass goes over them.
Must not: know what the pass computes, or be asked for gradients.
Read next: ``rows.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.kernels.color.mean import with_mean
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.rows import put
from pellucid.kernels.threads import run_split
from pellucid.kernels.warp.packing import Resample
from pellucid.segments.chain import Stage

__all__ = ["Pictures"]


class Pictures(NamedTuple):
    """Samples of a list, those of one size together; what holds for a sample stands in the list's order.

    Args:
        parts: (n, c, h, w), each with its own height and width, all of one dtype.
        places: of each part, where its samples stand in the list.
    """

    parts: tuple[Tensor, ...]
    places: tuple[tuple[int, ...], ...]

    @property
    def dtype(self) -> torch.dtype:
        """Of all of them."""
        return self.parts[0].dtype

    @property
    def channels(self) -> int:
        """Of all of them."""
        return self.parts[0].shape[1]

    def mean(self, frame: Int64[Tensor, "b_or_1 4"] | None) -> Float[Tensor, "b c"]:
        """The mean colour of each sample, of the pixels of its frame."""
        found = self._results(lambda part, where: with_mean(part, None if frame is None else _rows(frame, where))[1])
        assert found is not None
        return found

    def through(self, function: Callable[[Tensor, Resample], Tensor], resample: Resample) -> Tensor:
        """What a pass makes of every sample, as one batch: they end in one size."""
        return self._results(lambda part, where: function(part, _own(resample, where)))

    def _results(self, function: Callable[[Tensor, list[int]], Tensor]) -> Tensor:
        """What a function makes of the parts, each row in its place; threads share the parts."""
        first = function(self.parts[0], list(self.places[0]))
        out = in_large_pages(first.new_empty((sum(map(len, self.parts)), *first.shape[1:])))
        put(out, torch.tensor(self.places[0]), first)

        def some(start: int, stop: int) -> None:
            for part, where in zip(self.parts[1 + start : 1 + stop], self.places[1 + start : 1 + stop], strict=True):
                put(out, torch.tensor(where), function(part, list(where)))

        run_split(some, len(self.parts) - 1, _PIXELS // (self.parts[-1].shape[2] * self.parts[-1].shape[3]) + 1)
        return out


_PIXELS = 1 << 15  # the fewest worth handing to another thread


def _own(resample: Resample, where: list[int]) -> Resample:
    """A pass for some of the samples."""
    recipe, *parts = resample
    made = Resample(recipe, *(_rows(part, where) if isinstance(part, Tensor) else part for part in parts))  # type: ignore[arg-type]
    prologue, epilogue = (tuple(_stage(stage, where) for stage in some) for some in (made.prologue, made.epilogue))
    return made._replace(prologue=prologue, epilogue=epilogue)


def _stage(stage: Stage, where: list[int]) -> Stage:
    parts: list[Any] = [_rows(part, where) if isinstance(part, Tensor) else part for part in stage]
    return type(stage)(*parts)


def _rows(part: Tensor, where: list[int]) -> Tensor:
    """A sample's rows; what all share stays as it is."""
    if len(part) == 1:
        return part
    return part[where[0] : where[0] + 1] if len(where) == 1 else part[where]
