"""Several reads laid over one another.

Owns: the name `layers`.
Must not: know which samples are partners, or what for.
Read next: ``reference.py``.
"""

from pellucid.kernels.layers.reference import layers

__all__ = ["layers"]
