"""The warnings about floating-point images that are not in [0, 1], and about boxes that have another format.

Owns: what transforms clip, and a look at the first images and boxes a pipeline sees.
Must not: look at a tensor of another device, or at more than a few thousand pixels.
Read next: ``module.py``.
"""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from pellucid.core.tape import is_plain_eager
from pellucid.engine.plan import Plan
from pellucid.segments import CurveSpec
from pellucid.targets.kinds import BOXES, IMAGES
from pellucid.targets.parsing import Entry, Parsed
from pellucid.transforms.base import Transform

__all__ = ["Look"]

_FAR = 2.0  # bicubic overshoot stays below; anything above comes out of a clip as plain white
_PIXELS = 4096
_ROWS = 32


class Look:
    """A pipeline's look at the first of what it is given; it sees values on the CPU, and only where nothing traces."""

    def __init__(self) -> None:
        self._pictures, self._boxes = False, False
        self._rows, self._turned = 0, 0
        self.done = False  # whether there is nothing left to look at

    def saw(self, parsed: Parsed) -> bool:
        """Whether pictures like these hold nothing more to see."""
        return self.done or not any(entry.tensor.is_floating_point() for entry in parsed.entries)

    def at(self, plan: Plan, parsed: Parsed) -> None:
        """Look at a batch."""
        if not self._pictures:
            self._pictures = all(_looked_at(plan, entry.tensor) for entry in parsed.entries if entry.kind in IMAGES)
        if not self._boxes:
            self._boxes = all(self._looked_at_boxes(entry) for entry in parsed.entries if entry.kind is BOXES)
        self.done = self._pictures and self._boxes

    def _looked_at_boxes(self, entry: Entry) -> bool:
        """Warn where most rows of (x0, y0, x1, y1) end before they begin, as (x, y, width, height) do."""
        rows = entry.tensor.detach()
        if entry.box_format != "xyxy":
            return True
        if not (rows.is_cpu and is_plain_eager()):
            return False
        there = (rows != 0).any(-1) if entry.valid is None else entry.valid.to(rows.device, torch.bool)
        self._rows += int(there.sum())
        self._turned += int(((rows[..., 2:] < rows[..., :2]).any(-1) & there).sum())
        if 2 * self._turned > self._rows:
            warnings.warn(
                f"{self._turned} of {self._rows} rows of batch[{entry.key!r}], read as (x0, y0, x1, y1), end before they begin, "
                "and so are no boxes. Pass box_format='xywh' or 'cxcywh' if that is what they are. (Said once, of the first ones.)",
                stacklevel=2,
            )
            return True
        return self._rows >= _ROWS


def _looked_at(plan: Plan, image: Tensor) -> bool:
    """Warn where a floating-point image with values far above 1 enters a transform for which 1 is white.

    Returns:
        Whether there is nothing left to look at: only an ordinary tensor on the CPU has values to look at without waiting. It costs
        some microseconds, once per pipeline.
    """
    if not (image.is_cpu and image.is_floating_point() and image.numel() and is_plain_eager()):
        return False
    owner = _first_clip(plan)
    if owner is None:
        return True
    step = max(1, math.isqrt(image.numel() // _PIXELS))
    most = float(image.detach()[..., ::step, ::step].max())
    if most > _FAR:
        warnings.warn(
            f"{type(owner).__name__} takes 1 for white, and these floating-point images hold values up to {most:.4g}. Divide them "
            "by 255, or pass uint8. Where values beyond 1 are meant, clip='none' keeps them. (Said once, of the first images.)",
            stacklevel=2,
        )
    return True


def _first_clip(plan: Plan) -> Transform | None:
    """The first transform for which 1 is white, unless an earlier one changes the units."""
    for (transform, *_), segment in zip(plan.steps, plan.segments, strict=True):
        if transform.units is not None:
            return None
        # Tone curves have no choice; the others say whether they clip.
        bound = isinstance(segment, CurveSpec) or transform.white
        if getattr(transform, "clip", "end" if bound else "none") != "none":
            return transform
    return None
