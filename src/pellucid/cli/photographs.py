"""The demo's photographs with their targets, cut to one size by Pellucid itself.

Owns: rasterising outlines, and the batch dict the demo augments.
Must not: download; every picture is part of scikit-image's wheel.
Read next: ``demo.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pellucid.cli.annotations import Annotation, Ellipse
from pellucid.cli.files import to_tensor

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["load_batch"]

_OVERSAMPLE = 4


def load_batch(annotations: Sequence[Annotation], size: int) -> dict[str, Tensor]:
    """Load, cut to the central square and resize to ``size``: image, mask, boxes and keypoints with their valid flags."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    singles = [_prepare(annotation, size) for annotation in annotations]
    # Photographs have different numbers of objects; rows are padded to the largest, and the valid flags mark the real ones.
    batch = {key: torch.stack([single[key] for single in singles]) for key in ("image", "mask")}
    for key in ("boxes", "keypoints"):
        batch[key] = pad_sequence([single[key] for single in singles], batch_first=True)
        batch[f"{key}_valid"] = pad_sequence([single[f"{key}_valid"] for single in singles], batch_first=True)
    return batch


def _prepare(annotation: Annotation, size: int) -> dict[str, Tensor]:
    import torch

    from pellucid.pipeline import Pipeline
    from pellucid.transforms.crop import CenterCrop
    from pellucid.transforms.resize import Resize

    image = to_tensor(_photograph(annotation.name))
    height, width = image.shape[-2:]
    prepare = Pipeline([CenterCrop(min(height, width)), Resize((size, size))])
    result: dict[str, Tensor] = prepare(
        {
            "image": image,
            "mask": _rasterise(annotation.outlines, height, width),
            "boxes": torch.tensor(annotation.boxes, dtype=torch.float32),
            "keypoints": torch.tensor(annotation.keypoints, dtype=torch.float32) - 0.5,  # edges to pixel centres
        }
    )
    return result


def _photograph(name: str) -> Any:
    from skimage import data

    return getattr(data, name)()


def _rasterise(outlines: Sequence[Ellipse | Sequence[tuple[float, float]]], height: int, width: int) -> Tensor:
    """(H, W) classes: 0 outside, then 1, 2, ... in the order of the outlines; a pixel belongs to the outline around its centre."""
    import numpy as np
    import torch
    from PIL import Image, ImageDraw

    k = _OVERSAMPLE
    canvas = Image.new("L", (width * k, height * k))
    pen = ImageDraw.Draw(canvas)
    for number, outline in enumerate(outlines, 1):
        points = _points_on(outline) if isinstance(outline, Ellipse) else outline
        pen.polygon([(x * k - 0.5, y * k - 0.5) for x, y in points], fill=number)
    return torch.from_numpy(np.array(canvas)[k // 2 :: k, k // 2 :: k].astype(np.int64))


def _points_on(ellipse: Ellipse, count: int = 96) -> list[tuple[float, float]]:
    x0, y0 = (ellipse.left + ellipse.right) / 2, (ellipse.top + ellipse.bottom) / 2
    a, b = (ellipse.right - ellipse.left) / 2, (ellipse.bottom - ellipse.top) / 2
    # The Cholesky factor of [[a^2, lean b], [lean b, b^2]]: the ellipse of this matrix touches the given edges.
    slant = ellipse.lean * b / a
    upright = math.sqrt(b * b - slant * slant)
    angles = [2 * math.pi * i / count for i in range(count)]
    return [(x0 + a * math.cos(t), y0 + slant * math.cos(t) + upright * math.sin(t)) for t in angles]
