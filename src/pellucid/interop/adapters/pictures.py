"""Replay a record on NumPy arrays, and return them in their own layout.

Owns: the conversion of (H, W, C) and (H, W) before and after a replay.
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
    """Replay a record on an image (H, W, C) or (H, W); the result is contiguous."""
    found = np.ascontiguousarray(pipeline.apply(image, record).detach().movedim(0, -1).numpy())
    return found if image.ndim > 2 else found[..., 0]


def mask_through(pipeline: Pipeline, record: Record, mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Replay a record on a mask (H, W) or (H, W, C); the result is contiguous."""
    planes = torch.from_numpy(np.ascontiguousarray(mask if mask.ndim == 2 else np.moveaxis(mask, -1, 0)))
    found = pipeline.apply({"mask": planes}, record)["mask"].numpy()
    return np.ascontiguousarray(found if mask.ndim == 2 else np.moveaxis(found, 0, -1))


def rows_through(pipeline: Pipeline, record: Record, kind: str, rows: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Replay a record on ``boxes`` (n, 4) or ``keypoints`` (n, 2) in float64; also return which rows are still valid."""
    found = pipeline.apply({kind: torch.from_numpy(np.array(rows, np.float64))}, record)
    return found[kind].detach().numpy(), found[f"{kind}_valid"].numpy()
