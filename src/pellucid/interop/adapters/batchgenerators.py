"""A pipeline as a transform of batchgeneratorsv2.

Owns: the translation of batchgenerators' names for a sample's entries.
Must not: import batchgeneratorsv2.
Read next: ``__init__.py``.
"""

from __future__ import annotations

from typing import Any

from pellucid.errors import invalid
from pellucid.pipeline import Pipeline

__all__ = ["PipelineTransform"]

_NAMES = {"image": "image", "segmentation": "mask", "regression_target": "heatmap"}
_IN_SPACE = {"image": "volume", "segmentation": "labelmap"}


class PipelineTransform:
    """Draws once for each call, and moves all entries by this draw."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    def __call__(self, **entries: Any) -> dict[str, Any]:
        """Move the entries of one sample."""
        given = {name: value for name, value in entries.items() if name in _NAMES and value is not None}
        deep = any(value.dim() == 4 for value in given.values())
        if deep and "regression_target" in given:
            raise invalid("regression_target", expected="none beside volumes", got=tuple(given["regression_target"].shape))
        ours = {name: (_IN_SPACE if deep else _NAMES)[name] for name in given}
        found = self.pipeline({kind: entries[name] for name, kind in ours.items()})
        return {name: found[ours[name]] if name in ours else value for name, value in entries.items()}
