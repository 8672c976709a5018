"""Pointwise curves with their declared gradients: surrogate gradients, added to the values, where a curve jumps.

Owns: `curved`, any of those curves as a stage of a pass; `jumped`, one that jumps; `term`.
Must not: change a value: with or without a gradient, the result is that of ``../color/curves.py``.
Read next: ``curve/surrogate.py``.
"""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.color.curves import Curved, posterize, power, solarize

__all__ = ["curved", "jumped", "term"]


def curved(image: Float[Tensor, "b c h w"], numbers: Float[Tensor, "#b 4"], how: Curved) -> Float[Tensor, "b c h w"]:
    """Apply one of the curves, with its `NUMBERS` per sample.

    Gradient:
        as :func:`power`, or :func:`jumped` and its gate (exact); there is none to the reach.
    """
    amount, gain, gate, reach = numbers.unbind(1)
    if how.name == "power":
        return power(image, amount, gain)
    gate = gate[:, None, None, None]
    return gate * jumped(image, amount, how, reach.detach()[:, None, None, None]) + (1.0 - gate) * image


def jumped(
    image: Float[Tensor, "b c h w"], amount: Float[Tensor, "#b"], how: Curved, reach: Tensor | float, *, wanted: bool = True
) -> Float[Tensor, "b c h w"]:
    """Posterise or solarise, with surrogate gradients.

    Args:
        image: in [0, 1].
        amount: bits, or a threshold.
        how: which of the two, and which surrogates.
        reach: of the secant; broadcasts to the image.
        wanted: whether anything may ask for a gradient.

    Gradient:
        image: of a staircase ``straight_through`` (as if it were the identity), ``soft`` (the slope of a smoothed one) or ``none``;
        almost everywhere for ``solarize``. amount: ``secant`` (the difference of the results at ``amount + reach`` and
        ``amount - reach``), ``straight_through`` (1 at every pixel) or ``none``.
    """
    still = image.detach(), amount.detach()
    if how.name == "solarize":
        result = solarize(image, still[1], how.scale)
    else:
        result = posterize(*still)
        if wanted:
            result = result + (image - still[0]) * _slope(how.image_gradient, *still)
    if not wanted:
        return result
    zero = (amount - still[1])[:, None, None, None]
    if how.surrogate != "secant":
        return result + term(zero, how.surrogate)
    operation = partial(solarize, scale=how.scale) if how.name == "solarize" else posterize
    step = reach.flatten() if isinstance(reach, Tensor) else reach
    more, less = (operation(still[0], still[1] + by) for by in (step, -step))
    return result + term(zero, how.surrogate, (more - less) / (2.0 * reach))


def term(zero: Tensor, kind: str, secant: Tensor | None = None) -> Tensor:
    """Zero, whose gradient to the parameter behind ``zero`` is the chosen slope."""
    if kind == "none":
        return 0.0 * zero
    return zero if secant is None else zero * secant.detach()


def _slope(kind: str, image: Tensor, bits: Tensor) -> Tensor:
    """The declared slope of a staircase; ``soft``: that of x + sin(2 pi L x) / (2 pi L), 2 at a jump, 0 between two.

    L = 255 / step: grey levels jump at whole multiples of the step.
    """
    if kind != "soft":
        return torch.ones_like(image) if kind == "straight_through" else torch.zeros_like(image)
    step = torch.exp2(8.0 - torch.floor(bits + 0.5))[:, None, None, None]
    return 1.0 + torch.cos(2.0 * torch.pi * 255.0 / step * image)
