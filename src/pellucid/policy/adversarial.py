"""Augmentation of what a discriminator sees: DiffAugment, and the adaptive pipeline with its controller.

Owns: `DiffAugment`, `ADA`, and the transforms that they consist of.
Must not: train anything; losses and networks are the caller's.
Read next: ``../transforms/base.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.core.arguments import finite_number, texts
from pellucid.errors import invalid, wrong_type
from pellucid.geometry.matrices import cos_sin_degrees, from_rows, scale_shift
from pellucid.pipeline import Pipeline
from pellucid.pipeline.serialization import register
from pellucid.random import Bernoulli, Distribution, Normal, Uniform
from pellucid.random.distributions import Bits, Offset
from pellucid.random.fields import Chance
from pellucid.random.numbers import as_number
from pellucid.segments import BlendSpec, Color, ColorSpec, Convolve, ConvolveSpec, Noise, Patch, WarpSpec
from pellucid.segments import Warp as Warped
from pellucid.transforms import Apply
from pellucid.transforms.base import Params, Transform, gated
from pellucid.types import ImageSpec

__all__ = ["ADA", "DiffAugment"]

_SIGNED = 0.5
"""Published numbers are for pictures in [-1, 1]. Pictures in [0, 1] take half of each."""
_OCTAVE = math.log(2.0)
_STEPS = ("flip", "quarter", "shift", "scale", "before", "stretch", "after", "move")


def DiffAugment(policy: tuple[str, ...] | list[str] = ("color", "translation", "cutout"), *, same_on_batch: bool = False) -> Apply:
    """Augment real and generated pictures alike before a GAN's discriminator, so that few pictures suffice.

    ``color``: brightness shifted by up to a quarter, saturation about the mean of the channels times 0 to 2, contrast about the
    picture's mean times 0.5 to 1.5, nothing clipped. ``translation``: by whole pixels, up to an eighth of the size. ``cutout``: a
    square of half the size, centred anywhere. Pixels that are shifted in or cut out are mid-grey, which is 0 in pictures from -1
    to 1.

    Args:
        policy: which of the three, in this order.
        same_on_batch: one draw for the whole batch.

    Returns:
        A transform, to be put into a `Pipeline`; every picture goes through all of it. Pictures are in [0, 1].

    Gradient:
        image: exact, to any order.

    Errors:
        InvalidArgument for no name, and for one that is none of the three.

    Source:
        Zhao, Liu, Lin, Zhu, Han: "Differentiable augmentation for data-efficient GAN training", NeurIPS 2020.

    Example:
        >>> from pellucid.policy import DiffAugment
        >>> seen = pellucid.Pipeline([DiffAugment(["color", "cutout"])], seed=0)(torch.rand(4, 3, 16, 16))
        >>> bool((seen == 0.5).any())
        True
    """
    makers: dict[str, tuple[Transform]] = {
        "color": (DiffColor(same_on_batch=same_on_batch),),
        "translation": (DiffTranslation(same_on_batch=same_on_batch),),
        "cutout": (DiffCutout(same_on_batch=same_on_batch),),
    }
    names = texts("policy", policy)
    for name in names:
        if name not in makers:
            raise invalid("policy", expected=f"some of {tuple(makers)}", got=repr(name))
    if not names:
        raise invalid("policy", expected="at least one name", got=repr(policy))
    return Apply(tuple(one for name, (one,) in makers.items() if name in names), p=1.0)


def _grey(amount: Float[Tensor, "b"], channels: int) -> Float[Tensor, "b c c"]:
    """The colour matrix that scales each channel's difference from the mean of the channels."""
    identity = torch.eye(channels, dtype=amount.dtype, device=amount.device)
    return amount[:, None, None] * identity + (1.0 - amount)[:, None, None] / channels


@register
@dataclass(frozen=True)
class DiffColor(Transform):
    """The colours of `DiffAugment`."""

    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("image", "brightness", "saturation", "contrast"), "exact"),
        "gate": "almost_everywhere",
    }

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        reach = 0.5 * _SIGNED
        return {**self._fixed, "brightness": Uniform(-reach, reach), "saturation": Uniform(0.0, 2.0), "contrast": Uniform(0.5, 1.5)}

    def segment(self, spec: ImageSpec) -> ColorSpec:
        return ColorSpec(pivot=True)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        # Saturation keeps the mean of the channels, and brightness adds to it.
        contrast, saturation = gated(values, values["contrast"], 1.0), gated(values, values["saturation"], 1.0)
        offset = gated(values, values["brightness"], 0.0)[:, None].expand(-1, spec.channels)
        matrix = contrast[:, None, None] * _grey(saturation, spec.channels)
        return Color(matrix, offset, 1.0 - contrast, plain_pivot=True)


@register
@dataclass(frozen=True)
class DiffTranslation(Transform):
    """The shifts of `DiffAugment`."""

    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", **dict.fromkeys(("x", "y", "gate"), "almost_everywhere")}

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        reach = {"x": (spec.width * 2 + 8) // 16, "y": (spec.height * 2 + 8) // 16}  # an eighth, to the nearest pixel
        return {**self._fixed, **{name: Offset(-far, 2 * far + 1) for name, far in reach.items()}}

    def segment(self, spec: ImageSpec) -> WarpSpec:
        return WarpSpec(spec.size, resamples=False, fill=0.5, padding_mode="constant")

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warped:
        return Warped(scale_shift(1.0, gated(values, values["x"], 0.0), 1.0, gated(values, values["y"], 0.0), like))


@register
@dataclass(frozen=True)
class DiffCutout(Transform):
    """The square of `DiffAugment`."""

    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", **dict.fromkeys(("x", "y", "gate"), "almost_everywhere")}

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        places = (("x", spec.width), ("y", spec.height))
        return {**self._fixed, **{name: Offset(0, length + 1 - _half(length) % 2) for name, length in places}}

    def segment(self, spec: ImageSpec) -> BlendSpec:
        return BlendSpec()

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Patch:
        width, height = _half(spec.width), _half(spec.height)
        left, top = values["x"] - width // 2, values["y"] - height // 2
        across, down = (gated(values, torch.full_like(left, length), 0.0) for length in (width, height))
        return _grey_patch(left, top, left + across, top + down, spec.channels)


def _grey_patch(left: Tensor, top: Tensor, right: Tensor, bottom: Tensor, channels: int) -> Patch:
    """A mid-grey rectangle with these edges."""
    box = torch.stack((left, top, right, bottom), -1)[:, None]
    return Patch(box, torch.full((1, channels), 0.5, dtype=box.dtype, device=box.device), None)


def _half(length: int) -> int:
    return (length + 1) // 2


@register
@dataclass(frozen=True)
class AdaGeometry(Transform):
    """The geometry of `ADA`, as one map: flips, turns and shifts of whole pixels, then scales and rotations, reflected outside.

    Args:
        p: probability of each step; ``p_turn`` of each of the two rotations.
    """

    p: Chance = 0.0
    p_turn: Chance = 0.0

    gradients: ClassVar[Mapping[str, str]] = {
        "image": "exact",
        **dict.fromkeys(("flip", "quarter"), "almost_everywhere"),
        **dict.fromkeys(("shift_x", "shift_y"), "none"),
        **dict.fromkeys(("scale", "before", "stretch", "after", "move_x", "move_y"), "almost_everywhere"),
        **{f"open_{name}": "almost_everywhere" for name in _STEPS},
    }

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        gates = {f"open_{name}": _gate(self.p) for name in ("flip", "quarter", "shift", "scale", "stretch", "move")}
        gates |= {f"open_{name}": _gate(self.p_turn) for name in ("before", "after")}
        turn, shift, zoom = Uniform(-180.0, 180.0), Uniform(-0.125, 0.125), Normal(0.0, 0.2 * _OCTAVE)
        return {
            **gates,
            "flip": Offset(0, 2),
            "quarter": Offset(0, 4),
            "shift_x": shift,
            "shift_y": shift,
            "scale": zoom,
            "before": turn,
            "stretch": zoom,
            "after": turn,
            "move_x": Normal(0.0, 0.125),
            "move_y": Normal(0.0, 0.125),
        }

    def segment(self, spec: ImageSpec) -> WarpSpec:
        return WarpSpec(spec.size, padding_mode="reflection")

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warped:
        now = _opened(values)

        def turned(degrees: Tensor) -> Tensor:
            cosine, sine = cos_sin_degrees(degrees)
            return from_rows(cosine, -sine, 0.0, sine, cosine, 0.0)

        zoom, stretch = torch.exp(-now["scale"]), torch.exp(-now["stretch"])
        shift_x, shift_y = (torch.round(now[f"shift_{axis}"] * length) for axis, length in (("x", spec.width), ("y", spec.height)))
        x, y = (spec.width - 1) / 2, (spec.height - 1) / 2
        # The inverse map of each step, in the order in which pictures go through the steps.
        steps = (
            scale_shift(1.0, x, 1.0, y, like)[None],
            scale_shift(1.0 - 2.0 * now["flip"], 0.0, 1.0, 0.0, like),
            turned(-90.0 * now["quarter"]),
            scale_shift(1.0, -shift_x, 1.0, -shift_y, like),
            scale_shift(zoom, 0.0, zoom, 0.0, like),
            turned(-now["before"]),
            scale_shift(stretch, 0.0, 1.0 / stretch, 0.0, like),
            turned(-now["after"]),
            scale_shift(1.0, -spec.width * now["move_x"], 1.0, -spec.height * now["move_y"], like),
            scale_shift(1.0, -x, 1.0, -y, like)[None],
        )
        return Warped(reduce(torch.matmul, steps))


@register
@dataclass(frozen=True)
class AdaColors(Transform):
    """The colours of `ADA`, as one map about mid-grey: brightness, contrast, luma flip, hue and saturation about the grey axis.

    Args:
        p: probability of each.
    """

    p: Chance = 0.0

    gradients: ClassVar[Mapping[str, str]] = {
        "image": "exact",
        **dict.fromkeys(("brightness", "contrast", "luma", "hue", "saturation"), "almost_everywhere"),
        **{f"open_{name}": "almost_everywhere" for name in ("brightness", "contrast", "luma", "hue", "saturation")},
    }

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {
            **{f"open_{name}": _gate(self.p) for name in ("brightness", "contrast", "luma", "hue", "saturation")},
            "brightness": Normal(0.0, 0.2 * _SIGNED),
            "contrast": Normal(0.0, 0.5 * _OCTAVE),
            "luma": Offset(0, 2),
            "hue": Uniform(-180.0, 180.0),
            "saturation": Normal(0.0, _OCTAVE),
        }

    def segment(self, spec: ImageSpec) -> ColorSpec:
        return ColorSpec()

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        now = _opened(values)
        channels = spec.channels
        matrix = torch.exp(now["contrast"])[:, None, None] * torch.eye(channels, dtype=like.dtype, device=like.device)
        matrix = matrix - (2.0 / channels) * now["luma"][:, None, None] * matrix.sum(-2, keepdim=True)
        if channels == 3:  # grey has neither hue nor saturation
            matrix = _grey(torch.exp(now["saturation"]), 3) @ _about_grey(now["hue"]) @ matrix
        moved = (matrix * (now["brightness"] - 0.5)[:, None, None]).sum(-1)
        return Color(matrix, moved + 0.5)


def _about_grey(degrees: Float[Tensor, "b"]) -> Float[Tensor, "b 3 3"]:
    """A rotation of colours about the axis of greys, by Rodrigues' formula: circulant."""
    cosine, sine = cos_sin_degrees(degrees)
    own = cosine + (1.0 - cosine) / 3.0
    less, more = ((1.0 - cosine) / 3.0 + sign * sine / math.sqrt(3.0) for sign in (-1.0, 1.0))
    return torch.stack((own, less, more, more, own, less, less, more, own), -1).unflatten(-1, (3, 3))


@register
@dataclass(frozen=True)
class AdaBands(Transform):
    """The filters of `ADA`: four bands of frequencies, an octave each, made stronger or weaker at equal expected power.

    Args:
        p: probability of each band.
    """

    p: Chance = 0.0

    gradients: ClassVar[Mapping[str, str]] = {
        "image": "exact",
        **{f"{name}{band}": "almost_everywhere" for band in range(4) for name in ("gain", "open_gain")},
    }

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        opens = {f"open_gain{band}": _gate(self.p) for band in range(4)}
        return {**opens, **{f"gain{band}": Normal(0.0, _OCTAVE) for band in range(4)}}

    def segment(self, spec: ImageSpec) -> ConvolveSpec:
        return ConvolveSpec()

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Convolve:
        power = torch.stack([torch.full_like(like, 10.0 / 13.0), *[torch.full_like(like, 1.0 / 13.0)] * 3])
        unit = torch.eye(4, dtype=like.dtype, device=like.device)
        gains = torch.ones_like(power)[None]
        now = _opened(values)
        for band in range(4):  # the lowest first
            row = unit[band] * torch.exp(now[f"gain{band}"])[:, None] + (1.0 - unit[band])
            gains = gains * row / torch.sqrt((power * row**2).sum(1, keepdim=True))
        kernel = gains @ octaves(like)
        return Convolve(kernel, kernel)


def octaves(like: Tensor) -> Float[Tensor, "4 taps"]:
    """Four filters, for frequencies up to 1/8 of the highest, to 1/4, to 1/2 and above; together they let everything pass.

    They are made of Daubechies' wavelet with four taps: the low-pass is its filter convolved with its own mirror image, the
    high-pass is the rest.
    """
    root = math.sqrt(3.0)
    taps = [(1 + root) / 8, (3 + root) / 8, (3 - root) / 8, (1 - root) / 8]
    low = _convolved(taps, taps[::-1])
    high = [-t if i != 3 else 1.0 - t for i, t in enumerate(low)]
    first, second, third = ([_spread(part, step) for part in (low, high)] for step in (1, 2, 4))
    lowest = _convolved(first[0], second[0])
    bands = [_convolved(lowest, third[0]), _convolved(lowest, third[1]), _convolved(first[0], second[1]), first[1]]
    length = len(bands[0])
    rows = [[0.0] * ((length - len(band)) // 2) + band + [0.0] * ((length - len(band)) // 2) for band in bands]
    return torch.tensor(rows, dtype=like.dtype, device=like.device)


def _convolved(one: list[float], other: list[float]) -> list[float]:
    out = [0.0] * (len(one) + len(other) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            out[i + j] += a * b
    return out


def _spread(taps: list[float], step: int) -> list[float]:
    """The taps with ``step - 1`` zeros between them."""
    return [taps[i // step] if i % step == 0 else 0.0 for i in range((len(taps) - 1) * step + 1)]


@register
@dataclass(frozen=True)
class AdaNoise(Transform):
    """The noise of `ADA`: Gaussian, of a strength that is drawn from a Gaussian.

    Args:
        p: probability.
    """

    p: Chance = 0.0

    gradients: ClassVar[Mapping[str, str]] = {
        "image": "exact",
        **dict.fromkeys(("gate", "sigma"), "almost_everywhere"),
        "words": "none",
    }

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {**self._fixed, "sigma": Normal(0.0, 0.1 * _SIGNED), "words": Bits()}

    def segment(self, spec: ImageSpec) -> BlendSpec:
        return BlendSpec(noise=True)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Noise:
        sigma = gated(values, values["sigma"], 0.0)  # the sign does not matter to Gaussian noise
        return Noise(values["words"], torch.zeros_like(sigma), sigma, False)


@register
@dataclass(frozen=True)
class AdaCutout(Transform):
    """The square of `ADA`: half the size, centred anywhere, mid-grey.

    Args:
        p: probability.
    """

    p: Chance = 0.0

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", **dict.fromkeys(("gate", "x", "y"), "almost_everywhere")}

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {**self._fixed, "x": Uniform(0.0, 1.0), "y": Uniform(0.0, 1.0)}

    def segment(self, spec: ImageSpec) -> BlendSpec:
        return BlendSpec()

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Patch:
        x, y = spec.width * values["x"], spec.height * values["y"]
        half = gated(values, torch.full_like(x, 0.25), 0.0)
        across, down = spec.width * half, spec.height * half
        return _grey_patch(x - across, y - down, x + across, y + down, spec.channels)


def _opened(values: Params) -> dict[str, Tensor]:
    """The drawn value of each step, 0 where its gate is closed; a step that always applies has no gate."""
    gates = {name: values.get(f"open_{name.split('_')[0]}") for name in values if not name.startswith("open_")}
    return {name: values[name] if gate is None else gate * values[name] for name, gate in gates.items()}


def _gate(p: Chance) -> Bernoulli:
    return p if isinstance(p, Bernoulli) else Bernoulli(as_number("p", p), estimator="straight_through")


class ADA(nn.Module):
    """Adaptive discriminator augmentation: a pipeline whose probability follows how much the discriminator overfits.

    Every picture, real or generated, goes through the same transforms before the discriminator sees it, each with the
    probability p: flips, quarter turns and shifts by whole pixels; scales, rotations and shifts, reflected outside; brightness,
    contrast, luma flip, hue and saturation; four bands of frequencies; noise and cutout. While p stays below some 0.8, generators
    do not learn to make augmented pictures: the order is the published one, and each step is skipped often enough.

    Args:
        p: where the probability starts, 0 to 1.
        target: the overfitting heuristic at which p stays.
        images: how many real pictures move p from 0 to 1, at the fastest.
        seed: of the draws, as in `Pipeline`.
        options: as in `Pipeline`.

    ``p`` is a tensor in the ``state_dict``: writing to it (as :meth:`update` does) compiles nothing anew.

    Gradient:
        image: exact, to any order, as R1 and path length regularisation ask for. p: none.

    Errors:
        InvalidArgument for p outside of [0, 1], images that are not positive, and as `Pipeline`.

    Source:
        Karras, Aittala, Hellsten, Laine, Lehtinen, Aila: "Training generative adversarial networks with limited data", NeurIPS
        2020, section 3 and appendix B. Ours resamples bilinearly in one pass where theirs filters at twice the resolution;
        pictures are in [0, 1], theirs in [-1, 1].

    Example:
        >>> from pellucid.policy import ADA
        >>> augment = ADA(p=0.2, images=1000, seed=0)
        >>> seen = augment(torch.rand(8, 3, 32, 32))
        >>> round(float(augment.update(torch.full((100,), 3.0))), 4)  # too sure of real pictures: p grows by 100 / 1000
        0.3
    """

    def __init__(
        self, p: float = 0.0, *, target: float = 0.6, images: float = 500_000, seed: int | None = None, **options: Any
    ) -> None:
        super().__init__()
        if not 0.0 <= finite_number("p", p) <= 1.0:
            raise invalid("p", expected="a probability in [0, 1]", got=p)
        if finite_number("images", images) <= 0:
            raise invalid("images", expected="a number of pictures > 0", got=images)
        self.target, self.images = finite_number("target", target), float(images)
        self.p, self.p_turn = (
            nn.Parameter(torch.tensor(float(start)), requires_grad=False) for start in (p, 1.0 - math.sqrt(1.0 - p))
        )
        steps = [
            AdaGeometry(self.p, self.p_turn),
            AdaColors(self.p),
            AdaBands(self.p),
            AdaNoise(_gate(self.p)),
            AdaCutout(_gate(self.p)),
        ]
        self.pipeline = Pipeline(steps, seed=seed, **options)

    def forward(self, images: Any, **options: Any) -> Any:
        """Augment real or generated pictures; arguments and results as in `Pipeline`'s call."""
        return self.pipeline(images, **options)

    @torch.no_grad()
    def update(self, real: Tensor, *, validation: Tensor | None = None, generated: Tensor | None = None) -> Tensor:
        """Move p by one step: up where the discriminator overfits by more than the target, else down.

        Args:
            real: the discriminator's outputs (before any sigmoid) for real pictures, since the last update.
            validation, generated: its outputs for held-out and for generated pictures, for the heuristic that compares the three.

        Returns:
            p.

        Gradient:
            None: p is a parameter without a gradient, changed in place.

        Errors:
            InvalidType for ``real`` that is no tensor or holds no number; InvalidArgument for one of ``validation`` and
            ``generated`` without the other.
        """
        overfits = overfitting(real, validation=validation, generated=generated)
        step = torch.sign(overfits - self.target) * (real.numel() / self.images)
        self.p.copy_(torch.clamp(self.p + step.to(self.p), 0.0, 1.0))
        self.p_turn.copy_(1.0 - torch.sqrt(1.0 - self.p))
        return self.p


def overfitting(real: Tensor, *, validation: Tensor | None = None, generated: Tensor | None = None) -> Tensor:
    """How much a discriminator overfits: 0 not at all, 1 wholly.

    The mean sign of its outputs for real pictures; or, with both others, how far validation pictures have gone from the real
    ones to the generated ones.
    """
    if not isinstance(real, Tensor) or real.numel() == 0:
        raise wrong_type("real", expected="a tensor of at least one output", got=repr(real))
    if (validation is None) != (generated is None):
        raise invalid("validation and generated", expected="both or neither", got="one of them")
    if validation is None or generated is None:
        return torch.sign(real).mean()
    return (real.mean() - validation.mean()) / (real.mean() - generated.mean())
