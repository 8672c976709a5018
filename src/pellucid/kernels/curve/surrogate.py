"""Gradients for operations that have none: declared surrogates, attached to the values of the reference.

Owns: `tone`: the operation by name, its surrogate gradients to the image and to its magnitude, and its gate.
Must not: change a value: with or without a gradient, the result is the reference's.
Read next: ``../../transforms/discrete.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.color.curves import Curved
from pellucid.kernels.curve.clahe import clahe
from pellucid.kernels.curve.reference import autocontrast, equalize
from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.jumps import jumped, term

__all__ = ["tone"]

Tiled: TypeAlias = Callable[..., tuple[Tensor, Tensor]]
""":func:`pellucid.kernels.curve.clahe.clahe` with its tiles given."""


def tone(
    image: Float[Tensor, "b c h w"],
    how: Curved,
    amount: Float[Tensor, "#b"] | None,
    gate: Float[Tensor, "#b"] | None,
    h: float,
    tiled: Tiled = clahe,
) -> Float[Tensor, "b c h w"]:
    """Posterise, solarise, equalise (as a whole, or in tiles) or stretch, where the gate is open.

    Args:
        image: in [0, 1].
        how: ``posterize``, ``solarize``, ``equalize``, ``clahe`` or ``autocontrast``, and what else is static: ``image_gradient``
            is that of a staircase, ``straight_through`` (as if the operation were the identity), ``soft`` (the slope of a smoothed
            staircase) or ``none`` (zero); ``surrogate`` is ``secant`` (the difference of the results at ``amount + h`` and
            ``amount - h``), ``straight_through`` (1 at every pixel) or ``none`` (zero).
        amount: bits, threshold, or how steep a tile's curve may get.
        gate: 1 for the operation, 0 for the image as it is; None for always.
        h: reach of the secant.
        tiled: computes ``clahe``, with its tiles given.

    Gradient:
        image: as chosen for a staircase, almost everywhere for ``solarize`` and ``autocontrast``. amount: as chosen. gate: exact.
    """
    wanted = needs_grad(image, amount)
    if how.name in ("posterize", "solarize"):
        assert amount is not None
        result = jumped(image, amount, how, h, wanted=wanted)
    elif how.name == "autocontrast":
        result = autocontrast(image)
    else:
        result = _flattened(image, amount, how, h, tiled, wanted)
    if gate is None:
        return result
    gate = gate[:, None, None, None]
    return gate * result + (1.0 - gate) * image


def _flattened(image: Tensor, limit: Tensor | None, how: Curved, h: float, tiled: Tiled, wanted: bool) -> Tensor:
    """Equalise, as a whole or (with a limit) in tiles."""
    picture = image.detach()
    result, steepness = equalize(picture, how.scale) if limit is None else tiled(picture, limit.detach(), sloped=wanted)
    if not wanted:
        return result
    if how.image_gradient != "soft":
        steepness = torch.ones_like(steepness) if how.image_gradient == "straight_through" else torch.zeros_like(steepness)
    result = result + (image - picture) * steepness
    if limit is None:
        return result
    zero, secant = (limit - limit.detach())[:, None, None, None], None
    if how.surrogate == "secant":
        more, less = (tiled(picture, limit.detach() + reach, sloped=False)[0] for reach in (h, -h))
        secant = (more - less) / (2.0 * h)
    return result + term(zero, how.surrogate, secant)
