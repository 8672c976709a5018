"""What is known of a segment before any value is drawn: hashable, without tensors.

Owns: the facts the planner fuses by.
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
        along_axes: the map is a scaling and a shift per axis: crops, resizes, flips.
        projective: the last row is not (0, 0, 1).
        exposes: output pixels may lie outside the input, so padding and fill matter.
        padding_mode, fill, interpolation: used when this is the warp of its run that decides them.
        mask_fill: the masks' value in the place of the fill; None for the pipeline's.
        antialias: low-pass when shrinking.
        shrink: bounds (vertical, horizontal) of the input pixels per output pixel.
        windowed: the segment comes with a window: its own crop rectangle.
        bends: the segment comes with displacements.
        linear: they are linear between knots.
        centers: a box whose centre the window does not show is gone, however much of the box it shows.

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
        resamples: False for maps that only move whole voxels. One that also keeps less of an axis, and more of none, neither turns
            nor mirrors.
        exposes: output voxels may lie outside the input, so padding and fill matter.
        bends: the segment comes with displacements.
        padding_mode, fill, interpolation: ``zeros`` shows the fill.
        mask_fill: the label volumes' value in the place of the fill; None for the pipeline's.

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
        stepwise: must be computed step by step on pixels (``clip="each"`` with several steps), so it joins no run.
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
        bounded: what was in [0, 1] stays there.
        tabled: equal levels of a channel become equal ones.
        alone: of a value alone, whatever else its channel has; it can be part of a run.

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
    """A rule that weighs or ranks a neighbourhood.

    Args:
        how: ``separable``: one kernel per axis and sample (`Convolve`); ``interior``: one of 3 x 3 (`Sharpen`); ``dense``: a square
            one (`Filter`); ``median`` (`Median`).

    Example:
        >>> from pellucid.types import ImageSpec
        >>> pellucid.RandomSharpness(2.0).segment(ImageSpec(3, 32, 32))
        ConvolveSpec(how='interior')
    """

    how: Literal["separable", "interior", "dense", "median"] = "separable"


@dataclass(frozen=True)
class BlendSpec:
    """A mask and a partner per sample.

    Args:
        noise: the partner is noise over the whole image (`Noise`), rather than a rectangle (`Patch`).
        mask_fill: the masks' value under its rectangles; None leaves them as they are.
        hides: boxes and points lie behind its rectangles.
        tabled: equal levels of a channel become equal ones, whatever lies around them.

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
    """Several reads, laid over one another.

    Args:
        partners: of each read, the lowest first, the distance in the batch to the sample that it shows; 0 is the sample itself.
        pairing: which sample lies at a distance d: the i-th xor d, or the one d before it, around the batch.
        covers: the lowest read shows everywhere, whatever its opacity and rectangle.
        moves: what is shown may lie elsewhere, or be another sample's: boxes and points go along, and nothing leads back.
        num_classes: of labels that are whole numbers; None where there are none.
        pastes: of the uppermost read only objects show, cut out by the masks of their pictures.

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
    """A function of the user's, lists of transforms and their mixture, or transforms of every cell of a grid.

    Example:
        >>> from pellucid.types import ImageSpec
        >>> pellucid.Lambda(torch.sin).segment(ImageSpec(3, 32, 32))
        CallSpec()
    """


SegmentSpec: TypeAlias = WarpSpec | Warp3Spec | ColorSpec | CurveSpec | ConvolveSpec | BlendSpec | CodecSpec | CallSpec | LayerSpec
