"""A pipeline as a transform of torchvision's second generation.

Owns: finding the targets in a nested sample, and turning results back into PIL images.
Must not: import torchvision; a caller with its tensor classes has imported it.
Read next: ``../../targets/torchvision.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten_with_path, tree_unflatten

from pellucid.pipeline import Pipeline
from pellucid.targets.arrays import is_array
from pellucid.targets.torchvision import class_of

__all__ = ["PipelineTransform"]

_BESIDE = ("labels", "iscrowd")


class PipelineTransform(nn.Module):
    """Draws once for each sample."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__()
        self.pipeline = pipeline

    def forward(self, *inputs: Any) -> Any:
        """Move the targets of one sample."""
        leaves, spec = tree_flatten_with_path(inputs if len(inputs) > 1 else inputs[0])
        values = [leaf for _, leaf in leaves]
        kinds = {i: kind for i, value in enumerate(values) if (kind := _kind(value))}
        if "image" not in kinds.values():
            plain = next((i for i, value in enumerate(values) if type(value) is Tensor), None)
            kinds |= {} if plain is None else {plain: "image"}
        names = {i: kind if kind not in list(kinds.values())[:n] else f"{kind}_{i}" for n, (i, kind) in enumerate(kinds.items())}
        if self.pipeline.options.drop_invalid and "boxes" in names.values():
            names |= {i: key for i, (path, _) in enumerate(leaves) if (key := str(getattr(path[-1], "key", ""))) in _BESIDE}
        found = self.pipeline({name: values[i] for i, name in names.items()})
        for i, name in names.items():
            values[i] = _as_pillow(found[name]) if is_array(values[i]) else found[name]
        return tree_unflatten(values, spec)


def _kind(value: object) -> str | None:
    known = class_of(value)
    return known[0] if known else "image" if is_array(value) and not isinstance(value, np.ndarray) else None


def _as_pillow(image: Tensor) -> Any:
    """Convert a picture of bytes (C, H, W) to a PIL image; other dtypes stay tensors."""
    if image.dtype != torch.uint8:
        return image
    from PIL import Image

    pixels = image.movedim(0, -1).contiguous().numpy()
    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
