"""The tensors of a segment: one row per sample, differentiable, produced by a transform's ``lower``.

Owns: the fields of each primitive.
Must not: compute.
Read next: ``chain.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.geometry.bends import Bend
from pellucid.types import Fill

__all__ = [
    "Call",
    "Codec",
    "Color",
    "ColorSteps",
    "Convolve",
    "Curve",
    "Filter",
    "Grain",
    "Hsv",
    "Layers",
    "Median",
    "Mixture",
    "Noise",
    "Patch",
    "Segment",
    "Sharpen",
    "Tone",
    "Warp",
]


class Warp(NamedTuple):
    """A homography in pixels, the crop rectangle (pixel centres x0, y0, x1, y1) if the transform has one, and displacements of
    its output's pixels that come before the homography if it has those.
    """

    src_from_dst: Float[Tensor, "b 3 3"]
    window: Float[Tensor, "b 4"] | None = None
    bend: Bend | None = None


class Color(NamedTuple):
    """matrix @ x + offset + pivot * (mean luma so far), then a hue rotation, then ``post`` @ x.

    With ``plain_pivot`` the mean of the channels' means in the place of luma.
    """

    matrix: Float[Tensor, "b c c"]
    offset: Float[Tensor, "b c"] | None = None
    pivot: Float[Tensor, "b"] | None = None
    hue_shift: Float[Tensor, "b"] | None = None
    post: Float[Tensor, "b c c"] | None = None
    plain_pivot: bool = False


class ColorSteps(NamedTuple):
    """torchvision's clipped steps: the order per sample, and the factors of those that take part."""

    order: Int64[Tensor, "b 4"] | None
    factors: dict[str, Float[Tensor, "b"]]


class Curve(NamedTuple):
    """gain * x ** exponent, then a clip to [0, 1] if asked."""

    exponent: Float[Tensor, "b"]
    gain: Float[Tensor, "b"]
    clip: bool


class Hsv(NamedTuple):
    """What is added to hue, saturation and value, where the gate is open; the latter two clipped."""

    hue: Float[Tensor, "b"]
    saturation: Float[Tensor, "b"]
    value: Float[Tensor, "b"]
    gate: Float[Tensor, "b"] | None


class Tone(NamedTuple):
    """A tone curve with jumps, or one read off the histogram, by name, with the surrogate gradients it was given."""

    name: str
    amount: Float[Tensor, "b"] | None
    gate: Float[Tensor, "b"] | None
    image_gradient: str
    magnitude: str
    h: float
    tiles: tuple[int, int] = (1, 1)


class Convolve(NamedTuple):
    """A vertical and a horizontal kernel."""

    vertical: Float[Tensor, "b kh"]
    horizontal: Float[Tensor, "b kw"]


class Filter(NamedTuple):
    """A square kernel."""

    kernel: Float[Tensor, "b k k"]


class Median(NamedTuple):
    """The median of so many rows and columns, where the gate is open."""

    taps: tuple[int, int]
    gate: Float[Tensor, "b"] | None


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


class Grain(NamedTuple):
    """Noise by the name of its law: a field keyed by two words, the law's numbers, its gate, and a clip to [0, 1] if asked."""

    law: str
    words: Int64[Tensor, "b 2"]
    numbers: tuple[Float[Tensor, "b"], ...]
    gate: Float[Tensor, "b"] | None
    clip: bool
    most: float


class Patch(NamedTuple):
    """Rectangles (pixel edges x0, y0, x1, y1) of a colour, or of noise when ``value`` is None."""

    box: Float[Tensor, "b n 4"]
    value: Float[Tensor, "b c"] | None
    words: Int64[Tensor, "b 2"] | None


class Codec(NamedTuple):
    """JPEG at a quality where the gate is open, with the surrogate gradients it was given."""

    quality: Float[Tensor, "b"]
    gate: Float[Tensor, "b"] | None
    subsampling: str
    image_gradient: str
    h: float


class Layers(NamedTuple):
    """Reads laid over one another, the lowest first.

    Args:
        opacity: how much of each shows, in [0, 1].
        box: the rectangle (pixel edges x0, y0, x1, y1) in which it shows; None: everywhere.
        src_from_dst: output pixel to input pixel; None: as they are.
        share: of the result, for labels; None where labels stay as they are.
        edge: over how many pixels rectangles fade out; 0: they hold the pixels whose centres they hold.
        fill: what shows where no read does, in the image's own units.
    """

    opacity: Float[Tensor, "b k"]
    box: Float[Tensor, "b k 4"] | None = None
    src_from_dst: Float[Tensor, "b k 3 3"] | None = None
    share: Float[Tensor, "b k"] | None = None
    edge: float = 0.0
    fill: Fill = 0.0


class Call(NamedTuple):
    """A function of images, where the gate is open, with the gradient to the image that it was given."""

    function: Callable[[Tensor], Tensor]
    gate: Float[Tensor, "b"] | None
    image_gradient: str


class Mixture(NamedTuple):
    """How much of the image stays as it is, and what shares of the rest chains have: each its drawn values by step."""

    chains: tuple[tuple[Mapping[str, Tensor], ...], ...]
    share: Float[Tensor, "b"]
    weights: Float[Tensor, "b k"]


Segment: TypeAlias = (
    Call
    | Codec
    | Warp
    | Color
    | ColorSteps
    | Curve
    | Convolve
    | Filter
    | Grain
    | Hsv
    | Layers
    | Median
    | Mixture
    | Sharpen
    | Noise
    | Patch
    | Tone
)
