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
    "Call", "Cells", "Codec", "Color", "ColorSteps", "Convolve", "Curve", "Filter", "Grain", "Hsv", "Layers", "Median",
    "Mixture", "Noise", "Patch", "Segment", "Sharpen", "Tone", "Warp", "Warp3",
]  # fmt: skip


class Warp(NamedTuple):
    """The input position that each output pixel reads: a homography in pixels.

    Args:
        src_from_dst: output pixel to input pixel.
        window: the crop rectangle (pixel centres x0, y0, x1, y1), if the transform has one.
        bend: displacements of the output's pixels, applied before the homography; None without displacements.

    Example:
        >>> from pellucid.segments import Warp
        >>> Warp(torch.eye(3)[None]).window is None
        True
    """

    src_from_dst: Float[Tensor, "b 3 3"]
    window: Float[Tensor, "b 4"] | None = None
    bend: Bend | None = None


class Warp3(NamedTuple):
    """The input position that each output voxel p reads: src_from_dst (p + d(p)), in voxels (x, y, z).

    Args:
        src_from_dst: output voxel to input voxel.
        control: coefficients of the cubic B-spline d, along x, y and z in voxels of the output; as `pellucid.functional.warp3`
            takes them.

    Example:
        >>> from pellucid.segments import Warp3
        >>> Warp3(torch.eye(4)[None]).control is None
        True
    """

    src_from_dst: Float[Tensor, "b 4 4"]
    control: Float[Tensor, "b 3 gd gh gw"] | None = None


class Color(NamedTuple):
    """An affine map of colours: matrix @ x + offset + pivot * (mean luma so far), then a hue rotation, then ``post`` @ x.

    Args:
        matrix: on channels.
        offset: added to each channel.
        pivot: how much of the mean luma is added.
        hue_shift: of the rotation, in turns.
        post: on channels, after the rotation.
        plain_pivot: use the mean over all channels instead of luma.

    Example:
        >>> from pellucid.segments import Color
        >>> Color(-torch.eye(3)[None], torch.ones(1, 3)).pivot is None  # inverts
        True
    """

    matrix: Float[Tensor, "b c c"]
    offset: Float[Tensor, "b c"] | None = None
    pivot: Float[Tensor, "b"] | None = None
    hue_shift: Float[Tensor, "b"] | None = None
    post: Float[Tensor, "b c c"] | None = None
    plain_pivot: bool = False


class ColorSteps(NamedTuple):
    """torchvision's colour jitter: up to four steps, each of which clips to [0, 1].

    Args:
        order: the drawn order of the four steps for each sample; None for the fixed order.
        factors: by the names of the steps that take part.

    Example:
        >>> from pellucid.segments import ColorSteps
        >>> list(ColorSteps(None, {"brightness": torch.ones(1)}).factors)
        ['brightness']
    """

    order: Int64[Tensor, "b 4"] | None
    factors: dict[str, Float[Tensor, "b"]]


class Curve(NamedTuple):
    """gain * x ** exponent, then a clip to [0, 1] if asked.

    Args:
        exponent: at least 0.
        gain: factor of the result.
        clip: whether to clip.

    Example:
        >>> from pellucid.segments import Curve
        >>> Curve(torch.full((1,), 2.2), torch.ones(1), clip=True).clip
        True
    """

    exponent: Float[Tensor, "b"]
    gain: Float[Tensor, "b"]
    clip: bool


class Hsv(NamedTuple):
    """Numbers that are added to hue, saturation and value; saturation and value are then clipped.

    Args:
        hue: in turns.
        saturation, value: in [-1, 1].
        gate: 1 for samples to which it applies, else 0; None: it applies to all.

    Example:
        >>> from pellucid.segments import Hsv
        >>> Hsv(torch.full((1,), 0.1), torch.zeros(1), torch.zeros(1), gate=None).gate is None
        True
    """

    hue: Float[Tensor, "b"]
    saturation: Float[Tensor, "b"]
    value: Float[Tensor, "b"]
    gate: Float[Tensor, "b"] | None


class Tone(NamedTuple):
    """A tone curve with jumps, or one read off the histogram, by name, with its surrogate gradients.

    Args:
        name: of the curve: ``posterize``, ``solarize``, ``equalize``, ``clahe`` or ``autocontrast``.
        amount: the curve's number, if it has one.
        gate: 1 for samples to which it applies, else 0; None: it applies to all.
        image_gradient, surrogate, h: the surrogates and their width, as in the transforms' options.
        tiles: rows and columns of tiles, each with a histogram of its own.

    Example:
        >>> from pellucid.segments import Tone
        >>> Tone("solarize", torch.full((1,), 0.5), None, "straight_through", "secant", 0.1).tiles
        (1, 1)
    """

    name: str
    amount: Float[Tensor, "b"] | None
    gate: Float[Tensor, "b"] | None
    image_gradient: str
    surrogate: str
    h: float
    tiles: tuple[int, int] = (1, 1)


class Convolve(NamedTuple):
    """A separable convolution: a kernel along the columns, then one along the rows, and in volumes one through the slices.

    Args:
        vertical: of odd length.
        horizontal: of odd length.
        amount: sharpen: add ``amount`` times what the convolution removes; None returns the convolution itself.
        clip: clip a sharpened result to [0, 1].
        through: of odd length; None: the vertical kernel.

    Example:
        >>> from pellucid.segments import Convolve
        >>> Convolve(torch.full((1, 3), 1 / 3), torch.ones(1, 1)).vertical.shape
        torch.Size([1, 3])
    """

    vertical: Float[Tensor, "b kh"]
    horizontal: Float[Tensor, "b kw"]
    amount: Float[Tensor, "b"] | None = None
    clip: bool = False
    through: Float[Tensor, "b kd"] | None = None


class Filter(NamedTuple):
    """A convolution with a square kernel.

    Args:
        kernel: of odd sides.
        clip: whether to clip the result to [0, 1].

    Example:
        >>> from pellucid.segments import Filter
        >>> Filter(torch.full((1, 3, 3), 1 / 9)).kernel.shape
        torch.Size([1, 3, 3])
    """

    kernel: Float[Tensor, "b k k"]
    clip: bool = False


class Median(NamedTuple):
    """The median of each pixel's neighbourhood.

    Args:
        taps: rows and columns of the neighbourhood, odd.
        gate: 1 for samples to which it applies, else 0; None: it applies to all.

    Example:
        >>> from pellucid.segments import Median
        >>> Median((3, 3), gate=None).taps
        (3, 3)
    """

    taps: tuple[int, int]
    gate: Float[Tensor, "b"] | None


class Sharpen(NamedTuple):
    """A 3x3 kernel on the interior, then a clip to [0, 1] if asked.

    Args:
        kernel: convolved with the interior; border pixels stay unchanged.
        clip: whether to clip.

    Example:
        >>> from pellucid.segments import Sharpen
        >>> Sharpen(torch.zeros(1, 3, 3), clip=True).clip
        True
    """

    kernel: Float[Tensor, "b 3 3"]
    clip: bool


class Noise(NamedTuple):
    """Additive Gaussian noise keyed by two words, then a clip to [0, 1] if asked.

    Args:
        words: the two words, 32 bits each.
        mean, sigma: of the noise, in the image's own units.
        clip: whether to clip.

    Example:
        >>> from pellucid.segments import Noise
        >>> Noise(torch.tensor([[1, 2]]), torch.zeros(1), torch.full((1,), 0.1), clip=False).sigma
        tensor([0.1000])
    """

    words: Int64[Tensor, "b 2"]
    mean: Float[Tensor, "b"]
    sigma: Float[Tensor, "b"]
    clip: bool


class Grain(NamedTuple):
    """Noise or light, given by the name of its law or by a formula.

    Args:
        law: ``poisson_gaussian``, ``shot``, ``salt_and_pepper``, ``slope``, ``corner``, ``spot``, ``band``, ``flare``, ``fog``,
            ``light``, ``contrast``, ``shadow``, ``rain``, ``blocks``, ``glass``, ``speckle``, ``snow``, ``rician``, ``labels`` or
            ``gamma_in_range``; or a function of images (b, c, h, w), the words if there are any, and the numbers.
        words: the two words that key the random field, 32 bits each; None for a formula without one.
        numbers: the law's parameters.
        gate: 1 for samples to which it applies, else 0; None: it applies to all.
        clip: whether to clip to [0, 1].
        most: the largest rate, for laws that count events; for ``snow`` its severity; for ``glass`` how far it
            shows pixels from; for ``gamma_in_range``, whether moments stay.

    Example:
        >>> from pellucid.segments import Grain
        >>> Grain("shot", torch.tensor([[1, 2]]), (torch.full((1,), 60.0),), None, clip=True, most=60.0).law
        'shot'
    """

    law: str | Callable[..., Tensor]
    words: Int64[Tensor, "b 2"] | None
    numbers: tuple[Float[Tensor, "b *n"], ...]
    gate: Float[Tensor, "b"] | None
    clip: bool
    most: float


class Patch(NamedTuple):
    """Rectangles (pixel edges x0, y0, x1, y1) filled with a colour, or with noise if ``value`` is None.

    Args:
        box: edges in pixels.
        value: the colour.
        words: two words that key the noise, 32 bits each; None for a colour.

    Example:
        >>> from pellucid.segments import Patch
        >>> Patch(torch.tensor([[[0.0, 0.0, 4.0, 4.0]]]), torch.zeros(1, 3), words=None).box.shape
        torch.Size([1, 1, 4])
    """

    box: Float[Tensor, "b n 4"]
    value: Float[Tensor, "b c"] | None
    words: Int64[Tensor, "b 2"] | None


class Codec(NamedTuple):
    """JPEG compression at a quality, with its surrogate gradients.

    Args:
        quality: 1 to 100.
        gate: 1 for samples to which it applies, else 0; None: it applies to all.
        subsampling: of the colours, such as ``4:2:0``.
        image_gradient, h: the surrogate and its width, as in the transform's options.

    Example:
        >>> from pellucid.segments import Codec
        >>> Codec(torch.full((1,), 75.0), None, "4:2:0", "straight_through", 0.0).quality
        tensor([75.])
    """

    quality: Float[Tensor, "b"]
    gate: Float[Tensor, "b"] | None
    subsampling: str
    image_gradient: str
    h: float


class Layers(NamedTuple):
    """Layers over one another, the lowest first; each reads a picture of the batch.

    Args:
        opacity: of each layer, in [0, 1].
        box: the rectangle (pixel edges x0, y0, x1, y1) in which a layer shows; None: everywhere.
        src_from_dst: output pixel to input pixel of each layer; None reads pixels at the same place.
        share: the weights of the layers in labels; None leaves labels unchanged.
        edge: the width in pixels over which rectangles fade out; 0: rectangles contain the pixels whose centres lie in them.
        fill: the colour where no layer shows, in the image's own units.
        objects: for pasted objects, two random words of 32 bits each and the share of objects to paste.
        sigma: the width in pixels by which the edges of pasted objects are softened.

    Example:
        >>> from pellucid.segments import Layers
        >>> Layers(torch.tensor([[1.0, 0.25]])).opacity.shape  # the picture, and a quarter of another
        torch.Size([1, 2])
    """

    opacity: Float[Tensor, "b k"]
    box: Float[Tensor, "b k 4"] | None = None
    src_from_dst: Float[Tensor, "b k 3 3"] | None = None
    share: Float[Tensor, "b k"] | None = None
    edge: float = 0.0
    fill: Fill = 0.0
    objects: tuple[Int64[Tensor, "b 2"], Float[Tensor, "b"]] | None = None
    sigma: float = 0.0


class Call(NamedTuple):
    """A function of images, with its declared gradient to the image.

    Args:
        function: images (B, C, H, W) to images of their size.
        gate: 1 for samples to which it applies, else 0; None: it applies to all.
        image_gradient: as `Lambda` declares it.

    Example:
        >>> from pellucid.segments import Call
        >>> Call(torch.sin, None, "exact").image_gradient
        'exact'
    """

    function: Callable[[Tensor], Tensor]
    gate: Float[Tensor, "b"] | None
    image_gradient: str


class Mixture(NamedTuple):
    """The results of parallel chains of transforms, mixed with one another and with the image.

    Args:
        chains: for each chain and step the drawn values by name.
        share: the weight of the unchanged image, in [0, 1].
        weights: how the rest is divided among the chains; each row sums to 1.

    Example:
        >>> from pellucid.segments import Mixture
        >>> Mixture((({},), ({},)), torch.full((1,), 0.5), torch.full((1, 2), 0.5)).weights.sum()
        tensor(1.)
    """

    chains: tuple[tuple[Mapping[str, Tensor], ...], ...]
    share: Float[Tensor, "b"]
    weights: Float[Tensor, "b k"]


class Cells(NamedTuple):
    """Transforms that are applied to each cell of a grid by itself.

    Args:
        steps: for each transform the drawn values by name, with a row for each sample and in it a value for each cell, row by row.
        gate: as in `Call`.

    Example:
        >>> from pellucid.segments import Cells
        >>> Cells(({"gate": torch.ones(2, 4)},), None).gate is None
        True
    """

    steps: tuple[Mapping[str, Tensor], ...]
    gate: Float[Tensor, "b"] | None


Segment: TypeAlias = (
    Call
    | Cells
    | Codec
    | Warp
    | Warp3
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
