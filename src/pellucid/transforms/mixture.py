"""Chains of transforms whose results are mixed, or that each cell or channel of a picture goes through by itself.

Owns: `Mixture`, `PerPatch`, `PerChannel`, and `rounds`: whether a step ends in bytes.
Must not: apply or plan the transforms inside; a pipeline has plans of their own for them.
Read next: ``choices.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

from torch import Tensor

from pellucid.core.arguments import finite_number
from pellucid.errors import invalid
from pellucid.random.distributions import Beta, Dirichlet, Distribution, Repeated
from pellucid.random.fields import Chance
from pellucid.segments import CallSpec, Cells, LayerSpec, Warp3Spec, WarpSpec
from pellucid.segments import Mixture as Mixed
from pellucid.transforms.base import Names, Params, Transform, as_size, as_transforms, by_options, gated
from pellucid.transforms.choices import Branch, Choice, Step, branches_of, steps_of
from pellucid.types import ImageSpec, Size

__all__ = ["Mixture", "PerChannel", "PerPatch"]

_MOST_CELLS = 64


@dataclass(frozen=True)
class Mixture(Transform):
    """Send each picture through several chains of transforms, and mix their results with the picture itself.

    The result is share * picture + (1 - share) * sum of weight * chain(picture). The share is drawn from Beta(alpha, alpha),
    the weights of the chains from Dirichlet(alpha, ..., alpha).

    Args:
        transforms: the chains: transforms, or lists of them, which may hold choices; each keeps the picture's size.
        alpha: from 0.05 to 16; 1 makes all mixtures equally likely, below 1 most are nearly one chain.

    Gradient:
        share, weights: exact. gate: almost everywhere. The image's and that of the chains' values are as the chains'.
    Errors:
        InvalidArgument for no chain, for one that changes the size, and for `Normalize` inside.
    Source:
        Hendrycks, Mu, Cubuk, Zoph, Gilmer, Lakshminarayanan: "AugMix: a simple data processing method to improve robustness and
        uncertainty", ICLR 2020.

    Example:
        >>> mix = pellucid.Pipeline([pellucid.Mixture([pellucid.RandomInvert(p=1.0)])], seed=0)
        >>> out, record = mix(torch.zeros(1, 1, 1, 1), return_record=True)
        >>> bool(torch.isclose(out.double().squeeze(), 1.0 - record.params[0]["share"]))
        True
    """

    transforms: tuple[Branch, ...]
    alpha: float = 1.0
    _: KW_ONLY
    p: Chance = 1.0
    same_on_batch: bool = False

    @by_options
    def gradients(self) -> Mapping[str, str]:
        chains = self.chains if isinstance(self, Mixture) else ()
        inner = {f"{k}_": chain for k, chain in enumerate(chains)}
        return _slopes(inner, share="exact", weights="exact", gate="almost_everywhere")

    def check(self) -> None:
        object.__setattr__(self, "transforms", branches_of("Mixture", self.transforms))
        if not 0.05 <= finite_number("Mixture.alpha", self.alpha) <= 16.0:
            raise invalid("Mixture.alpha", expected="a number from 0.05 to 16", got=self.alpha)
        mixed = {"share": Beta(self.alpha), "weights": Dirichlet(len(self.transforms), self.alpha)}
        object.__setattr__(self, "_fixed", {**self._fixed, **mixed})
        for chain in self.chains:
            _check_units("Mixture", chain)

    @property
    def chains(self) -> tuple[tuple[Transform, ...], ...]:
        """Each chain as a tuple of transforms.

        Example:
            >>> import pellucid
            >>> mixture = pellucid.Mixture([pellucid.RandomInvert(), [pellucid.RandomGamma(), pellucid.RandomHue()]])
            >>> [len(chain) for chain in mixture.chains]
            [1, 2]
        """
        return tuple(chain if isinstance(chain, tuple) else (chain,) for chain in self.transforms)

    @property
    def rounded(self) -> bool:
        """Whether some step of its chains ends in bytes where pictures are bytes, as in `OneOf`; then so does the mixture.

        Example:
            >>> import pellucid
            >>> inverted = [pellucid.OneOf([pellucid.RandomInvert()], rounded=rounded) for rounded in (False, True)]
            >>> [pellucid.Mixture([one]).rounded for one in inverted]
            [False, True]
        """
        return any(rounds(steps, i) for steps in map(steps_of, self.chains) for i in range(len(steps)))

    def segment(self, spec: ImageSpec) -> CallSpec:
        for chain in self.chains:
            _check_sizes("Mixture", chain, spec)
        return CallSpec()

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        found = super().draws(spec)
        for k, chain in enumerate(self.chains):
            for i, (transform, *_) in enumerate(steps_of(chain)):
                found |= {f"{k}_{i}_{name}": distribution for name, distribution in transform.draws(spec).items()}
        return found

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Mixed:
        chains = tuple(_by_step(values, f"{k}_", chain) for k, chain in enumerate(self.chains))
        return Mixed(chains, gated(values, values["share"], 1.0), values["weights"])


class PerCell(Transform):
    """The base: pictures are cut into cells, and each cell goes through the transforms with draws of its own."""

    transforms: tuple[Transform, ...]

    @by_options
    def gradients(self) -> Mapping[str, str]:
        return _slopes({"": self.transforms} if isinstance(self, PerCell) else {}, gate="almost_everywhere")

    def check(self) -> None:
        name = type(self).__name__
        transforms = as_transforms(self.transforms, f"{name}.transforms")
        if not transforms:
            raise invalid(f"{name}.transforms", expected="at least one transform", got=repr(self.transforms))
        object.__setattr__(self, "transforms", transforms)
        _check_units(name, self.transforms)

    def cells(self, spec: ImageSpec) -> tuple[int, ImageSpec]:
        """The number of cells in such pictures, and each cell's channels and size."""
        raise NotImplementedError

    def segment(self, spec: ImageSpec) -> CallSpec:
        _check_sizes(type(self).__name__, self.transforms, self.cells(spec)[1])
        return CallSpec()

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        found, (count, cell) = super().draws(spec), self.cells(spec)
        for i, (transform, *_) in enumerate(steps_of(self.transforms)):
            for name, distribution in transform.draws(cell).items():
                _check_draw(type(self).__name__, transform, name, distribution)
                found[f"{i}_{name}"] = Repeated(distribution, count)
        return found

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Cells:
        return Cells(_by_step(values, "", self.transforms), values.get("gate"))


@dataclass(frozen=True)
class PerPatch(PerCell):
    """Cut the picture into cells, and send each through the transforms with draws of its own.

    Cells are of one size; where the grid does not divide the picture, the last cells reach beyond its edge, repeat the edge's
    pixels there, and are cut off again.

    Args:
        transforms: applied to each cell, one after the other; they may hold choices, and keep the cell's size.
        grid: how many cells, (rows, columns), or a number for both; at most 64.
        p: probability that the picture is cut at all.

    Records hold one value for each cell, (B, cells), row by row.

    Gradient:
        gate: almost everywhere. The image's and that of the transforms' values are as the transforms'.
    Errors:
        InvalidArgument for more than 64 cells, or more than the picture has pixels; for transforms that change the size, that show
        other pictures, or that look for boxes or masks, for `Normalize`, and for a learned probability or choice inside.
    Source:
        kornia's PatchSequential with ``patchwise_apply=False``, or with ``random_apply`` a choice inside.

    Example:
        >>> cells = pellucid.PerPatch([pellucid.RandomInvert(p=0.5)], grid=(1, 4))
        >>> out, record = pellucid.Pipeline([cells], seed=0)(torch.zeros(1, 1, 1, 4), return_record=True)
        >>> torch.equal(out.flatten().double(), record.params[0]["0_gate"].flatten())
        True
    """

    transforms: tuple[Transform, ...]
    grid: int | Size = (4, 4)
    _: KW_ONLY
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"kornia": "PatchSequential"}

    def check(self) -> None:
        super().check()
        rows, columns = as_size("PerPatch.grid", self.grid)
        if rows * columns > _MOST_CELLS:
            raise invalid("PerPatch.grid", expected=f"at most {_MOST_CELLS} cells", got=f"{rows} x {columns}")

    def cells(self, spec: ImageSpec) -> tuple[int, ImageSpec]:
        rows, columns = as_size("PerPatch.grid", self.grid)
        return rows * columns, spec.resized((-(-spec.height // rows), -(-spec.width // columns)))

    def segment(self, spec: ImageSpec) -> CallSpec:
        rows, columns = as_size("PerPatch.grid", self.grid)
        if rows > spec.height or columns > spec.width:
            expected = f"at most {spec.height}x{spec.width} cells, a pixel each"
            raise invalid("PerPatch.grid", expected=expected, got=f"{rows}x{columns}")
        return super().segment(spec)


@dataclass(frozen=True)
class PerChannel(PerCell):
    """Send each channel through the transforms by itself, as a picture or volume of one channel, with draws of its own.

    Args:
        transforms: applied to each channel, one after the other; they may hold choices, and keep the size.
        p: probability that anything happens at all; those of the transforms are drawn for each channel.

    Records hold one value for each channel, (B, channels).

    Gradient:
        gate: almost everywhere. The image's and that of the transforms' values are as the transforms'.
    Errors:
        InvalidArgument for transforms that move pixels, that show other pictures, or that look for boxes or masks, for `Normalize`,
        and for a learned probability or choice inside.
    Source:
        batchgeneratorsv2's transforms with ``synchronize_channels=False``.

    Example:
        >>> each = pellucid.PerChannel([pellucid.RandomInvert(p=0.5)])
        >>> out, record = pellucid.Pipeline([each], seed=0)(torch.zeros(1, 4, 1, 1), return_record=True)
        >>> torch.equal(out.flatten().double(), record.params[0]["0_gate"].flatten())
        True
    """

    transforms: tuple[Transform, ...]
    _: KW_ONLY
    p: Chance = 1.0
    same_on_batch: bool = False

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)

    def cells(self, spec: ImageSpec) -> tuple[int, ImageSpec]:
        return spec.channels, replace(spec, channels=1)

    def segment(self, spec: ImageSpec) -> CallSpec:
        for step in steps_of(self.transforms):
            if not isinstance(step.transform, Choice) and isinstance(
                step.transform.segment(self.cells(spec)[1]), WarpSpec | Warp3Spec
            ):
                got = type(step.transform).__name__
                raise invalid("PerChannel.transforms", expected="transforms that leave pixels where they are", got=got)
        return super().segment(spec)


def _slopes(inner: Mapping[str, Sequence[Transform]], **own: str) -> Mapping[str, str]:
    """The gradients of a transform with others inside; the keys are the prefixes of their values' names."""
    steps = [(f"{begin}{i}_", one) for begin, some in inner.items() for i, (one, *_) in enumerate(steps_of(some))]
    worst = [step.gradients["image"] for _, step in steps if step.gradients["image"] not in ("exact", "almost_everywhere")]
    drawn = {begin + name: how for begin, step in steps for name, how in step.gradients.items() if name != "image"}
    return {"image": min(worst, default="almost_everywhere"), **own, **drawn}


def _by_step(values: Params, begin: str, transforms: Sequence[Transform]) -> tuple[dict[str, Tensor], ...]:
    """The drawn values of each transform inside: their names have this prefix and the transform's number."""
    own: list[dict[str, Tensor]] = [{} for _ in steps_of(transforms)]
    for name, value in values.items():
        number, _, drawn = name.removeprefix(begin).partition("_")
        if name.startswith(begin) and number.isdigit() and drawn:
            own[int(number)][drawn] = value
    return tuple(own)


def _check_units(owner: str, transforms: Sequence[Transform]) -> None:
    if any(step.transform.units is not None for step in steps_of(transforms)):
        raise invalid(f"{owner}.transforms", expected="chains without Normalize", got="one with it", fix="Put it after them.")


def _check_sizes(owner: str, transforms: Sequence[Transform], spec: ImageSpec) -> None:
    for step in steps_of(transforms):
        lowered = None if isinstance(step.transform, Choice) else step.transform.segment(spec)
        if isinstance(lowered, WarpSpec) and lowered.size != spec.size:
            name = type(step.transform).__name__
            raise invalid(f"{owner}.transforms", expected=f"chains that keep {spec.height}x{spec.width}", got=name)
        if owner != "Mixture" and isinstance(lowered, LayerSpec) and any(lowered.partners):
            raise invalid(f"{owner}.transforms", expected="transforms of one picture", got=type(step.transform).__name__)


def _check_draw(around: str, transform: Transform, name: str, distribution: Distribution) -> None:
    """Raise for a distribution that cells cannot draw from."""
    owner = type(transform).__name__
    if distribution.boxes or distribution.masks or distribution.spacing:
        raise invalid(f"{around}.transforms", expected="transforms that look at pictures alone", got=owner)
    if distribution.learned() and distribution.estimator != "reparameterised":
        got = f"{owner}.{name}, which learns by {distribution.estimator!r}"
        fix = f"Learn the range of a magnitude, or put the choice around {around}."
        raise invalid(f"{around}.transforms", expected="numbers that learn through the picture", got=got, fix=fix)


def rounds(steps: Sequence[Step], index: int) -> bool:
    """Whether a step's result on byte pictures is rounded to bytes: a choice around it, or one in a mixture's chains, says so."""
    around = (steps[i].transform for i in (index, *(gate.choice for gate in steps[index].gates)))
    return any(isinstance(one, Choice | Mixture) and one.rounded for one in around)
