"""Static descriptions of segments, known before any value is drawn: hashable, without tensors.

Owns: the facts from which the planner decides what to fuse.
Must not: hold tensors.
Read next: ``values.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from pellucid.types import ClipRule, Fill, Pairing, Size, Size3

__all__ = [
    "BlendSpec", "CallSpec", "CodecSpec", "ColorSpec", "ConvolveSpec", "CurveSpec", "LayerSpec", "SegmentSpec", "Warp3Spec",
    "WarpSpec",
]  # fmt: skip


@dataclass(frozen=True)
class WarpSpec:
    """A geometric map.

    Args:
        size: (height, width) of the output.
        resamples: False for maps that only move whole pixels (flips, quarter turns, integer shifts).
        along_axes: the map scales and shifts each axis by itself: crops, resizes, flips.
        projective: the last row is not (0, 0, 1).
        exposes: output pixels may lie outside the input, so padding and fill matter.
        padding_mode, fill, interpolation: used if this warp decides them for its run.
        mask_fill: the masks' value where pictures get the fill; None takes the pipeline's.
        antialias: low-pass when shrinking.
        shrink: bounds (vertical, horizontal) of the input pixels per output pixel.
        windowed: the segment comes with a window: its own crop rectangle.
        bends: the segment comes with displacements.
        linear: the displacements are linear between knots.
        centers: drop a box whose centre lies outside of the window, however much of the box the window shows.

    Example:
        >>> from pellucid.types import ImageSpec
        >>> spec = pellucid.CenterCrop(8).segment(ImageSpec(3, 32, 32))
        >>> type(spec).__name__, spec.size, spec.along_axes
        ('WarpSpec', (8, 8), True)
    """

    size: Size
    resamples: bool = True
    along_axes: bool = False
    projective: bool = False
    exposes: bool = True
    padding_mode: str = "zeros"
    fill: Fill = 0.0
    interpolation: str = "bilinear"
    antialias: bool = False
    shrink: tuple[float, float] = (1.0, 1.0)
    windowed: bool = False
    bends: bool = False
    linear: bool = False
    centers: bool = False
    mask_fill: float | None = None


@dataclass(frozen=True)
class Warp3Spec:
    """A map of volumes.

    Args:
        size: (depth, height, width) of the output.
        resamples: False for maps that only move whole voxels. Such a map, if it shortens an axis and lengthens none, is a crop: it
            neither turns nor mirrors.
        exposes: output voxels may lie outside the input, so padding and fill matter.
        bends: the segment comes with displacements.
        padding_mode, fill, interpolation: ``zeros`` shows the fill.
        mask_fill: the label volumes' value where volumes get the fill; None takes the pipeline's.

    Example:
        >>> from pellucid.types import ImageSpec
        >>> pellucid.RandomFlip3("x").segment(ImageSpec.of(1, (4, 8, 8))).size
        (4, 8, 8)
    """

    size: Size3
    resamples: bool = True
    exposes: bool = True
    bends: bool = False
    padding_mode: str = "zeros"
    fill: Fill = 0.0
    interpolation: str = "trilinear"
    mask_fill: float | None = None


@dataclass(frozen=True)
class ColorSpec:
    """A colour map.

    Args:
        clip: ``end`` (once, after the colour run), ``each`` or ``none``.
        stepwise: must be computed step by step on pixels (``clip="each"`` with several steps), so it cannot join a run.
        pivot: needs the mean luma.

    Example:
        >>> from pellucid.types import ImageSpec
        >>> pellucid.RandomContrast(0.2).segment(ImageSpec(3, 32, 32))
        ColorSpec(clip='end', stepwise=False, pivot=True)
    """

    clip: ClipRule = "none"
    stepwise: bool = False
    pivot: bool = False


@dataclass(frozen=True)
class CurveSpec:
    """A tone curve per sample.

    Args:
        bounded: values in [0, 1] stay in [0, 1].
        tabled: equal levels of a channel become equal levels, so that a lookup table can compute it.
        alone: each result depends on its own value only, not on the rest of the channel, so that the curve can be part of a run.

    Example:
        >>> from pellucid.types import ImageSpec
        >>> pellucid.RandomGamma().segment(ImageSpec(3, 32, 32))
        CurveSpec(bounded=True, tabled=True, alone=True)
    """

    bounded: bool = True
    tabled: bool = True
    alone: bool = False


@dataclass(frozen=True)
class ConvolveSpec:
    """A convolution or a rank filter over a neighbourhood.

    Args:
        how: ``separable``: one kernel per axis and sample (`Convolve`); ``interior``: a 3 x 3 kernel (`Sharpen`); ``dense``: a
            square kernel (`Filter`); ``median`` (`Median`).

    Example:
        >>> from pellucid.types import ImageSpec
        >>> pellucid.RandomSharpness(2.0).segment(ImageSpec(3, 32, 32))
        ConvolveSpec(how='interior')
    """

    how: Literal["separable", "interior", "dense", "median"] = "separable"


@dataclass(frozen=True)
class BlendSpec:
    """Noise over the whole image, or rectangles of a colour or of noise, blended with each sample.

    Args:
        noise: noise over the whole image (`Noise`) rather than rectangles (`Patch`).
        mask_fill: the masks' value under the rectangles; None leaves masks as they are.
        hides: the rectangles hide boxes and points under them.
        tabled: equal levels of a channel become equal levels, wherever they lie.

    Example:
        >>> from pellucid.types import ImageSpec
        >>> pellucid.RandomErasing().segment(ImageSpec(3, 32, 32))
        BlendSpec(noise=False, mask_fill=None, hides=False, tabled=False)
    """

    noise: bool = False
    mask_fill: float | None = None
    hides: bool = False
    tabled: bool = False


@dataclass(frozen=True)
class CodecSpec:
    """A lossy codec, encoded and decoded.

    Example:
        >>> from pellucid.types import ImageSpec
        >>> pellucid.RandomJPEG().segment(ImageSpec(3, 32, 32))
        CodecSpec()
    """


@dataclass(frozen=True)
class LayerSpec:
    """Several layers, each a read of the sample itself or of another sample of the batch.

    Args:
        partners: for each layer, the lowest first, the distance in the batch to the sample that it shows; 0 is the sample itself.
        pairing: the sample at distance d from sample i: number i xor d (``xor``), or number i - d, around the batch (``roll``).
        covers: the lowest layer shows everywhere, whatever its opacity and rectangle.
        moves: layers may show other samples, or move pixels. Boxes and points move with them, and no map leads back.
        num_classes: the number of classes of integer labels; None without such labels.
        pastes: the uppermost layer shows objects only, cut out by the masks of their pictures.

    Example:
        >>> from pellucid.types import ImageSpec
        >>> pellucid.MixUp().segment(ImageSpec(3, 32, 32)).partners  # itself, and its neighbour
        (0, 1)
    """

    partners: tuple[int, ...]
    pairing: Pairing = "xor"
    covers: bool = True
    moves: bool = True
    num_classes: int | None = None
    pastes: bool = False


@dataclass(frozen=True)
class CallSpec:
    """A user's function, a mixture of chains of transforms, or transforms that are applied to each cell of a grid.

    Example:
        >>> from pellucid.types import ImageSpec
        >>> pellucid.Lambda(torch.sin).segment(ImageSpec(3, 32, 32))
        CallSpec()
    """


SegmentSpec: TypeAlias = WarpSpec | Warp3Spec | ColorSpec | CurveSpec | ConvolveSpec | BlendSpec | CodecSpec | CallSpec | LayerSpec
