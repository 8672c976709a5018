"""Local features that train end to end: detectors, frames, patches, descriptors, and what trains and measures them.

Owns: the public names of the features.
Must not: import OpenCV, scikit-image or matplotlib; what needs them imports them inside its functions.
Read next: ``hardnet.py``, ``classical.py``.
"""

from pellucid.features.hardnet import HardNet

__all__ = ["HardNet"]
