"""The tensors of a segment: one row per sample, differentiable, produced by a transform's ``lower``.

Owns: the fields of each primitive.
Must not: compute.
Read next: ``chain.py``.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from jaxtyping import Float, Int64
from torch import Tensor

__all__ = ["Codec", "Color", "ColorSteps", "Convolve", "Curve", "Noise", "Patch", "Segment", "Sharpen", "Tone", "Warp"]


class Warp(NamedTuple):
    """A homography in pixels, and the crop rectangle (pixel centres x0, y0, x1, y1) if the transform has one."""

    src_from_dst: Float[Tensor, "b 3 3"]
    window: Float[Tensor, "b 4"] | None = None


class Color(NamedTuple):
    """matrix @ x + offset + pivot * (mean luma so far), then a hue rotation, then ``post`` @ x."""

    matrix: Float[Tensor, "b c c"]
    offset: Float[Tensor, "b c"] | None = None
    pivot: Float[Tensor, "b"] | None = None
    hue_shift: Float[Tensor, "b"] | None = None
    post: Float[Tensor, "b c c"] | None = None


class ColorSteps(NamedTuple):
    """torchvision's clipped steps: the order per sample, and the factors of those that take part."""

    order: Int64[Tensor, "b 4"] | None
    factors: dict[str, Float[Tensor, "b"]]


class Curve(NamedTuple):
    """gain * x ** exponent, then a clip to [0, 1] if asked."""

    exponent: Float[Tensor, "b"]
    gain: Float[Tensor, "b"]
    clip: bool


class Tone(NamedTuple):
    """A tone curve with jumps, or one read off the histogram, by name, with the surrogate gradients it was given."""

    name: str
    amount: Float[Tensor, "b"] | None
    gate: Float[Tensor, "b"] | None
    image_gradient: str
    magnitude: str
    h: float


class Convolve(NamedTuple):
    """A vertical and a horizontal kernel."""

    vertical: Float[Tensor, "b kh"]
    horizontal: Float[Tensor, "b kw"]


class Sharpen(NamedTuple):
    """A 3x3 kernel on the interior, then a clip to [0, 1] if asked."""

    kernel: Float[Tensor, "b 3 3"]
    clip: bool


class Noise(NamedTuple):
    """Additive Gaussian noise keyed by two words, then a clip to [0, 1] if asked."""

    words: Int64[Tensor, "b 2"]
    mean: Float[Tensor, "b"]
    sigma: Float[Tensor, "b"]
    clip: bool


class Patch(NamedTuple):
    """A rectangle (pixel edges x0, y0, x1, y1) of a colour, or of noise when ``value`` is None."""

    box: Float[Tensor, "b 4"]
    value: Float[Tensor, "b c"] | None
    words: Int64[Tensor, "b 2"] | None


class Codec(NamedTuple):
    """JPEG at a quality where the gate is open, with the surrogate gradients it was given."""

    quality: Float[Tensor, "b"]
    gate: Float[Tensor, "b"] | None
    subsampling: str
    image_gradient: str
    h: float


Segment: TypeAlias = Codec | Warp | Color | ColorSteps | Curve | Convolve | Sharpen | Noise | Patch | Tone
