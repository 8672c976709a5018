"""Lens distortion, fisheye, rolling shutter and waves: a formula gives the place that each pixel shows.

Owns: `lens_distortion`, `fisheye`, `rolling_shutter`, `wave`.
Must not: have a formula; the transforms of the same effects do.
Read next: ``remap.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.core.constants import wide_dtype
from pellucid.core.formerly import formerly
from pellucid.functional.fills import Factor, read_factor
from pellucid.functional.images import CHANNELS_LAST, spec_of
from pellucid.functional.remap import remap
from pellucid.functional.warps import CvOptions
from pellucid.transforms.lens import LensDistortion, RandomFisheye, RollingShutter
from pellucid.transforms.waves import RandomWave

if TYPE_CHECKING:
    from pellucid.transforms.warping import Fitting

__all__ = ["fisheye", "lens_distortion", "rolling_shutter", "wave"]


@formerly("k2", "k3", "p1", "p2")
def lens_distortion(
    image: Shaped[Tensor, "..."],
    k1: Factor = 0.0,
    *,
    k2: Factor = 0.0,
    k3: Factor = 0.0,
    p1: Factor = 0.0,
    p2: Factor = 0.0,
    **options: Unpack[CvOptions],
) -> Shaped[Tensor, "..."]:
    """Read the image through a lens with radial and tangential distortion, the model of Brown and Conrady.

    Args:
        image: as in :func:`remap`.
        k1, k2, k3: radial coefficients, for distances from the centre in half diagonals: numbers, or tensors () or (B,).
        p1, p2: tangential ones, likewise.

    Gradient:
        image: exact. k1, k2, k3, p1, p2: almost everywhere; surrogate where the options say so, as in :func:`remap`.

    Errors:
        ``InvalidArgument`` and ``InvalidType`` for shapes, dtypes and options that do not fit. A map that folds raises nothing.

    Source:
        ``cv2.initUndistortRectifyMap``, with half the diagonal as its focal length.

    Example:
        >>> image = torch.rand(3, 16, 20)
        >>> torch.equal(lens_distortion(image), image)
        True
    """
    return _distorted(image, LensDistortion(), {"k1": k1, "k2": k2, "k3": k3, "p1": p1, "p2": p2}, options)


def fisheye(image: Shaped[Tensor, "..."], angle: Factor, **options: Unpack[CvOptions]) -> Shaped[Tensor, "..."]:
    """Show the image as an equidistant fisheye lens would; its corners stay.

    Args:
        image: as in :func:`remap`.
        angle: of a corner's ray to the axis, in degrees from 0 to below 90: a number, or a tensor () or (B,).

    Gradient:
        image: exact. angle: almost everywhere, none at 0, where the map is even; surrogate where the options say so.

    Source:
        ``cv2.fisheye.undistortPoints`` with its coefficients at 0.

    Example:
        >>> fisheye(torch.rand(2, 3, 16, 20), torch.tensor([20.0, 50.0])).shape
        torch.Size([2, 3, 16, 20])
    """
    return _distorted(image, RandomFisheye(), {"angle": angle}, options)


@formerly("acceleration")
def rolling_shutter(
    image: Shaped[Tensor, "..."], pan: Factor = 0.0, tilt: Factor = 0.0, *, acceleration: Factor = 0.0, **options: Unpack[CvOptions]
) -> Shaped[Tensor, "..."]:
    """Move the camera while rows are read one after another.

    Args:
        image: as in :func:`remap`.
        pan: how far the view moves along x during the readout, as a fraction of the width: a number, or a tensor () or (B,).
        tilt: the same along y, as a fraction of the height.
        acceleration: how the speed changes: from 1 - acceleration at the first row to 1 + acceleration at the last.

    Gradient:
        image: exact. pan, tilt, acceleration: almost everywhere; surrogate where the options say so.

    Source:
        ``numpy.interp`` of each row.

    Example:
        >>> rolling_shutter(torch.rand(3, 16, 20), pan=0.2).shape
        torch.Size([3, 16, 20])
    """
    return _distorted(image, RollingShutter(), {"pan": pan, "tilt": tilt, "acceleration": acceleration}, options)


def wave(
    image: Shaped[Tensor, "..."], amplitude: Factor, period: Factor, phase: Factor = 0.0, **options: Unpack[CvOptions]
) -> Shaped[Tensor, "..."]:
    """Let waves run over the image: rows move along x by a sine of their y, columns along y by the same sine of their x.

    Args:
        image: as in :func:`remap`.
        amplitude: the most that a pixel moves along each axis, as a fraction of the period: a number, or a tensor () or (B,).
        period: of the sine, in pixels, above 0, likewise.
        phase: of the sine at the image's centre, in turns, likewise.

    Gradient:
        image: exact. amplitude, period, phase: almost everywhere; surrogate where the options say so.

    Source:
        Its formula in numpy.

    Example:
        >>> wave(torch.rand(3, 64, 64), 0.05, period=32.0).shape
        torch.Size([3, 64, 64])
    """
    return _distorted(image, RandomWave(), {"amplitude": amplitude, "period": period, "phase": phase}, options)


def _distorted(image: Tensor, lens: Fitting, numbers: Mapping[str, Factor], options: CvOptions) -> Tensor:
    """Sample the image where a transform's formula, with these numbers, says."""
    spec = spec_of(image, options.get("channels_last"), CHANNELS_LAST)
    device, wide = image.device, wide_dtype(image.device)
    read = {name: read_factor(name, value, device=device) for name, value in numbers.items()}
    values = {name: number.to(wide)[:, None, None] for name, (number, _) in read.items()}
    y, x = (torch.arange(length, dtype=wide, device=device) - (length - 1) / 2 for length in spec.size)
    moved = torch.broadcast_tensors(*lens.moves(values, x, y[:, None], spec), x.new_zeros((1, *spec.size)))[:2]
    if not any(batched for _, batched in read.values()):
        moved = moved[0][0], moved[1][0]
    return remap(image, *moved, relative=True, **options)
