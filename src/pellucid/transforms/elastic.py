"""Random smooth deformation: RandomElastic.

Owns: RandomElastic.
Must not: evaluate splines.
Read next: ``warping.py``.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.errors import invalid
from pellucid.geometry.bends import FOLDS, Bend
from pellucid.random.fields import Chance, Range, interval
from pellucid.random.patterns import symmetric_field
from pellucid.segments import Warp
from pellucid.transforms.base import Names, Params, check_choice, drawn, gated
from pellucid.transforms.warping import Bending, cells_of, locked
from pellucid.types import Fill, ImageSpec, Interpolation, PaddingMode

__all__ = ["RandomElastic"]

_ENERGY = 151 / 315
"""The mean over a cell of the sum of squares of a cubic B-spline's weights."""


@dataclass(frozen=True)
class RandomElastic(Bending):
    """Move pixels by a smooth random field: a cubic B-spline whose knots are displaced at random.

    Each knot moves by up to ``magnitude`` of the spacing along x and along y, uniformly. The field is evaluated while the picture
    is read; no field is kept, and neighbouring transforms join the same resample.

    Args:
        spacing: pixels between knots, at least 2: the size of the deformation's bumps. It is adjusted so that a whole number of
            cells fills the picture and the outer knots lie on its border.
        magnitude: the largest displacement of a knot as a fraction of the spacing, from 0 to 0.48866, within which nothing can
            fold: a number, pair, `Learnable` or distribution.
        border: ``free``, or ``locked``: the border of the picture stays where it is.
        allow_folding: take larger magnitudes; boxes, keypoints and inverses are then invalid where the picture folds.

    The record keeps two words and the magnitude per sample, not the field. Frames of a video share it.

    On each target:
        image, heatmap and mask through the same field; keypoints by Newton's method, to 1e-6 px; boxes as hulls of 16 points an
        edge. There is no ``record.matrix``: ask ``record.map_points`` or ``record.flow``.
    Identity at:
        magnitude = 0, bit for bit.
    Errors:
        InvalidArgument for a magnitude that may fold, a spacing below 2, or an unknown border.
    Source:
        ``scipy.interpolate.NdBSpline`` and ``scipy.ndimage.map_coordinates``. Bound: Choi and Lee, 2000.

    Example:
        >>> pellucid.RandomElastic(8, magnitude=0.3)(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 3, 32, 32])
    """

    spacing: float = 32.0
    magnitude: Range = field(default=0.3, metadata=drawn(interval, low=0.0))
    _: KW_ONLY
    border: Literal["free", "locked"] = "free"
    allow_folding: bool = False
    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "zeros"
    fill: Fill = 0.0
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False

    keyed: ClassVar[bool] = True
    like: ClassVar[Names] = {
        "torchvision": "ElasticTransform",
        "kornia": "RandomElasticTransform",
        "albumentations": "ElasticTransform",
    }

    @classmethod
    def from_alpha_sigma(
        cls, alpha: float, sigma: float, *, library: Literal["torchvision", "albumentations"] = "torchvision", **options: Any
    ) -> RandomElastic:
        """Return the elastic deformation whose displacements have the deviation and the smoothness of another library's.

        There each pixel's displacement is uniform noise under a Gaussian of ``sigma`` pixels, times ``alpha`` pixels
        (albumentations) or half of that (torchvision). Knots sqrt(3) sigma apart have a spline of the same width.

        Args:
            alpha, sigma: theirs, the same along both axes.
            library: whose.
            options: further arguments of the transform.

        Errors:
            InvalidArgument where theirs could fold, unless ``allow_folding=True``.

        Example:
            >>> import pellucid
            >>> pellucid.RandomElastic.from_alpha_sigma(50.0, 5.0).spacing
            8.660254037844386
        """
        check_choice("library", library, ("torchvision", "albumentations"))
        pixels = alpha / 2 if library == "torchvision" else alpha
        spacing = math.sqrt(3.0) * sigma
        return cls(spacing, magnitude=pixels / (2.0 * math.sqrt(math.pi) * sigma) / (_ENERGY * spacing), **options)

    def check(self) -> None:
        if not self.spacing >= 2.0:
            raise invalid("RandomElastic.spacing", expected="at least 2 pixels", got=self.spacing)
        check_choice("RandomElastic.border", self.border, ("free", "locked"))
        most = self._fixed["magnitude"].span()[1]
        if not self.allow_folding and FOLDS < most < math.inf:
            fix = "Say allow_folding=True if the picture may fold over itself."
            raise invalid("RandomElastic.magnitude", expected=f"at most {FOLDS} of the spacing", got=self.magnitude, fix=fix)
        bounded = interval("RandomElastic.magnitude", self.magnitude, low=0.0, high=math.inf if self.allow_folding else FOLDS)
        object.__setattr__(self, "_fixed", {**self._fixed, "magnitude": bounded})  # a learned one gets the bound that holds

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        gated_first = {**values, "magnitude": gated(values, values["magnitude"], 0.0)}  # one number instead of all knots
        gated_first.pop("gate", None)
        return super().lower(gated_first, spec, like)

    def bend(self, values: Params, spec: ImageSpec, like: Tensor) -> Bend:
        magnitude = values["magnitude"]
        (rows, down), (columns, across) = (cells_of(int(length), self.spacing) for length in spec.size)
        spacing = constant((across, down), magnitude.dtype, like.device)
        control = symmetric_field(values["words"], (2, rows + 3, columns + 3), magnitude[:, None] * spacing)
        grid = torch.cat((0.0 * spacing, spacing))[None]
        return Bend(locked(control) if self.border == "locked" else control, grid)
