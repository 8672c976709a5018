"""Boxes as small tensors: formats, maps through a homography, clipping and visibility.

Owns: the public names of the box maths.
Must not: know about images, transforms or losses; everything here is a pure function of box tensors.
Read next: ``formats.py``.
"""

from pellucid.boxes.clip import box_area, clip_boxes, visible
from pellucid.boxes.formats import BoxFormat, convert_boxes
from pellucid.boxes.tracks import Tracks, as_tracks
from pellucid.boxes.transform import transform_boxes

__all__ = ["BoxFormat", "Tracks", "as_tracks", "box_area", "clip_boxes", "convert_boxes", "transform_boxes", "visible"]
