"""Published policies to the letter: TrivialAugment (wide), RandAugment, AutoAugment and AugMix, made of our transforms.

Owns: their spaces, tables and defaults.
Must not: choose or draw; they are values that stand in any pipeline.
Read next: ``operations.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pellucid.core.arguments import check_choice, whole_number
from pellucid.policy.operations import ORDER, REACH, magnitudes, operation, signs
from pellucid.random import Categorical
from pellucid.transforms import Mixture, OneOf, RandomShear, RandomTranslate, SomeOf
from pellucid.transforms.base import Transform

__all__ = ["AugMix", "AutoAugment", "RandAugment", "TrivialAugmentWide"]


def TrivialAugmentWide(*, bins: int = 31, same_on_batch: bool = False) -> OneOf:
    """One of fourteen operations per picture, each as likely, with one of ``bins`` magnitudes: nothing to tune.

    Args:
        bins: magnitudes from nothing to the largest, 2 to 1000.
        same_on_batch: one draw for the whole batch.

    Returns:
        A transform, to be put into a `Pipeline`. Geometry is sampled nearest, as published; fills are 0. Pictures of bytes are
        rounded after every operation, as published; gradients go straight through.

    Errors:
        InvalidArgument or InvalidType for bins outside of their range.

    Source:
        Mueller and Hutter: "TrivialAugment: tuning-free yet state-of-the-art data augmentation", ICCV 2021.
        ``torchvision.transforms.v2.TrivialAugmentWide``: the same operation and magnitude for the same choice.

    Example:
        >>> from pellucid.policy import TrivialAugmentWide
        >>> augment = pellucid.Pipeline([TrivialAugmentWide(), pellucid.RandomHorizontalFlip()])
        >>> len(augment[0].transforms)
        14
    """
    bins = whole_number("bins", bins, 2, 1000)
    reach = {"shear": 0.99, "translate": 32.0, "rotate": 135.0, "factor": 0.99, "posterize": 6.0}
    operations = (operation(name, magnitudes(name, reach, bins), 1.0, pixels=True) for name in ORDER)
    return OneOf(((), *operations), same_on_batch=same_on_batch, rounded=True)


def RandAugment(n: int = 2, magnitude: int = 9, *, bins: int = 31, same_on_batch: bool = False) -> SomeOf:
    """``n`` operations per picture, one after the other, drawn from fourteen with replacement, all of one magnitude.

    Args:
        n: operations per picture, 0 to 64.
        magnitude: number of the magnitude, from 0 to ``bins`` - 1.
        bins: magnitudes from nothing to the largest, 2 to 1000.
        same_on_batch: one draw for the whole batch.

    Returns:
        A transform for a `Pipeline`, rounded as in :func:`TrivialAugmentWide`. Shifts are fractions of the size, which nearest
        sampling rounds to pixels.

    Errors:
        InvalidArgument or InvalidType for numbers outside of their ranges.

    Source:
        Cubuk, Zoph, Shlens, Le: "RandAugment: practical automated data augmentation with a reduced search space", 2020.
        ``torchvision.transforms.v2.RandAugment``, which truncates shifts to whole pixels.

    Example:
        >>> from pellucid.policy import RandAugment
        >>> pellucid.Pipeline([RandAugment(n=2, magnitude=9)], seed=0)(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 3, 32, 32])
    """
    bins = whole_number("bins", bins, 2, 1000)
    magnitude = whole_number(f"magnitude (bins={bins})", magnitude, 0, bins - 1)
    operations = (operation(name, signs(name, magnitudes(name, REACH, bins, signed=False)[magnitude]), 1.0) for name in ORDER)
    return SomeOf(((), *operations), n=n, replace=True, same_on_batch=same_on_batch, rounded=True)


def AutoAugment(policy: str = "imagenet", *, same_on_batch: bool = False) -> OneOf:
    """One of 25 learned pairs of operations per picture, each operation with its own probability and magnitude.

    Args:
        policy: the data that the pairs were learned on: ``imagenet``, ``cifar10`` or ``svhn``.
        same_on_batch: one draw for the whole batch.

    Returns:
        A transform for a `Pipeline`, with the rounding and shifts of :func:`RandAugment`.

    Errors:
        InvalidArgument for a policy that does not exist.

    Source:
        Cubuk, Zoph, Mane, Vasudevan, Le: "AutoAugment: learning augmentation policies from data", CVPR 2019.
        ``torchvision.transforms.v2.AutoAugment``.

    Example:
        >>> from pellucid.policy import AutoAugment
        >>> augment = pellucid.Pipeline([AutoAugment("cifar10")], seed=0)
        >>> augment(torch.rand(8, 3, 32, 32)).shape, len(augment[0].transforms)
        (torch.Size([8, 3, 32, 32]), 25)
    """
    check_choice("policy", policy, tuple(_TABLES))
    pairs = (tuple(_step(*word.split()) for word in pair.split("+")) for pair in _TABLES[policy].split(";"))
    return OneOf(tuple(pairs), same_on_batch=same_on_batch, rounded=True)


def AugMix(
    operations: str = "google",
    *,
    severity: int = 3,
    width: int = 3,
    depth: int | None = None,
    alpha: float = 1.0,
    same_on_batch: bool = False,
) -> Mixture:
    """Mix each picture with ``width`` copies of it, each changed by a chain of 1 to 3 mild operations.

    Args:
        operations: ``google``: the paper's nine, none of which is among the corruptions of ImageNet-C; ``torchvision``:
            torchvision's thirteen, with torchvision's magnitudes.
        severity: the largest level of an operation, 1 to 10.
        width: how many chains, 1 to 16.
        depth: operations in each chain, 1 to 16; None draws from 1 to 3.
        alpha: of the Dirichlet and Beta distributions that weights are drawn from, 0.05 to 16.
        same_on_batch: one draw of the mixture's weights for the whole batch.

    Returns:
        A `Mixture`, to be put into a `Pipeline`. The weights are on the record, and a gradient goes to them. With
        :func:`~pellucid.losses.jensen_shannon_loss` of a clean and two mixed pictures it is the published recipe.

    Pictures of bytes are rounded after every operation of a chain, as published; gradients go straight through. Rotation and
    shear are bilinear, as published; shifts are whole pixels, rounded where the papers' code truncates. Google's
    shears and shifts are uniform in degrees and in fractions of the size.

    Errors:
        InvalidArgument or InvalidType for numbers outside of their ranges, and for operations that do not exist.

    Source:
        Hendrycks, Mu, Cubuk, Zoph, Gilmer, Lakshminarayanan: "AugMix: a simple data processing method to improve robustness and
        uncertainty", ICLR 2020. ``torchvision.transforms.v2.AugMix``.

    Example:
        >>> from pellucid.policy import AugMix
        >>> augment = pellucid.Pipeline([AugMix()], seed=0)
        >>> _, record = augment(torch.rand(8, 3, 16, 16), return_record=True)
        >>> record.params[0]["weights"].shape
        torch.Size([8, 3])
    """
    check_choice("operations", operations, ("google", "torchvision"))
    severity, width = whole_number("severity", severity, 1, 10), whole_number("width", width, 1, 16)
    one: Transform = _mild_of_google(severity) if operations == "google" else _mild_of_torchvision(severity)
    if depth is not None:
        chain: tuple[Transform, ...] = (one,) * whole_number("depth", depth, 1, 16)
    else:
        chain = (one, OneOf(((), (one, OneOf(((), one)))), weights=(1.0, 2.0)))
    return Mixture((chain,) * width, alpha=alpha, same_on_batch=same_on_batch)


def _mild_of_torchvision(severity: int) -> OneOf:
    def of(name: str) -> Transform:
        largest = magnitudes(name, {**REACH, "translate": 1.0 / 3.0, "posterize": 4.0}, 10, signed=False)[:severity]
        if name == "Posterize":
            largest = [4.0 - round(4.0 * k / 9.0) for k in range(severity)]
        return operation(name, [v for value in largest for v in signs(name, value)], 1.0, interpolation="bilinear")

    return OneOf(tuple(of(name) for name in ORDER), rounded=True)


def _mild_of_google(severity: int) -> OneOf:
    """One of nine operations, whose level is uniform from 0.1 to the severity."""

    def whole(most: float, change: Callable[[float], float], name: str, *, signed: bool = False) -> Transform:
        """An operation of magnitude ``change(n)``, where n is ``trunc(level * most / 10)``."""
        parts = [
            (n, max(0.0, min(10.0 * (n + 1) / most, severity) - max(10.0 * n / most, 0.1)))
            for n in range(math.floor(severity * most / 10) + 1)
        ]
        ends = [(sign * change(n), share) for n, share in parts if share > 0 for sign in ((1, -1) if signed else (1,))]
        values, weights = zip(*ends, strict=True)
        return operation(name, values, 1.0, spread=lambda drawn: Categorical(drawn, weights), interpolation="bilinear")

    level = (0.1 / 10.0, severity / 10.0)
    lean = [math.degrees(math.atan(0.3 * part)) for part in level]
    shift = [part / 3.0 for part in level]
    zero = (0.0, 0.0)

    def both(low: float, high: float) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        return [pair for ends in ((low, high), (-high, -low)) for pair in ((ends, zero), (zero, ends))]

    spread: list[Transform] = [RandomShear((*x, *y), center=(-0.5, -0.5)) for x, y in both(*lean)]
    spread += [RandomTranslate(pair, interpolation="nearest") for pair in both(*shift)]
    alone = (
        operation("AutoContrast", (), 1.0),
        operation("Equalize", (), 1.0),
        whole(4.0, lambda n: 4.0 - n, "Posterize"),
        whole(30.0, float, "Rotate", signed=True),
        whole(256.0, lambda n: (256.0 - n) / 255.0, "Solarize"),
    )
    return OneOf((*alone, *spread), weights=(1.0,) * len(alone) + (0.5,) * len(spread), rounded=True)


def _step(name: str, p: str, magnitude: str = "") -> Transform:
    """An operation of a table: its name, probability and the number of its magnitude, of ten."""
    values = signs(name, magnitudes(name, REACH, 10, signed=False)[int(magnitude)]) if magnitude else ()
    return operation(name, values, float(p))


_TABLES = {
    "imagenet": (
        "Posterize 0.4 8 + Rotate 0.6 9; Solarize 0.6 5 + AutoContrast 0.6; Equalize 0.8 + Equalize 0.6; "
        "Posterize 0.6 7 + Posterize 0.6 6; Equalize 0.4 + Solarize 0.2 4; Equalize 0.4 + Rotate 0.8 8; "
        "Solarize 0.6 3 + Equalize 0.6; Posterize 0.8 5 + Equalize 1.0; Rotate 0.2 3 + Solarize 0.6 8; "
        "Equalize 0.6 + Posterize 0.4 6; Rotate 0.8 8 + Color 0.4 0; Rotate 0.4 9 + Equalize 0.6; Equalize "
        "0.0 + Equalize 0.8; Invert 0.6 + Equalize 1.0; Color 0.6 4 + Contrast 1.0 8; Rotate 0.8 8 + Color "
        "1.0 2; Color 0.8 8 + Solarize 0.8 7; Sharpness 0.4 7 + Invert 0.6; ShearX 0.6 5 + Equalize 1.0; "
        "Color 0.4 0 + Equalize 0.6; Equalize 0.4 + Solarize 0.2 4; Solarize 0.6 5 + AutoContrast 0.6; Invert "
        "0.6 + Equalize 1.0; Color 0.6 4 + Contrast 1.0 8; Equalize 0.8 + Equalize 0.6 "
    ),
    "cifar10": (
        "Invert 0.1 + Contrast 0.2 6; Rotate 0.7 2 + TranslateX 0.3 9; Sharpness 0.8 1 + Sharpness 0.9 3; "
        "ShearY 0.5 8 + TranslateY 0.7 9; AutoContrast 0.5 + Equalize 0.9; ShearY 0.2 7 + Posterize 0.3 7; "
        "Color 0.4 3 + Brightness 0.6 7; Sharpness 0.3 9 + Brightness 0.7 9; Equalize 0.6 + Equalize 0.5; "
        "Contrast 0.6 7 + Sharpness 0.6 5; Color 0.7 7 + TranslateX 0.5 8; Equalize 0.3 + AutoContrast 0.4; "
        "TranslateY 0.4 3 + Sharpness 0.2 6; Brightness 0.9 6 + Color 0.2 8; Solarize 0.5 2 + Invert 0.0; "
        "Equalize 0.2 + AutoContrast 0.6; Equalize 0.2 + Equalize 0.6; Color 0.9 9 + Equalize 0.6; "
        "AutoContrast 0.8 + Solarize 0.2 8; Brightness 0.1 3 + Color 0.7 0; Solarize 0.4 5 + AutoContrast "
        "0.9; TranslateY 0.9 9 + TranslateY 0.7 9; AutoContrast 0.9 + Solarize 0.8 3; Equalize 0.8 + Invert "
        "0.1; TranslateY 0.7 9 + AutoContrast 0.9 "
    ),
    "svhn": (
        "ShearX 0.9 4 + Invert 0.2; ShearY 0.9 8 + Invert 0.7; Equalize 0.6 + Solarize 0.6 6; Invert 0.9 + "
        "Equalize 0.6; Equalize 0.6 + Rotate 0.9 3; ShearX 0.9 4 + AutoContrast 0.8; ShearY 0.9 8 + Invert "
        "0.4; ShearY 0.9 5 + Solarize 0.2 6; Invert 0.9 + AutoContrast 0.8; Equalize 0.6 + Rotate 0.9 3; "
        "ShearX 0.9 4 + Solarize 0.3 3; ShearY 0.8 8 + Invert 0.7; Equalize 0.9 + TranslateY 0.6 6; Invert "
        "0.9 + Equalize 0.6; Contrast 0.3 3 + Rotate 0.8 4; Invert 0.8 + TranslateY 0.0 2; ShearY 0.7 6 + "
        "Solarize 0.4 8; Invert 0.6 + Rotate 0.8 4; ShearY 0.3 7 + TranslateX 0.9 3; ShearX 0.1 6 + Invert "
        "0.6; Solarize 0.7 2 + TranslateY 0.6 7; ShearY 0.8 4 + Invert 0.8; ShearX 0.7 9 + TranslateY 0.8 3; "
        "ShearY 0.8 5 + AutoContrast 0.7; ShearX 0.7 2 + Invert 0.1 "
    ),
}
"""By data set: pairs of (operation, probability, number of its magnitude)."""
