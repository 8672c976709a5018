"""ImageNet-C's corruptions at any size, by key, with gradients.

Owns: the public names.
Must not: be needed by any other part.
Read next: ``call.py``.
"""

from pellucid.corruptions.call import GRADIENTS, NAMES, corrupt

__all__ = ["GRADIENTS", "NAMES", "corrupt"]
