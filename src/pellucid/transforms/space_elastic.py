"""Random smooth deformation of volumes: RandomElastic3.

Owns: RandomElastic3.
Must not: evaluate splines.
Read next: ``elastic.py``.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor

from pellucid.core.arguments import finite_number
from pellucid.core.constants import constant
from pellucid.errors import invalid
from pellucid.geometry.space import FOLDS3
from pellucid.random.fields import Chance, Range, interval
from pellucid.random.patterns import symmetric_field
from pellucid.segments import Warp3, Warp3Spec
from pellucid.transforms.base import Names, Params, check_choice, drawn, gated
from pellucid.transforms.space import InSpace, Outside, Trilinear
from pellucid.transforms.warping import cells_of, locked
from pellucid.types import Fill, ImageSpec, Size3

__all__ = ["RandomElastic3"]


@dataclass(frozen=True)
class RandomElastic3(InSpace):
    """Move voxels by a smooth random field: a cubic B-spline whose knots are displaced at random.

    Each knot moves by up to ``magnitude`` of the spacing along x, y and z, uniformly. The field is evaluated while the volume is
    read; no field is kept. A map before it joins the same resample; a map behind it begins another.

    Args:
        spacing: voxels between knots, at least 2, or three numbers for x, y and z; it is adjusted so that a whole number of cells
            fills the volume.
        magnitude: the largest displacement of a knot as a fraction of the spacing, from 0 to 0.40331, within which nothing can
            fold: a number, pair, `Learnable` or distribution.
        border: ``locked``: the border of the volume stays where it is, so that nothing from outside shows; or ``free``.
        interpolation: ``trilinear`` or ``nearest``.
        padding_mode: under ``free``, outside is the ``fill`` (``zeros``), or the nearest voxel (``border``).
        fill: a number, or one per channel, in the volume's units.
        mask_fill: the label there; None for the pipeline's ``mask_fill``.

    Gradient:
        image: exact. magnitude, gate: almost everywhere; none under ``nearest``. words: none.
    On each target:
        volume and labelmap through the same field. points3: by Newton's method, to 1e-6 voxels. cuboids: the hull of 5 x 5 x 5
        points. affine: as if there were no field. There is no ``record.matrix``.
    Identity at:
        magnitude = 0, bit for bit.
    Errors:
        InvalidArgument for a magnitude that may fold, a spacing below 2, or an unknown option.
    Source:
        ``scipy.interpolate.NdBSpline`` and ``scipy.ndimage.map_coordinates``. Bound: Choi and Lee, 2000.

    Example:
        >>> pellucid.RandomElastic3(8, magnitude=0.3)(torch.rand(2, 1, 16, 16, 16)).shape
        torch.Size([2, 1, 16, 16, 16])
    """

    spacing: float | tuple[float, float, float] = 32.0
    magnitude: Range = field(default=0.3, metadata=drawn(interval, low=0.0, high=FOLDS3))
    _: KW_ONLY
    border: Literal["locked", "free"] = "locked"
    interpolation: Trilinear = "trilinear"
    padding_mode: Outside = "zeros"
    fill: Fill = 0.0
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False

    keyed: ClassVar[bool] = True
    like: ClassVar[Names] = {"torchio": "RandomElasticDeformation", "monai": "Rand3DElastic"}

    def check(self) -> None:
        super().check()
        check_choice("RandomElastic3.border", self.border, ("locked", "free"))
        if not min(self._spacings()) >= 2.0:
            raise invalid("RandomElastic3.spacing", expected="at least 2 voxels", got=self.spacing)
        if self._fixed["magnitude"].span()[1] == math.inf:
            raise invalid("RandomElastic3.magnitude", expected=f"at most {FOLDS3} of the spacing", got=self.magnitude)

    def _spacings(self) -> tuple[float, ...]:
        """Along x, y and z."""
        given: Any = self.spacing if isinstance(self.spacing, tuple | list) else (self.spacing,) * 3
        if len(given) != 3:
            raise invalid("RandomElastic3.spacing", expected="a number, or three for x, y and z", got=repr(self.spacing))
        return tuple(finite_number("RandomElastic3.spacing", one) for one in given)

    def segment(self, spec: ImageSpec) -> Warp3Spec:
        size, free = cast(Size3, spec.extent), self.border == "free"
        return Warp3Spec(size, exposes=free, bends=True, interpolation=self.interpolation, **self.shown())

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp3:
        magnitude = gated(values, values["magnitude"], 0.0)
        cells = [cells_of(length, spacing) for length, spacing in zip(reversed(spec.extent), self._spacings(), strict=True)]
        (columns, across), (rows, down), (slices, deep) = cells
        distance = constant((across, down, deep), magnitude.dtype, like.device)
        scale = (magnitude[:, None] * distance).repeat_interleave(slices + 3, 1)
        control = symmetric_field(values["words"], (3 * (slices + 3), rows + 3, columns + 3), scale).unflatten(1, (3, slices + 3))
        unmoved = torch.eye(4, dtype=magnitude.dtype, device=like.device).expand(len(magnitude), 4, 4)
        return Warp3(unmoved, locked(control) if self.border == "locked" else control)
