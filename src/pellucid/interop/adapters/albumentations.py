"""A pipeline as a transform of albumentations.

Owns: the conversion of albumentations' targets: boxes as fractions followed by label columns, keypoints with angles and scales.
Must not: be imported where albumentations is not installed.
Read next: ``pictures.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from albumentations import DualTransform
from albumentations.core.type_definitions import Targets

from pellucid.interop.adapters.pictures import image_through, mask_through, rows_through
from pellucid.pipeline import Pipeline
from pellucid.pipeline.records import Record

__all__ = ["PipelineTransform"]

Array = np.ndarray[Any, Any]


class PipelineTransform(DualTransform):  # type: ignore[misc]  # the peer's stubs are not read
    """Draws once for each call, and applies the draw to every target of the call."""

    _targets = (Targets.IMAGE, Targets.MASK, Targets.BBOXES, Targets.KEYPOINTS)

    def __init__(self, pipeline: Pipeline | dict[str, Any], p: float = 1.0) -> None:
        super().__init__(p=p)
        # A.from_dict passes the table that A.to_dict wrote; Ultralytics' trainer sends every transform through both.
        self.pipeline = pipeline if isinstance(pipeline, Pipeline) else Pipeline.from_dict(pipeline)

    def get_params_dependent_on_data(self, params: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
        """Draw for the picture of this call."""
        image = data["image"] if "image" in data else data["images"][0]
        return {"record": self.pipeline.draw(image), "sides": np.array(image.shape[1::-1] * 2, np.float64)}

    def apply(self, img: Array, record: Record, **params: Any) -> Array:
        """The picture, (H, W, C) or (H, W)."""
        return image_through(self.pipeline, record, img)

    def apply_to_mask(self, mask: Array, record: Record, **params: Any) -> Array:
        """A mask, (H, W) or (H, W, C)."""
        return mask_through(self.pipeline, record, mask)

    def apply_to_bboxes(self, bboxes: Array, record: Record, sides: Array, **params: Any) -> Array:
        """Rows (n, 4 and more): fractions of the picture's sides, then labels; rows whose box left the picture are dropped."""
        if not bboxes.size:  # an empty array has no columns
            return bboxes
        moved, valid = rows_through(self.pipeline, record, "boxes", bboxes[:, :4] * sides)
        height, width = record.plan.size_out
        return np.concatenate((moved / np.array((width, height) * 2), bboxes[:, 4:]), 1).astype(bboxes.dtype)[valid]

    def apply_to_keypoints(self, keypoints: Array, record: Record, **params: Any) -> Array:
        """Rows (n, 2 and more): x and y in pixels move; further columns are unchanged."""
        if not keypoints.size:
            return keypoints
        moved, _ = rows_through(self.pipeline, record, "keypoints", keypoints[:, :2])
        return np.concatenate((moved, keypoints[:, 2:]), 1).astype(keypoints.dtype)

    def get_transform_init_args(self) -> dict[str, Any]:
        """The arguments that ``A.to_dict`` writes."""
        return {"pipeline": self.pipeline.to_dict(), "p": self.p}
