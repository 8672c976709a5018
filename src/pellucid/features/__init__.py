"""Local features that train end to end: frames, patches, and what is built on them.

Owns: the public names of `pellucid.features`.
Must not: import OpenCV, scikit-image or matplotlib.
Read next: ``frames.py``.
"""

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
from pellucid.features.patches import extract_patches, patch_coverage

__all__ = [
    "compose_frames",
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
    "map_frames",
    "patch_coverage",
    "rescale_frames",
    "turn_frames",
    "upright_frames",
]
