"""A pipeline as a transform of batchgeneratorsv2.

Owns: the names of a sample's entries there.
Must not: import batchgeneratorsv2.
Read next: ``__init__.py``.
"""

from __future__ import annotations

from typing import Any

from pellucid.pipeline import Pipeline

__all__ = ["PipelineTransform"]

_NAMES = {"image": "image", "segmentation": "mask", "regression_target": "heatmap"}


class PipelineTransform:
    """One draw of a pipeline for each call."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    def __call__(self, **entries: Any) -> dict[str, Any]:
        """Move the entries of one sample."""
        found = self.pipeline({ours: entries[name] for name, ours in _NAMES.items() if name in entries})
        return {name: found[_NAMES[name]] if name in _NAMES else value for name, value in entries.items()}
