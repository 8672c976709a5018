"""Small shared types.

Owns: the names of sizes, fills and modes, and the static description of an image batch.
Must not: hold tensors or import anything of Pellucid's but errors.
Read next: ``random/key.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch

__all__ = ["FLOATING", "ClipRule", "Fill", "ImageSpec", "Size"]

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The floating-point numbers images may hold; torch has narrower ones, with which it computes nothing."""

Size: TypeAlias = tuple[int, int]
"""(height, width), in pixels."""

Fill: TypeAlias = float | tuple[float, ...]
"""One value for every channel, or one value per channel, in the image's own units."""

ClipRule: TypeAlias = Literal["end", "each", "none"]


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """What a transform may know of the images before any value exists: channels, height and width."""

    channels: int
    height: int
    width: int

    @property
    def size(self) -> Size:
        """(height, width)."""
        return (self.height, self.width)

    def resized(self, size: Size) -> ImageSpec:
        """The same channels at another (height, width)."""
        return ImageSpec(self.channels, size[0], size[1])
