"""A picture through a lossy codec and back.

Owns: the names `jpeg`, and `compress`, which picks an implementation.
Must not: write or read files.
Read next: ``reference.py``, ``surrogate.py``.
"""

from pellucid.kernels.codec.surrogate import AVAILABLE, compress, jpeg

__all__ = ["AVAILABLE", "compress", "jpeg"]
