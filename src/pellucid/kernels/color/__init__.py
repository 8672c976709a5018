"""Pointwise colour: affine maps, hue rotation, clipping, the shift in HSV, and the step-by-step jitter.

Owns: the names of the pointwise stages.
Must not: resample.
Read next: ``reference.py``.
"""

from pellucid.kernels.color.mean import mean_color, means_of, pixels_of, with_mean
from pellucid.kernels.color.passes import jitter_steps, shift_hsv
from pellucid.kernels.color.reference import affine, clip, compose, hue, stages

__all__ = [
    "affine", "clip", "compose", "hue", "jitter_steps", "mean_color", "means_of", "pixels_of", "shift_hsv", "stages", "with_mean",
]  # fmt: skip
