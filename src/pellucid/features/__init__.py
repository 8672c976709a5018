"""Local features that train end to end: detectors, frames, patches, descriptors, and what trains and measures them.

Owns: the public names of `pellucid.features`.
Must not: import OpenCV, scikit-image or matplotlib; what needs them imports them inside its functions.
Read next: ``frames.py``, ``keypoints.py``, ``hardnet.py``.
"""

from pellucid.features.classical import dog_response, harris_response, hessian_response, shi_tomasi_response, structure_tensor
from pellucid.features.frames import (
    compose_frames,
    frame_center,
    frame_corners,
    frame_orientation,
    frame_scale,
    frames_from_xy,
    frames_inside,
    map_frames,
    rescale_frames,
    turn_frames,
    upright_frames,
)
from pellucid.features.frames_cv2 import frames_from_cv2, frames_from_ellipses, frames_to_cv2, frames_to_ellipses
from pellucid.features.hardnet import HardNet
from pellucid.features.keypoints import Keypoints, select_keypoints, suppress_non_maxima
from pellucid.features.patches import extract_patches, patch_coverage
from pellucid.features.patches_snr import GradientSignal, keypoint_gradient_signal
from pellucid.features.soft_argmax import soft_argmax

__all__ = [
    "GradientSignal",
    "HardNet",
    "Keypoints",
    "compose_frames",
    "dog_response",
    "extract_patches",
    "frame_center",
    "frame_corners",
    "frame_orientation",
    "frame_scale",
    "frames_from_cv2",
    "frames_from_ellipses",
    "frames_from_xy",
    "frames_inside",
    "frames_to_cv2",
    "frames_to_ellipses",
    "harris_response",
    "hessian_response",
    "keypoint_gradient_signal",
    "map_frames",
    "patch_coverage",
    "rescale_frames",
    "select_keypoints",
    "shi_tomasi_response",
    "soft_argmax",
    "structure_tensor",
    "suppress_non_maxima",
    "turn_frames",
    "upright_frames",
]
