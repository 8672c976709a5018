"""A pipeline as an augmentation of Detectron2.

Owns: the conversion of Detectron2's coordinates, in which pixel centres are at halves.
Must not: be imported where Detectron2 is not installed.
Read next: ``pictures.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from detectron2.data.transforms import Augmentation
from fvcore.transforms.transform import Transform

from pellucid.interop.adapters.pictures import image_through, mask_through, rows_through
from pellucid.pipeline import Pipeline
from pellucid.pipeline.records import Record

__all__ = ["PipelineAugmentation"]

Array = np.ndarray[Any, Any]


class Replayed(Transform):  # type: ignore[misc]  # the peer's stubs are not read
    """One draw of a pipeline, applied to a picture and its targets."""

    def __init__(self, pipeline: Pipeline, record: Record) -> None:
        super().__init__()
        self.pipeline, self.record = pipeline, record

    def apply_image(self, img: Array) -> Array:
        """The picture, (H, W, C) or (H, W)."""
        return image_through(self.pipeline, self.record, img)

    def apply_segmentation(self, segmentation: Array) -> Array:
        """Labels, (H, W)."""
        return mask_through(self.pipeline, self.record, segmentation)

    def apply_coords(self, coords: Array) -> Array:
        """Points (n, 2)."""
        return rows_through(self.pipeline, self.record, "keypoints", coords - 0.5)[0] + 0.5


class PipelineAugmentation(Augmentation):  # type: ignore[misc]
    """Makes a new draw for each picture."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__()
        self.pipeline = pipeline

    def get_transform(self, image: Array) -> Replayed:
        """Draw for a picture."""
        return Replayed(self.pipeline, self.pipeline.draw(image))
