"""The one warning about floating-point images that are not in [0, 1].

Owns: what transforms clip, and a look at the first images a pipeline sees.
Must not: look at a tensor of another device, or at more than a few thousand pixels.
Read next: ``pipeline.py``.
"""

from __future__ import annotations

import math
import warnings

from torch import Tensor

from pellucid.plan import Plan
from pellucid.segments import CurveSpec
from pellucid.tape import is_plain_eager
from pellucid.transforms.base import Transform

__all__ = ["looked_at"]

_FAR = 2.0  # bicubic overshoot stays below; anything above comes out of a clip as plain white
_PIXELS = 4096


def looked_at(plan: Plan, image: Tensor) -> bool:
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
