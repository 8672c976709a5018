"""Small shared types.

Owns: the names of sizes, fills and modes, and the static description of an image batch.
Must not: hold tensors, or import anything else of Pellucid.
Read next: ``random/key.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch

__all__ = [
    "DEEP", "FLOATING", "ClipRule", "CodecGradient", "EndClip", "Fill", "ImageGradient", "ImageSpec", "Interpolation",
    "Magnitude", "Padding", "PaddingMode", "Pairing", "Point", "RandomNoise", "Size", "Size3", "Subsampling", "Surrogate",
]  # fmt: skip

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The floating-point dtypes of images; torch only stores narrower ones, and cannot compute in them."""

DEEP = {torch.uint16: 65535, torch.int16: 32767}
"""The dtypes of 16-bit pictures, and the value that stands for 1.0."""

Size: TypeAlias = tuple[int, int]
"""(height, width), in pixels."""

Size3: TypeAlias = tuple[int, int, int]
"""(depth, height, width), in voxels."""

Fill: TypeAlias = float | tuple[float, ...]
"""One value for every channel, or one value per channel, in the image's own units."""

Point: TypeAlias = tuple[float, float]
"""(x, y), in pixels."""

Padding: TypeAlias = int | tuple[int, int] | tuple[int, int, int, int]
"""Pixels on every side, (left-right, top-bottom) or (left, top, right, bottom)."""

Interpolation: TypeAlias = Literal["bilinear", "nearest", "bicubic"]
PaddingMode: TypeAlias = Literal["zeros", "constant", "border", "reflection", "reflect_101"]
ClipRule: TypeAlias = Literal["end", "each", "none"]
EndClip: TypeAlias = Literal["end", "none"]
ImageGradient: TypeAlias = Literal["straight_through", "soft", "none"]
RandomNoise: TypeAlias = Literal["random"]
CodecGradient: TypeAlias = Literal["proximity", "cubic", "straight_through", "none"]
Pairing: TypeAlias = Literal["xor", "roll"]
Subsampling: TypeAlias = Literal["4:2:0", "4:2:2", "4:4:4"]
Surrogate: TypeAlias = Literal["secant", "straight_through", "none"]
Magnitude: TypeAlias = Surrogate  # its name up to 0.2


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """The facts about images that a transform knows before anything is computed: channels, height and width.

    ``depth`` is 0 for pictures. The slices of a volume lie one below another, so it is a picture of ``depth`` times their height.
    """

    channels: int
    height: int
    width: int
    depth: int = field(default=0, repr=False)

    @staticmethod
    def of(channels: int, extent: tuple[int, ...]) -> ImageSpec:
        """Describe pictures of (height, width), or volumes of (depth, height, width)."""
        depth = extent[0] if len(extent) == 3 else 0
        return ImageSpec(channels, extent[-2] * (depth if len(extent) == 3 else 1), extent[-1], depth)

    @property
    def size(self) -> Size:
        """(height, width)."""
        return (self.height, self.width)

    @property
    def extent(self) -> tuple[int, ...]:
        """(height, width) of pictures, or (depth, height, width) of volumes."""
        return (self.depth, self.height // self.depth, self.width) if self.depth else self.size

    def resized(self, extent: tuple[int, ...]) -> ImageSpec:
        """Return this kind of image at another (height, width), or (depth, height, width)."""
        return ImageSpec.of(self.channels, extent)
