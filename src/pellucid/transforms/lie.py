"""Affine maps drawn from their generators, correlated if wanted.

Owns: RandomLieAffine.
Must not: draw its generators one by one; they share one distribution.
Read next: ``perspective.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from pellucid.errors import invalid, wrong_type
from pellucid.geometry.matrices import from_rows, scale_shift
from pellucid.random.distributions import MultivariateNormal
from pellucid.random.fields import Chance
from pellucid.transforms.base import Params, drawn
from pellucid.transforms.warping import Warping
from pellucid.types import Fill, ImageSpec, Interpolation, PaddingMode

__all__ = ["RandomLieAffine"]

_GENERATORS = ("translate_x", "translate_y", "rotate", "scale", "stretch", "shear")
_DEFAULT = MultivariateNormal(
    (0.0,) * 6,
    ((0.05,), (0.0, 0.05), (0.0, 0.0, 0.1), (0.0, 0.0, 0.0, 0.1), (0.0,) * 4 + (0.05,), (0.0,) * 5 + (0.05,)),
)


def _six(name: str, value: object) -> MultivariateNormal:
    if not isinstance(value, MultivariateNormal):
        raise wrong_type(name, expected="a MultivariateNormal of 6 numbers", got=repr(value))
    if len(value.mean) != len(_GENERATORS):
        raise invalid(name, expected=f"6 numbers: {', '.join(_GENERATORS)}", got=f"{len(value.mean)} numbers")
    return value


@dataclass(frozen=True)
class RandomLieAffine(Warping):
    """Move by the exponential of a random combination of the six affine generators, about the image's centre.

    The generators, in order: translation in x and y (in units of the width and the height), rotation (radians, counter-clockwise),
    scale (the logarithm of the factor), stretch (x against y, likewise), shear (stretch along the diagonals).

    Args:
        generators: how the six coefficients are drawn, with any correlation between them;
            ``MultivariateNormal.learned_from((0.05, 0.05, 0.1, 0.1, 0.05, 0.05))`` learns all of it.

    Because the maps form a group, a coefficient of 2 is twice the map of 1, and the mean and the covariance of a draw mean the same
    wherever they are.

    On each target:
        as `RandomAffine`.
    Identity at:
        all coefficients 0, bit for bit.
    Errors:
        InvalidType for generators that are no MultivariateNormal, InvalidArgument where they are not six.
    Source:
        ``scipy.linalg.expm``; Benton, Finzi, Izmailov, Wilson: "Learning invariances in neural networks", NeurIPS 2020.

    Example:
        >>> spread = pellucid.MultivariateNormal.learned_from((0.05, 0.05, 0.1, 0.1, 0.05, 0.05))
        >>> len(list(pellucid.Pipeline([pellucid.RandomLieAffine(spread)]).parameters()))
        27
    """

    generators: MultivariateNormal = field(default=_DEFAULT, metadata=drawn(_six))
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "zeros"
    fill: Fill = 0.0
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False

    absent: ClassVar[Mapping[str, str]] = {"mps": "linalg.matrix_exp"}

    def matrix(self, values: Params, spec: ImageSpec, like: Tensor) -> Tensor:
        x, y, turn, scale, stretch, shear = values["generators"].unbind(-1)
        # The inverse of exp(A) is exp(-A): sampling needs no inverse. y points down, so counter-clockwise is negative there.
        zero = torch.zeros_like(x)
        first = (-(scale + stretch), -(shear + turn), -x * spec.width)
        second = (-(shear - turn), -(scale - stretch), -y * spec.height)
        algebra = from_rows(*first, *second, zero, zero, zero)
        to_center = scale_shift(1.0, (spec.width - 1) / 2, 1.0, (spec.height - 1) / 2, like)
        from_center = scale_shift(1.0, -(spec.width - 1) / 2, 1.0, -(spec.height - 1) / 2, like)
        return to_center @ torch.linalg.matrix_exp(algebra) @ from_center
