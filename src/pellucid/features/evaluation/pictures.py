"""Pictures of matches: two views side by side, right matches green, wrong ones red.

Owns: the drawing.
Must not: choose what is right; the measurement did.
Read next: ``run.py``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid.core.files import written
from pellucid.errors import invalid
from pellucid.features.evaluation.protocol import Described, PairResult

__all__ = ["draw_matches", "stack_pictures"]

_RIGHT, _WRONG = (40, 190, 90), (225, 60, 60)
_GAP = 8


def draw_matches(
    images: tuple[Tensor, Tensor], described: tuple[Described, Described], result: PairResult, *, most: int = 150, caption: str = ""
) -> Any:
    """Draw at most ``most`` of a pair's matches, evenly sampled, below a caption.

    Returns:
        A Pillow image.
    """
    from PIL import Image, ImageDraw

    left, right = (_picture(image) for image in images)
    height, top = max(left.height, right.height), 22 if caption else 0
    canvas = Image.new("RGB", (left.width + _GAP + right.width, height + top), "white")
    canvas.paste(left, (0, top))
    canvas.paste(right, (left.width + _GAP, top))
    pen = ImageDraw.Draw(canvas, "RGBA")
    if caption:
        pen.text((4, 4), caption, fill=(20, 20, 20, 255), font_size=14)
    number = len(result.pairs)
    chosen = torch.linspace(0, number - 1, min(most, number)).round().long() if number else torch.zeros(0, dtype=torch.int64)
    # Wrong ones first, so that they do not hide the right ones.
    order = chosen[torch.argsort(result.right[chosen].int(), stable=True)]
    shift = torch.tensor([left.width + _GAP, top])
    starts = described[0].points[result.pairs[order, 0]] + torch.tensor([0, top])
    ends = described[1].points[result.pairs[order, 1]] + shift
    for start, end, good in zip(starts.tolist(), ends.tolist(), result.right[order].tolist(), strict=True):
        color = _RIGHT if good else _WRONG
        pen.line([*start, *end], fill=(*color, 150), width=1)
        for x, y in (start, end):
            pen.ellipse([x - 2, y - 2, x + 2, y + 2], outline=(*color, 255))
    return canvas


def stack_pictures(pictures: list[Any], path: str | os.PathLike[str]) -> Path:
    """Write pictures below one another into a PNG file, atomically."""
    from PIL import Image

    if not pictures:
        raise invalid("pictures", expected="at least one", got="none")
    canvas = Image.new("RGB", (max(p.width for p in pictures), sum(p.height + _GAP for p in pictures) - _GAP), "white")
    y = 0
    for picture in pictures:
        canvas.paste(picture, (0, y))
        y += picture.height + _GAP
    return written(path, lambda draft: canvas.save(draft, format="PNG"))


def _picture(image: Tensor) -> Any:
    from PIL import Image

    return Image.fromarray((image[0].clamp(0.0, 1.0) * 255.0).round().to(torch.uint8).numpy()).convert("RGB")
