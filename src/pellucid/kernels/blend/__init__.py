"""Per-sample mixing of the image with something else.

Owns: the names `patch` and `noise`.
Must not: draw randomness; noise comes from words that are arguments.
Read next: ``reference.py``.
"""

from pellucid.kernels.blend.reference import gaussian_field, noise, patch

__all__ = ["gaussian_field", "noise", "patch"]
