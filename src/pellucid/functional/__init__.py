"""Pure functions: image first, parameters with gradients, options by keyword.

Owns: the public names of the functional interface.
Must not: draw anything at random or keep state.
Read next: ``warps.py``.
"""

from pellucid.functional.warps import remap, warp, warp_affine, warp_perspective

__all__ = ["remap", "warp", "warp_affine", "warp_perspective"]
