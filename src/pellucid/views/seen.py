"""One view of pictures, what a model said of it, and how that comes back to the pictures.

Owns: `Seen`.
Must not: merge views (``merge.py``).
Read next: ``tta.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pellucid.pipeline import Pipeline
from pellucid.pipeline.records import Record
from pellucid.targets.kinds import KINDS, TargetKind, kind_of
from pellucid.types import Size

__all__ = ["Seen"]


class Seen:
    """A view, and what the model said of it."""

    def __init__(self, pipeline: Pipeline, record: Record, prediction: Any) -> None:
        self.pipeline, self.record, self.prediction = pipeline, record, prediction

    def size_before(self, maps: Tensor) -> Size:
        """The size of the whole picture in the cells of a map of the view."""
        before, after = self.record.size_in, self.record.size_out
        height, width = (round(whole * part / seen) for whole, part, seen in zip(before, maps.shape[-2:], after, strict=True))
        return (height, width)

    def is_of(self, name: str, *kinds: str) -> bool:
        """Whether a prediction's name says one of these kinds."""
        return getattr(self._kind(name), "name", None) in kinds

    def corners(self, name: str) -> str:
        """What a row of corners is, ``polygon``, ``line`` or ``quad``; empty for what has none."""
        return getattr(self._kind(name), "corners", "")

    def turned(self, name: str) -> str:
        """The kind of a prediction whose values turn with the picture, or with its pose; empty for others."""
        found = self._kind(name)
        return found.name if found is not None and (found.turn or (found.interpolation and self._posed(found))) else ""

    def _kind(self, name: str) -> TargetKind | None:
        return kind_of(name, self.pipeline.options.targets)

    def _posed(self, kind: TargetKind) -> bool:
        return kind.scene is not None and self.pipeline.options.cameras == "pose"

    def pairs(self, name: str, kind: str) -> Sequence[tuple[int, int]]:
        """Left and right of a prediction: what the pipeline says of its name, without one of its kind."""
        return self.pipeline.options.pairs.get(name or kind, ())

    def back(self, kind: str, values: Tensor, name: str = "") -> Tensor:
        """Rows of coordinates, or a camera, in the picture."""
        return self._undone({kind: values}, self.record, self.pairs(name, kind))[kind]

    def places(self, values: Tensor) -> Tensor:
        """Corners (B, N, V, 2) in the picture, one by one."""
        return (self.back("keypoints", values.flatten(1, 2) - 0.5) + 0.5).reshape(values.shape)

    def map(self, name: str, maps: Tensor, size: Size, kind: str = "heatmap") -> tuple[Tensor, Tensor]:
        """A map in the picture, 0 where the view shows nothing, and which share of each pixel it shows."""
        found = self._undone({kind: maps}, self._at(maps, size), self.pairs(name, kind), return_valid=True)
        return found[kind], found["valid"].to(maps.dtype)

    def labels(self, name: str, mask: Tensor, size: Size) -> tuple[Tensor, Tensor]:
        """A mask in the picture, and which pixels the view shows."""
        both = {"mask": mask, "mask_seen": torch.ones_like(mask)}
        found = self._undone(both, self._at(mask, size), self.pairs(name, "mask"))
        return found["mask"], found["mask_seen"]

    def rows(self, name: str, values: Tensor) -> Tensor:
        """What has a row for every box (B, N, ...): masks and keypoints in the picture, other numbers as they are."""
        if name == "masks":
            layers = values.reshape(*values.shape[:2], *values.shape[-2:])
            if 0 in layers.shape:
                return values.new_zeros(*values.shape[:-2], *self.size_before(values))
            at = self._at(layers, self.size_before(layers))
            kind = "heatmap" if layers.is_floating_point() else "mask"
            return self._undone({kind: layers}, at, ())[kind].unflatten(1, values.shape[1:-2])
        named = self._kind(name)
        if named is not None and (named.corners or (self.is_of(name, "boxes3d") and self._posed(named))):
            return self.back(named.name, values)
        if values.dim() == 4 and self.is_of(name, "keypoints"):
            return self.back("keypoints", values.flatten(0, 1), name).unflatten(0, values.shape[:2])
        return values

    def _undone(
        self, values: dict[str, Tensor], record: Record, pairs: Sequence[tuple[int, int]], *, return_valid: bool = False
    ) -> dict[str, Tensor]:
        """What `Pipeline.inverse` makes of predictions; boxes are as the model gives them, and masks nearest, as they vote."""
        options = self.pipeline.options
        kind = next(iter(values))
        if self._posed(KINDS[kind]):  # turns and mirrors of any camera with square pixels
            first = values[kind]
            values = values | {"intrinsics": torch.eye(3, dtype=first.dtype, device=first.device).expand(len(first), 3, 3)}
        modes = {kind: options.interpolation[kind]} if kind != "mask" and kind in options.interpolation else {}
        undo = Pipeline([], pairs={kind: pairs} if pairs else {}, interpolation=modes, impl=options.impl, cameras=options.cameras)
        found: dict[str, Tensor] = undo.inverse(values, record, return_valid=return_valid)
        return found

    def _at(self, maps: Tensor, size: Size) -> Record:
        height, width = maps.shape[-2:]
        return self.record.at(size, out=(height, width))
