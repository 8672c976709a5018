"""Local features that train end to end: detectors, frames, patches, descriptors, and what trains and measures them.

Owns: the public names of `pellucid.features`.
Must not: import OpenCV, scikit-image or matplotlib; what needs them imports them inside its functions.
Read next: ``frames.py``, ``keypoints.py``, ``hardnet.py``.
"""

from pellucid.core.docstrings import introduce
from pellucid.features.classical import dog_response, harris_response, hessian_response, shi_tomasi_response, structure_tensor
from pellucid.features.collapse import CollapseError, CollapseGuard
from pellucid.features.covariant_loss import agreement_loss, covariant_index_loss, dispersity_loss, peakiness_loss
from pellucid.features.detect import Detections, detect, frame_covariance_loss
from pellucid.features.detector_step import DetectorLosses, detector_losses
from pellucid.features.export import export_descriptor
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
from pellucid.features.joint import JointLosses, joint_losses, keypoint_pair_loss
from pellucid.features.keypoint_net import DetectorMaps, KeypointNet
from pellucid.features.keypoints import Keypoints, select_keypoints, suppress_non_maxima
from pellucid.features.negatives import near_in_image
from pellucid.features.patches_snr import GradientSignal, keypoint_gradient_signal
from pellucid.features.response_correlation import consistency_loss, imitation_loss
from pellucid.features.response_windows import SharedView, share_view
from pellucid.features.sift import SiftKeypoints, describe_sift, detect_sift
from pellucid.features.soft_argmax import soft_argmax
from pellucid.features.weights import load_descriptor, load_detector, save_descriptor, save_detector
from pellucid.functional.patches import extract_patches, patch_coverage

__all__ = [
    "CollapseError", "CollapseGuard", "Detections", "DetectorLosses", "DetectorMaps", "GradientSignal", "HardNet", "JointLosses",
    "KeypointNet", "Keypoints", "SharedView", "SiftKeypoints", "agreement_loss", "compose_frames", "consistency_loss",
    "covariant_index_loss", "describe_sift", "detect", "detect_sift", "detector_losses", "dispersity_loss", "dog_response",
    "export_descriptor", "extract_patches", "frame_center", "frame_corners", "frame_covariance_loss", "frame_orientation",
    "frame_scale", "frames_from_cv2", "frames_from_ellipses", "frames_from_xy", "frames_inside", "frames_to_cv2",
    "frames_to_ellipses", "harris_response", "hessian_response", "imitation_loss", "joint_losses", "keypoint_gradient_signal",
    "keypoint_pair_loss", "load_descriptor", "load_detector", "map_frames", "near_in_image", "patch_coverage", "peakiness_loss",
    "rescale_frames", "save_descriptor", "save_detector", "select_keypoints", "share_view", "shi_tomasi_response", "soft_argmax",
    "structure_tensor", "suppress_non_maxima", "turn_frames", "upright_frames",
]  # fmt: skip

introduce(*map(globals().get, __all__))
