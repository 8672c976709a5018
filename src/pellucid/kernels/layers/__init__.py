"""Several reads laid over one another.

Owns: the name `lay`.
Must not: know which samples are partners, or what for.
Read next: ``reference.py``.
"""

from pellucid.kernels.layers.reference import lay

__all__ = ["lay"]
