"""Alignment of pictures by descent through the warp, and its results.

Owns: the public names.
Must not: compute.
Read next: ``align.py``.
"""

from pellucid.registration.align import Alignment, Step, align
from pellucid.registration.camera import Camera, fit_camera
from pellucid.registration.losses import LOSSES
from pellucid.registration.maps import MODELS
from pellucid.registration.points import refine_matches
from pellucid.registration.volumes import VOLUME_MODELS, VolumeAlignment, align_volumes

__all__ = [
    "LOSSES", "MODELS", "VOLUME_MODELS", "Alignment", "Camera", "Step", "VolumeAlignment", "align", "align_volumes", "fit_camera",
    "refine_matches",
]  # fmt: skip
