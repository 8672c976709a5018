"""Warnings about floating-point images that are not in [0, 1], and about boxes in another format.

Owns: the check of the first images and boxes that a pipeline gets, and which transforms clip.
Must not: read a tensor on another device, or more than a few thousand pixels.
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
from pellucid.targets.kinds import BOXES, IMAGES, Entry
from pellucid.targets.parsing import Parsed
from pellucid.transforms.base import Transform

__all__ = ["Look"]

_FAR = 2.0  # bicubic overshoot stays below; larger values suggest a range of 0 to 255
_PIXELS = 4096
_ROWS = 32


class Look:
    """A pipeline's check of its first inputs. It reads values on the CPU only, and not while a graph is traced."""

    def __init__(self) -> None:
        self._pictures, self._boxes = False, False
        self._rows, self._turned = 0, 0
        self.done = False  # whether there is nothing left to check

    def saw(self, parsed: Parsed) -> bool:
        """Return whether pictures like these need no further check."""
        return self.done or not any(entry.tensor.is_floating_point() for entry in parsed.entries)

    def at(self, plan: Plan, parsed: Parsed) -> None:
        """Check a batch, and warn."""
        if not self._pictures:
            self._pictures = all(_looked_at(plan, entry.tensor) for entry in parsed.entries if entry.kind in IMAGES)
        if not self._boxes:
            self._boxes = all(self._looked_at_boxes(entry) for entry in parsed.entries if entry.kind is BOXES)
        self.done = self._pictures and self._boxes

    def _looked_at_boxes(self, entry: Entry) -> bool:
        """Warn if most rows read as (x0, y0, x1, y1) end before they begin: they may be (x, y, width, height)."""
        rows = entry.tensor.detach()
        if entry.box_format != "xyxy":
            return True
        if not (rows.is_cpu and is_plain_eager()):
            return False
        real = (rows != 0).any(-1) if entry.valid is None else entry.valid.to(rows.device, torch.bool)
        self._rows += int(real.sum())
        self._turned += int(((rows[..., 2:] < rows[..., :2]).any(-1) & real).sum())
        if 2 * self._turned > self._rows:
            warnings.warn(
                f"{self._turned} of {self._rows} rows of batch[{entry.key!r}], read as (x0, y0, x1, y1), end before they begin, "
                "and so are no boxes. Pass box_format='xywh' or 'cxcywh' if that is what they are. (Said once, of the first ones.)",
                stacklevel=2,
            )
            return True
        return self._rows >= _ROWS


def _looked_at(plan: Plan, image: Tensor) -> bool:
    """Warn if a floating-point image with values far above 1 enters a transform for which 1 is white.

    Returns:
        Whether the check is done: only an ordinary tensor on the CPU can be read without waiting. The check takes some
        microseconds, once per pipeline.
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
    """Return the first transform for which 1 is white, unless an earlier one changes the units."""
    for (transform, *_), segment in zip(plan.steps, plan.segments, strict=True):
        if transform.units is not None:
            return None
        # Tone curves without the option `clip` clip always.
        bound = isinstance(segment, CurveSpec) or transform.white
        if getattr(transform, "clip", "end" if bound else "none") != "none":
            return transform
    return None
