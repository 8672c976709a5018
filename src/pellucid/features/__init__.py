"""Local features that train end to end: detectors, frames, patches, descriptors, and what trains and measures them.

Owns: the public names of the features.
Must not: import OpenCV, scikit-image or matplotlib; what needs them imports them inside its functions.
Read next: ``hardnet.py``, ``classical.py``, ``keypoints.py``.
"""

from pellucid.features.classical import dog_response, harris_response, hessian_response, shi_tomasi_response, structure_tensor
from pellucid.features.hardnet import HardNet
from pellucid.features.keypoints import Keypoints, select_keypoints, suppress_non_maxima
from pellucid.features.soft_argmax import soft_argmax

__all__ = [
    "HardNet",
    "Keypoints",
    "dog_response",
    "harris_response",
    "hessian_response",
    "select_keypoints",
    "shi_tomasi_response",
    "soft_argmax",
    "structure_tensor",
    "suppress_non_maxima",
]
