"""Transforms of volumes: maps in space.

Owns: RandomAffine3, RandomFlip3, RandomQuarterTurn3.
Must not: build matrices by hand; ``geometry.space`` does.
Read next: ``base.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeAlias, cast

import torch
from torch import Tensor

from pellucid.errors import invalid
from pellucid.geometry.space import centre_of, placed, rotation3, spread
from pellucid.random.distributions import Categorical, Distribution
from pellucid.random.fields import Chance, Range, Ranges, interval, no_lone_number, symmetric
from pellucid.random.internal import Spacing
from pellucid.segments import Warp3, Warp3Spec
from pellucid.transforms.base import Names, Params, Transform, by_options, check_choice, drawn, drawn_names, gated_matrix, undecided
from pellucid.types import Fill, ImageSpec, Size3

__all__ = ["RandomAffine3", "RandomFlip3", "RandomQuarterTurn3"]

Axis: TypeAlias = Literal["x", "y", "z"]
Trilinear: TypeAlias = Literal["trilinear", "nearest"]
Outside: TypeAlias = Literal["zeros", "border"]

_AXES: tuple[Axis, ...] = ("x", "y", "z")


def _by_axis(value: Any) -> tuple[Range, Range, Range]:
    return tuple(value) if isinstance(value, tuple | list) and len(value) == 3 else (value,) * 3


def _each(read: Callable[[str, Range], Distribution], prefix: str, name: str, value: Any) -> dict[str, Distribution]:
    return {f"{prefix}_{axis}": read(f"{name}.{axis}", part) for axis, part in zip(_AXES, _by_axis(value), strict=True)}


def _degrees(name: str, value: Any) -> dict[str, Distribution]:
    return _each(symmetric, "degrees", name, value)


def _translate(name: str, value: Any) -> dict[str, Distribution]:
    return _each(symmetric, "translate", name, value)


def _scale(name: str, value: Any) -> dict[str, Distribution]:
    """One factor for all axes, or one for each."""
    if isinstance(value, tuple | list) and len(value) == 3:
        return _each(_factor, "scale", name, value)
    return {"scale": _factor(name, value)}


def _factor(name: str, value: Range) -> Distribution:
    no_lone_number(name, value, lambda s: (1.0 - s, 1.0 + s) if s < 1 else (1.0, s))
    distribution = interval(name, value, low=0.0)
    if not distribution.start() and -math.inf < distribution.span()[0] <= 0:
        raise invalid(name, expected="values > 0", got=repr(value), fix="A scale of 0 has no inverse.")
    return distribution


def _three(values: Params, name: str) -> Tensor:
    """The values drawn for x, y and z, (b, 3)."""
    return torch.stack([values[f"{name}_{axis}"] for axis in _AXES], -1)


class InSpace(Transform):
    """The base of transforms of volumes, which checks their options."""

    dimensions: ClassVar[tuple[int, ...]] = (3,)
    spaced: ClassVar[bool] = False

    def check(self) -> None:
        name = type(self).__name__
        for option, allowed in (("interpolation", ("trilinear", "nearest")), ("padding_mode", ("zeros", "border"))):
            if hasattr(self, option):
                check_choice(f"{name}.{option}", getattr(self, option), allowed)

    @by_options
    def gradients(self) -> Mapping[str, str]:
        how = "none" if getattr(self, "interpolation", "") == "nearest" else "almost_everywhere"
        slopes = {"image": "exact", **dict.fromkeys(drawn_names(self), how), **({"spacing": how} if self.spaced else {})}
        return {**slopes, "words": "none"} if self.keyed else slopes

    def shown(self) -> dict[str, Any]:
        """The options of a segment that decide what is seen outside of the volume."""
        return {name: getattr(self, name) for name in ("padding_mode", "fill", "mask_fill")}


@dataclass(frozen=True)
class RandomAffine3(InSpace):
    """Turn, shift and zoom volumes about their middle, as one affine map.

    Args:
        degrees: turns about x, y and z, in this order: a number d for (-d, d) about each, a pair, a `Learnable` magnitude, a
            distribution, or three of them. About z a slice turns as under `RandomRotation`, counter-clockwise; about x and y
            space turns the same way, seen along the axis.
        translate: the largest shift as a fraction of the width, height and depth; as ``degrees``.
        scale: a pair of factors for all axes (above 1 magnifies), a `Learnable` factor or a distribution, or three of them.
        shrinks: a scale above 1 makes smaller: the factor is that of the map from the result to the volume, as MONAI and nnU-Net
            draw it.
        interpolation: ``trilinear`` or ``nearest``.
        padding_mode: outside is the ``fill`` (``zeros``), or the nearest voxel (``border``).
        fill: a number, or one per channel, in the volume's units.
        mask_fill: the label there; None for the pipeline's ``mask_fill``.

    The ``affine`` of the batch gives the size of voxels, so that a turn is rigid in millimetres where voxels are longer along one
    axis. Without an ``affine``, voxels are cubes.

    Gradient:
        image: exact. degrees, translate, scale, gate: almost everywhere; none under ``nearest``. spacing: exact.
    On each target:
        volume: one resample with its neighbours. labelmap: the same map, nearest. points3, cuboids: exact; cuboids as the hull of
        their corners. affine: voxels keep their places in the world.
    Identity at:
        degrees = 0, translate = 0, scale = 1, bit for bit.
    Source:
        ``scipy.ndimage.affine_transform``.

    Example:
        >>> turn = pellucid.RandomAffine3(((0, 0), (0, 0), (90, 90)))
        >>> turn(torch.tensor([[[[[1.0, 2.0], [3.0, 4.0]]]]])).flatten()
        tensor([2., 4., 1., 3.])
    """

    degrees: Ranges = field(default=0.0, metadata=drawn(_degrees, "degrees_x", "degrees_y", "degrees_z"))
    translate: Ranges = field(default=0.0, metadata=drawn(_translate, "translate_x", "translate_y", "translate_z"))
    _: KW_ONLY
    scale: Ranges = field(default=(1.0, 1.0), metadata=drawn(_scale, "scale", "scale_x", "scale_y", "scale_z"))
    shrinks: bool = False
    interpolation: Trilinear = "trilinear"
    padding_mode: Outside = "zeros"
    fill: Fill = 0.0
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False

    spaced: ClassVar[bool] = True
    like: ClassVar[Names] = {"kornia": "RandomAffine3D"}

    def segment(self, spec: ImageSpec) -> Warp3Spec:
        return Warp3Spec(cast(Size3, spec.extent), interpolation=self.interpolation, **self.shown())

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {**super().draws(spec), "spacing": Spacing()}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp3:
        degrees, spacing = _three(values, "degrees"), values["spacing"]
        scale = values["scale"][:, None] if "scale" in values else _three(values, "scale")
        turn = rotation3(degrees).mT * spacing[:, None] / spacing[..., None]
        back = turn * scale[..., None] if self.shrinks else turn / scale[..., None]
        centre = centre_of(cast(Size3, spec.extent), degrees)
        extent = torch.stack([torch.full_like(degrees[:, 0], length) for length in reversed(spec.extent)], -1)
        return Warp3(gated_matrix(values, placed(back, centre + _three(values, "translate") * extent, centre)))


@dataclass(frozen=True)
class RandomFlip3(InSpace):
    """Mirror volumes along an axis with probability p.

    Args:
        axis: ``x`` along the width (left and right), ``y`` along the height, ``z`` along the depth.
        p: probability.

    With the pipeline's ``pairs={"labelmap": [(1, 2)]}``, labels of left and right change places if all of its maps together
    mirror.

    Gradient:
        image: exact. gate: almost everywhere.
    On each target:
        volume, labelmap: whole voxels move, bit for bit. points3, cuboids: x -> W - 1 - x and x -> W - x. affine: follows.

    Example:
        >>> pellucid.RandomFlip3("x", p=1.0)(torch.tensor([[[[[1.0, 2.0, 3.0]]]]])).flatten()
        tensor([3., 2., 1.])
    """

    axis: Axis = "x"
    _: KW_ONLY
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"kornia": ("RandomHorizontalFlip3D", "RandomVerticalFlip3D", "RandomDepthicalFlip3D")}

    def check(self) -> None:
        check_choice("RandomFlip3.axis", self.axis, _AXES)

    def segment(self, spec: ImageSpec) -> Warp3Spec:
        return Warp3Spec(cast(Size3, spec.extent), resamples=False, exposes=False)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp3:
        gate = values.get("gate", torch.ones_like(like)[None])
        at = _AXES.index(self.axis)
        unit = torch.eye(3, dtype=like.dtype, device=like.device)
        linear = unit - 2.0 * gate[:, None, None] * torch.outer(unit[at], unit[at])
        return Warp3(spread(linear, gate[:, None] * (spec.extent[2 - at] - 1.0) * unit[at]))


def _quarter_turns(name: str, times: tuple[int, ...]) -> Distribution:
    del name
    return Categorical(tuple(float(k % 4) for k in times))


@dataclass(frozen=True)
class RandomQuarterTurn3(InSpace):
    """Turn volumes about an axis by a random number of quarter turns, the way `RandomAffine3` turns.

    Args:
        axis: ``x``, ``y`` or ``z``, about which it turns.
        times: the numbers of quarter turns to choose from, equally likely. An odd number exchanges the sizes of the other two axes;
            in a batch where these differ, all draws must then be odd or even.

    Gradient:
        image: exact. times, gate: almost everywhere (``times`` is an angle, in units of 90 degrees).
    On each target:
        volume, labelmap: whole voxels move, bit for bit. points3, cuboids, affine: exact.
    Identity at:
        times = 0.
    Errors:
        InvalidArgument for samples of a batch that end in different sizes.
    Source:
        ``numpy.rot90``.

    Example:
        >>> pellucid.RandomQuarterTurn3(times=(1,))(torch.tensor([[[[[1.0, 2.0], [3.0, 4.0]]]]])).flatten()
        tensor([2., 4., 1., 3.])
    """

    axis: Axis = "z"
    times: tuple[int, ...] = field(default=(0, 1, 2, 3), metadata=drawn(_quarter_turns))
    _: KW_ONLY
    p: Chance = 1.0
    same_on_batch: bool = False

    def check(self) -> None:
        check_choice("RandomQuarterTurn3.axis", self.axis, _AXES)

    def decides(self, spec: ImageSpec) -> bool:
        turns = (*self.times, *(() if self.p == 1.0 else (0,))) if self.p != 0.0 else (0,)
        return self._exchanged(spec) != spec.extent and len({k % 2 for k in turns}) > 1

    def settled(self, values: Mapping[str, float]) -> RandomQuarterTurn3:
        return replace(self, times=(round(values["times"] * values.get("gate", 1.0)),), p=1.0)

    def _exchanged(self, spec: ImageSpec) -> tuple[int, ...]:
        """The size after an odd number of turns."""
        depth, height, width = spec.extent if spec.depth else (1, *spec.extent)
        return {"x": (height, depth, width), "y": (width, height, depth), "z": (depth, width, height)}[self.axis]

    def _size(self, spec: ImageSpec) -> Size3:
        odd = self.p != 0.0 and any(k % 2 for k in self.times)
        return cast(Size3, self._exchanged(spec) if odd else spec.extent)

    def segment(self, spec: ImageSpec) -> Warp3Spec:
        if self.decides(spec):
            raise undecided(type(self).__name__, spec, "Crop to equal sides first, or take even numbers of turns alone.")
        return Warp3Spec(self._size(spec), resamples=False, exposes=False)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp3:
        times = values["times"]
        at = torch.eye(3, dtype=times.dtype, device=times.device)[_AXES.index(self.axis)]
        back = rotation3(90.0 * times[:, None] * at).mT
        return Warp3(
            gated_matrix(values, placed(back, centre_of(self._size(spec), times), centre_of(cast(Size3, spec.extent), times)))
        )
