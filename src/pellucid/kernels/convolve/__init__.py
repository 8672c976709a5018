"""Per-sample convolution with small kernels.

Owns: the names `separable` and `interior`.
Must not: know what the kernels are for.
Read next: ``reference.py``.
"""

from pellucid.kernels.convolve.reference import interior, separable

__all__ = ["interior", "separable"]
