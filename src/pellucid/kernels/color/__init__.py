"""Pointwise colour: affine maps, hue rotation, clipping, and the step-by-step jitter.

Owns: the names of the pointwise stages.
Must not: resample.
Read next: ``reference.py``.
"""

from pellucid.kernels.color.reference import affine, clip, hue, jitter_steps

__all__ = ["affine", "clip", "hue", "jitter_steps"]
