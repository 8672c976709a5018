"""Pictures as arrays: in, through a record, and out in the layout they came in.

Owns: (H, W, C) and (H, W) around a replay.
Must not: draw.
Read next: ``albumentations.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pellucid.pipeline import Pipeline
from pellucid.pipeline.records import Record

__all__ = ["image_through", "mask_through", "rows_through"]


def image_through(pipeline: Pipeline, record: Record, image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An image (H, W, C) or (H, W), replayed; contiguous."""
    found = np.ascontiguousarray(pipeline.apply(image, record).detach().movedim(0, -1).numpy())
    return found if image.ndim > 2 else found[..., 0]


def mask_through(pipeline: Pipeline, record: Record, mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A mask (H, W) or (H, W, C), replayed; contiguous."""
    planes = torch.from_numpy(np.ascontiguousarray(mask if mask.ndim == 2 else np.moveaxis(mask, -1, 0)))
    found = pipeline.apply({"mask": planes}, record)["mask"].numpy()
    return np.ascontiguousarray(found if mask.ndim == 2 else np.moveaxis(found, 0, -1))


def rows_through(pipeline: Pipeline, record: Record, kind: str, rows: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Rows of a kind, as ``boxes`` (n, 4) or ``keypoints`` (n, 2), replayed in float64; and which are still there."""
    found = pipeline.apply({kind: torch.from_numpy(np.array(rows, np.float64))}, record)
    return found[kind].detach().numpy(), found[f"{kind}_valid"].numpy()
