"""Artefacts of scanners.

Owns: RandomLowResolution, RandomBiasField, RandomGhosting, RandomSpike, RandomMotion.
Must not: move voxels for good; labels stay.
Read next: ``intensities.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import product
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.core.arguments import whole_number
from pellucid.core.constants import constant
from pellucid.core.slabs import by_slabs
from pellucid.errors import invalid
from pellucid.geometry.space import rotation3
from pellucid.random.distributions import Categorical, Distribution, Uniform
from pellucid.random.fields import Chance, Range, Ranges, interval, symmetric
from pellucid.random.internal import Offset, Repeated, Spacing, Uniforms
from pellucid.segments import BlendSpec, Grain, SegmentSpec
from pellucid.transforms.base import Names, Params, Transform, drawn, slopes
from pellucid.types import ImageSpec

__all__ = ["RandomBiasField", "RandomGhosting", "RandomLowResolution", "RandomMotion", "RandomSpike"]

_AXES = "xyz"
_MOST_LOG = 88.0
"""The largest whole number whose exponential float32 holds."""


class Scanned(Transform):
    """The base: a formula in plain torch of images (b, c, h, w) or volumes (b, c, d, h, w), and of drawn values."""

    dimensions: ClassVar[tuple[int, ...]] = (3,)
    lowers_to: ClassVar[SegmentSpec | None] = BlendSpec()

    def made(self, formula: Callable[..., Tensor], spec: ImageSpec, values: Params, *names: str, **options: Any) -> Grain:
        """The segment of a formula, the values with these names, and options; for pictures it holds no size, as lists have many."""
        law = partial(formula, **options)
        if len(spec.extent) == 3:
            law = partial(_on_slices, formula=law, extent=spec.extent)
        return Grain(law, None, tuple(values[name] for name in names), values.get("gate"), clip=False, most=0.0)


def _on_slices(image: Tensor, *numbers: Tensor, formula: Callable[..., Tensor], extent: tuple[int, ...]) -> Tensor:
    """Apply a formula of volumes to slices that stand one below another in an image."""
    return formula(image.unflatten(2, extent[:-1]), *numbers).flatten(2, -2)


def _axes(name: str, value: str) -> Distribution:
    """The distribution of one of the named axes, by its number."""
    if not isinstance(value, str) or not value or not set(value) <= set(_AXES) or len(set(value)) < len(value):
        raise invalid(name, expected="one or more of 'x', 'y' and 'z', such as 'xz'", got=repr(value))
    return Categorical(tuple(float(_AXES.index(axis)) for axis in value))


def _count(name: str, value: Any) -> Distribution:
    """The distribution of a whole number, or of a range of them with both ends."""
    ends = tuple(value) if isinstance(value, tuple | list) else (value, value)
    if len(ends) != 2:
        raise invalid(name, expected="a whole number, or (least, most)", got=repr(value))
    low, high = (whole_number(name, end, 0, 1 << 16) for end in ends)
    if high < low:
        raise invalid(name, expected="(least, most)", got=repr(value), fix="Swap the two.")
    return Offset(low, high - low + 1)


def _scales(name: str, value: Any) -> dict[str, Distribution]:
    """One share for all axes, or one for each."""
    if isinstance(value, tuple | list) and len(value) == 3:
        return {f"scale_{axis}": interval(f"{name}.{axis}", one, low=0.0, high=1.0) for axis, one in zip(_AXES, value, strict=True)}
    return {"scale": interval(name, value, low=0.0, high=1.0)}


def _along(rows: Tensor, dim: int, dims: int) -> Tensor:
    """Reshape a row for each sample, (b, n), to lie along axis ``dim`` of ``dims`` axes."""
    return rows.reshape(len(rows), *[rows.shape[1] if i == dims + dim else 1 for i in range(1, dims)])


def _pick(volume: Tensor, index: Tensor, dim: int) -> Tensor:
    """Pick voxels of each sample along an axis: a loop over samples is fastest for whole rows, a gather for voxels of a row.

    Compiled, the loop would put one step per sample into the graph and fix the batch size: there it is always a gather.
    """
    if dim == -1 or not len(volume) or torch.compiler.is_compiling():
        shape = list(volume.shape)
        shape[dim] = index.shape[1]
        return volume.gather(dim, _along(index, dim, volume.dim()).expand(shape))
    found = [one.index_select(dim, at) for one, at in zip(volume.split(1), index, strict=True)]
    return found[0] if len(found) == 1 else torch.cat(found)


class _Reads(NamedTuple):
    """What a coarse grid leaves along one axis: each place lies between two points of the grid, which keep one voxel each.

    Args:
        near, far: the voxels that the two points keep, by number.
        share: how far the place is on the way from the near point to the far one, 0 to 1.
    """

    near: Int64[Tensor, "b length"]
    far: Int64[Tensor, "b length"]
    share: Float[Tensor, "b_or_1 length"]

    @classmethod
    def of(cls, length: int, scale: Tensor, samples: int) -> _Reads:
        """Return the reads of an axis of this length for grids with a share of its voxels."""
        count = torch.clamp(torch.round(scale * length), min=1.0)[:, None]  # b 1: points of the grid
        place = torch.arange(length, dtype=count.dtype, device=scale.device)
        place = torch.relu((place + 0.5) * count / length - 0.5)  # b length: in units of the grid
        near = torch.floor(place)

        def kept(point: Tensor) -> Tensor:
            voxel = torch.clamp(torch.floor((point + 0.5) * length / count), max=length - 1.0)
            return voxel.to(torch.int64).expand(samples, -1)

        return cls(kept(near), kept(torch.minimum(near + 1.0, count - 1.0)), place - near)

    def interpolated(self, volume: Tensor, dim: int) -> Tensor:
        """Interpolate along an axis between the voxels that are kept."""
        near, far = _pick(volume, self.near, dim), _pick(volume, self.far, dim)
        return torch.lerp(near, far, _along(self.share, dim, volume.dim()))


def _coarse(volume: Tensor, *scales: Tensor, axes: str) -> Tensor:
    """Read a volume by way of a coarser grid, one axis after the other; ``scales`` hold one number for all axes or one for each."""
    outer = 2 - volume.dim()
    reads = {
        -1 - at: _Reads.of(volume.shape[-1 - at], scales[at % len(scales)], len(volume))
        for at in range(volume.dim() - 2)
        if _AXES[at] in axes
    }

    def resampled(part: slice) -> Tensor:
        """Return a slab of the result: a part of the outermost axis, which may read all of the volume."""
        found = volume if outer in reads else volume[:, :, part]
        for dim in sorted(reads):
            read = _Reads(*(rows[:, part] for rows in reads[dim])) if dim == outer else reads[dim]
            found = read.interpolated(found, dim)
        return found

    return by_slabs(resampled, volume, *scales)


@dataclass(frozen=True)
class RandomLowResolution(Scanned):
    """Lower a scan's resolution: keep the nearest voxels of a coarser grid, and interpolate linearly back to the scan's size.

    Args:
        scale: the share of voxels that is kept along an axis, 0 to 1: a pair, number, `Learnable` or distribution, the same for all
            axes; or three of them, for x, y and z.
        axes: along which it happens, such as ``"xy"`` for thick slices.

    Gradient:
        image: exact. gate: almost everywhere. scale: none, as voxels are counted.
    Identity at:
        scale = 1.
    Source:
        nnU-Net (oracle: batchgeneratorsv2's SimulateLowResolutionTransform, ``torch.nn.functional.interpolate``).

    Example:
        >>> import torch, pellucid
        >>> pellucid.RandomLowResolution(0.5)(torch.tensor([[[[0.0, 1.0, 2.0, 3.0]]]])).flatten()
        tensor([1.0000, 1.5000, 2.5000, 3.0000])
    """

    scale: Ranges = field(default=(0.5, 1.0), metadata=drawn(_scales, "scale", "scale_x", "scale_y", "scale_z"))
    _: KW_ONLY
    axes: str = "xyz"
    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {
        "image": "exact", **dict.fromkeys(("scale", "scale_x", "scale_y", "scale_z"), "none"), "gate": "almost_everywhere",
    }  # fmt: skip
    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    like: ClassVar[Names] = {"monai": "RandSimulateLowResolutiond", "torchio": "RandomAnisotropy"}

    def check(self) -> None:
        _axes("RandomLowResolution.axes", self.axes)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Grain:
        names = ("scale",) if "scale" in values else ("scale_x", "scale_y", "scale_z")
        return self.made(_coarse, spec, values, *names, axes=self.axes)


def _powers(axes: int, order: int) -> list[tuple[int, ...]]:
    """The exponents of x, y (and z) of a polynomial's terms."""
    return [powers for powers in product(range(order + 1), repeat=axes) if sum(powers) <= order]


def _biased(volume: Tensor, coefficients: Tensor, *, order: int) -> Tensor:
    axes, terms = volume.dim() - 2, order + 1
    places = [sum(power * terms ** (axes - 1 - at) for at, power in enumerate(powers)) for powers in _powers(axes, order)]
    every = coefficients.new_zeros(len(coefficients), terms**axes)
    log = every.index_copy(1, torch.tensor(places, device=volume.device), coefficients).unflatten(1, (terms,) * axes)  # b x y z
    power = torch.arange(terms, device=volume.device)
    for length in reversed(volume.shape[2:]):
        along = torch.linspace(-1.0, 1.0, length, dtype=volume.dtype, device=volume.device) if length > 1 else volume.new_zeros(1)
        log = torch.tensordot(log, along[:, None] ** power, dims=([1], [1]))  # the next axis, as the last
    return volume * torch.exp(log.permute(0, *range(axes, 0, -1)))[:, None]


def _coefficients(name: str, value: Range) -> Distribution:
    """As `symmetric`, but no coefficient alone makes the field infinite in float32."""
    return interval(name, symmetric(name, value), low=-_MOST_LOG, high=_MOST_LOG)


@dataclass(frozen=True)
class RandomBiasField(Scanned):
    """Multiply by a smooth field, as coils of magnetic resonance do: the exponential of a polynomial of the place.

    Coordinates run from -1 to 1 along each axis.

    Args:
        coefficients: of the polynomial, each drawn by itself: a number c for (-c, c), a pair, a `Learnable` or a distribution;
            from -88 to 88.
        order: of the polynomial, 0 to 8.

    Gradient:
        image, coefficients, gate: exact.
    Identity at:
        coefficients = 0.
    Source:
        Van Leemput et al., "Automated model-based bias field correction of MR images of the brain", 1999 (oracle: TorchIO's
        RandomBiasField).

    Example:
        >>> import torch, pellucid
        >>> pellucid.RandomBiasField((1.0, 1.0), order=0)(torch.ones(1, 1, 1, 2)).flatten()
        tensor([2.7183, 2.7183])
    """

    coefficients: Range = field(default=0.5, metadata=drawn(_coefficients))
    _: KW_ONLY
    order: int = 3
    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = dict.fromkeys(("image", "coefficients", "gate"), "exact")
    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    like: ClassVar[Names] = {"monai": "RandBiasFieldd", "torchio": "RandomBiasField"}

    def check(self) -> None:
        whole_number("RandomBiasField.order", self.order, 0, 8)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        found = super().draws(spec)
        return found | {"coefficients": Repeated(found["coefficients"], len(_powers(len(spec.extent), int(self.order))))}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Grain:
        return self.made(_biased, spec, values, "coefficients", order=int(self.order))


def _both_ways(factor: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    """Bring factors of frequencies, the lowest in the middle, to FFT order, averaged over f and -f, as a real result needs."""
    factor = torch.fft.ifftshift(factor, dim=-1)
    return 0.5 * (factor + torch.roll(factor.flip(-1), 1, -1))


def _ghosts(volume: Tensor, ghosts: Tensor, axis: Tensor, intensity: Tensor, *, restore: float) -> Tensor:
    spectrum = torch.fft.rfftn(volume, dim=(2, 3, 4))
    for at in range(3):
        length = volume.shape[-1 - at]
        plane, middle, half = torch.arange(length, device=volume.device), length // 2, round(restore * length) // 2
        kept = (plane == middle) | ((plane >= middle - half) & (plane < middle + half))
        every = torch.remainder(plane, torch.clamp(ghosts, min=1.0)[:, None]) == 0
        weak = every & ~kept & ((axis == at) & (ghosts > 0))[:, None]  # b n
        factor = _both_ways(torch.where(weak, 1.0 - intensity[:, None], 1.0))
        factor = factor[:, : length // 2 + 1] if at == 0 else factor
        spectrum = spectrum * _along(factor, -1 - at, 5)
    return torch.fft.irfftn(spectrum, s=volume.shape[2:], dim=(2, 3, 4))


@dataclass(frozen=True)
class RandomGhosting(Scanned):
    """Show faint copies of the scan along one axis, as breathing and pulse do: every n-th plane of its spectrum is weakened.

    Args:
        num_ghosts: how many copies: a whole number, or the least and the most.
        axes: of which one is drawn.
        intensity: how much is taken off the planes, 1 for all: a pair, number, `Learnable` or distribution.
        restore: the share of planes in the middle of the spectrum that stays, besides the middle one.

    Gradient:
        image, intensity, gate: exact. ghosts, axis: none.
    Identity at:
        intensity = 0, but for rounding.
    Source:
        TorchIO's RandomGhosting.

    Example:
        >>> import torch, pellucid
        >>> scan = torch.zeros(1, 1, 1, 1, 8)
        >>> scan[..., 3] = 1.0
        >>> pellucid.RandomGhosting(2, axes="x", intensity=0.5)(scan).flatten().count_nonzero() > 2
        tensor(True)
    """

    num_ghosts: int | tuple[int, int] = field(default=(4, 10), metadata=drawn(_count, "ghosts"))
    _: KW_ONLY
    axes: str = field(default="xyz", metadata=drawn(_axes, "axis"))
    intensity: Range = field(default=(0.5, 1.0), metadata=drawn(interval, low=0.0))
    restore: float = 0.0
    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("image", "intensity", "gate"), "exact"), "ghosts": "none", "axis": "none",
    }  # fmt: skip
    like: ClassVar[Names] = {"torchio": "RandomGhosting"}

    def check(self) -> None:
        if not 0.0 <= self.restore <= 1.0:
            raise invalid("RandomGhosting.restore", expected="a share from 0 to 1", got=self.restore)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Grain:
        return self.made(_ghosts, spec, values, "ghosts", "axis", "intensity", restore=self.restore)


def _spiked(volume: Tensor, spikes: Tensor, places: Tensor, intensity: Tensor) -> Tensor:
    peak = torch.fft.rfftn(volume, dim=(2, 3, 4)).abs().amax((2, 3, 4))  # b c
    places = places.unflatten(1, (-1, 3))  # b n 3
    waves = []
    for at in range(3):
        length = volume.shape[-1 - at]
        frequency = torch.floor(places[..., at] * length) - length // 2
        turns = frequency[..., None] * torch.arange(length, dtype=volume.dtype, device=volume.device) / length
        waves.append(torch.polar(torch.ones_like(turns), 2.0 * math.pi * turns))
    used = (torch.arange(places.shape[1], device=volume.device) < spikes[:, None]).to(waves[0].dtype)
    wave = torch.einsum("bn,bnx,bny,bnz->bzyx", used, *waves).real
    return volume + (peak * intensity[:, None] / math.prod(volume.shape[2:]))[..., None, None, None] * wave[:, None]


@dataclass(frozen=True)
class RandomSpike(Scanned):
    """Add stripes, as sparks in a scanner do: single points of the spectrum are raised.

    Args:
        num_spikes: how many: a whole number, or the least and the most.
        intensity: how much is added to each, in units of the spectrum's greatest value: a pair, number, `Learnable` or
            distribution.

    Gradient:
        image: almost everywhere. intensity, gate: exact. spikes, places: none.
    Identity at:
        intensity = 0.
    Source:
        TorchIO's RandomSpike.

    Example:
        >>> import torch, pellucid
        >>> pellucid.RandomSpike(intensity=0.0)(torch.ones(1, 1, 2, 2, 2)).sum()
        tensor(8.)
    """

    num_spikes: int | tuple[int, int] = field(default=1, metadata=drawn(_count, "spikes"))
    _: KW_ONLY
    intensity: Range = field(default=(1.0, 3.0), metadata=drawn(interval))
    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {
        "image": "almost_everywhere", "intensity": "exact", "gate": "exact", "spikes": "none", "places": "none",
    }  # fmt: skip
    like: ClassVar[Names] = {"monai": "RandKSpaceSpikeNoised", "torchio": "RandomSpike"}

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        most = max(1, int(self._fixed["spikes"].span()[1]))
        return {**super().draws(spec), "places": Uniforms(3 * most)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Grain:
        return self.made(_spiked, spec, values, "spikes", "places", "intensity")


def _with_motion(volume: Tensor, degrees: Tensor, translation: Tensor, times: Tensor, spacing: Tensor, *, axis: str) -> Tensor:
    sizes = volume.new_tensor(tuple(reversed(volume.shape[2:])))  # x y z
    floor, dim = volume.amin((2, 3, 4), keepdim=True), -1 - _AXES.index(axis)
    length, total = volume.shape[dim], 0.0
    plane = torch.arange(length, device=volume.device)
    part = (plane >= torch.floor(length * times)[..., None]).sum(1)  # b n: which stretch of the spectrum
    central = (times <= 0.5).sum(1, keepdim=True)  # the stretch with the middle of the spectrum is the unmoved scan's
    seen = torch.where(part == central, 0, torch.where(part == 0, central, part))
    turns, shifts = degrees.unflatten(1, (-1, 3)), translation.unflatten(1, (-1, 3)) / spacing[:, None]
    for k in range(times.shape[1] + 1):
        shown = volume
        if k:
            back = rotation3(turns[:, k - 1]).mT * spacing[:, None] / spacing[..., None]
            linear = back * sizes / sizes[:, None]  # on coordinates that run from -1 to 1
            moved = -2.0 * (back @ shifts[:, k - 1, :, None])[..., 0] / sizes
            grid = F.affine_grid(torch.cat((linear, moved[..., None]), -1), list(volume.shape), align_corners=False)
            shown = F.grid_sample(volume - floor, grid, padding_mode="zeros", align_corners=False) + floor
        factor = _both_ways((seen == k).to(volume.dtype))[:, : length // 2 + 1]
        total = total + torch.fft.rfft(shown, dim=dim) * _along(factor, dim, 5)
    return torch.fft.irfft(total, n=length, dim=dim)


@dataclass(frozen=True)
class RandomMotion(Scanned):
    """Show a scan during which the patient moved: stretches of its spectrum come from turned and shifted copies of the scan.

    Args:
        degrees: turns about x, y and z of each movement, each drawn by itself: a number d for (-d, d), a pair, a `Learnable` or a
            distribution.
        translation: shifts along x, y and z, in millimetres, likewise. The batch's ``affine`` gives the size of voxels.
        moves: how many, 1 to 8.
        axis: along which the spectrum is read.

    Movements come at equal times, give or take three tenths of the time between them. The middle of the spectrum is that of the
    unmoved scan. Turns are about the volume's middle; outside of the volume lies its least value.

    Gradient:
        image, degrees, translation, spacing, gate: almost everywhere. times: none.
    Identity at:
        degrees = 0, translation = 0, but for rounding.
    Source:
        Shaw et al., "MRI k-space motion artefact augmentation", MIDL 2019 (oracle: TorchIO's RandomMotion).

    Example:
        >>> import torch, pellucid
        >>> pellucid.RandomMotion(5, translation=2)(torch.rand(1, 1, 8, 8, 8)).shape
        torch.Size([1, 1, 8, 8, 8])
    """

    degrees: Range = field(default=10.0, metadata=drawn(symmetric))
    translation: Range = field(default=10.0, metadata=drawn(symmetric))
    _: KW_ONLY
    moves: int = 2
    axis: str = "z"
    p: Chance = 1.0
    same_on_batch: bool = False

    gradients = slopes(spacing="almost_everywhere", times="none")
    like: ClassVar[Names] = {"torchio": "RandomMotion"}

    def check(self) -> None:
        whole_number("RandomMotion.moves", self.moves, 1, 8)
        if self.axis not in tuple(_AXES):
            raise invalid("RandomMotion.axis", expected="'x', 'y' or 'z'", got=repr(self.axis))

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        found, jitter = super().draws(spec), 0.3 / (self.moves + 1)
        found |= {name: Repeated(found[name], 3 * self.moves) for name in ("degrees", "translation")}
        return found | {"times": Repeated(Uniform(-jitter, jitter), self.moves), "spacing": Spacing()}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Grain:
        even = constant([k / (self.moves + 1) for k in range(1, self.moves + 1)], values["times"].dtype, values["times"].device)
        values = {**values, "times": values["times"] + even}
        return self.made(_with_motion, spec, values, "degrees", "translation", "times", "spacing", axis=self.axis)
