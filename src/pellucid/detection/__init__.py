"""Box arithmetic and the decoder of a detection head, differentiable throughout.

Owns: the public names of detection, those of :mod:`pellucid.boxes` included.
Must not: train, match or suppress by itself.
Read next: ``decoder.py``.
"""

from pellucid.boxes import box_area, clip_boxes, convert_boxes, transform_boxes
from pellucid.detection.arithmetic import flip_boxes, normalize_boxes, refine_boxes, scale_boxes
from pellucid.detection.decoder import DetectionDecoder, Detections
from pellucid.detection.fusion import weighted_box_fusion
from pellucid.detection.overlap import box_iou, generalized_box_iou
from pellucid.detection.rotated_iou import rotated_box_iou
from pellucid.detection.suppression import nms, soft_nms

__all__ = [
    "DetectionDecoder", "Detections", "box_area", "box_iou", "clip_boxes", "convert_boxes", "flip_boxes", "generalized_box_iou",
    "nms", "normalize_boxes", "refine_boxes", "rotated_box_iou", "scale_boxes", "soft_nms", "transform_boxes",
    "weighted_box_fusion",
]  # fmt: skip
