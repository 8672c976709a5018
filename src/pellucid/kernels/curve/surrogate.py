"""Gradients for operations that have none: declared surrogates, attached to the values of the reference.

Owns: `tone`: the operation by name, its surrogate gradients to the image and to its magnitude, and its gate.
Must not: change a value: with or without a gradient, the result is the reference's.
Read next: ``../../transforms/discrete.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.curve.clahe import clahe
from pellucid.kernels.curve.reference import autocontrast, equalize, posterize, solarize
from pellucid.kernels.derivatives import needs_grad
from pellucid.types import Size

__all__ = ["tone"]


def tone(
    image: Float[Tensor, "b c h w"],
    name: str,
    amount: Float[Tensor, "#b"] | None,
    gate: Float[Tensor, "#b"] | None,
    *,
    image_gradient: str,
    magnitude: str,
    h: float,
    scale: float,
    tiles: Size = (1, 1),
) -> Float[Tensor, "b c h w"]:
    """Posterise, solarise, equalise (as a whole, or in tiles) or stretch, where the gate is open.

    Args:
        image: in [0, 1].
        name: ``posterize``, ``solarize``, ``equalize``, ``clahe`` or ``autocontrast``.
        amount: bits, threshold, or how steep a tile's curve may get.
        gate: 1 for the operation, 0 for the image as it is; None for always.
        image_gradient: of a staircase, ``straight_through`` (as if the operation were the identity), ``soft`` (the slope of a
            smoothed staircase) or ``none`` (zero).
        magnitude: ``secant`` (the difference of the results at ``amount + h`` and ``amount - h``), ``straight_through`` (1 at every
            pixel) or ``none`` (zero).
        h: reach of the secant.
        scale: 255 for images that came as 8 bits, 1 for others.
        tiles: of ``clahe``.

    Gradient:
        image: as chosen for a staircase, almost everywhere for ``solarize`` and ``autocontrast``. amount: as chosen. gate: exact.
    """
    wanted = needs_grad(image, amount)
    slope: Tensor | None = None
    if name == "equalize":
        result, steepness = equalize(image.detach(), scale)
        if wanted:
            slope = _image_slope(image_gradient, steepness)
    elif name == "clahe":
        assert amount is not None
        result, steepness = clahe(image.detach(), amount.detach(), tiles)
        if wanted:
            slope = _image_slope(image_gradient, steepness)
    elif name == "posterize":
        assert amount is not None
        result = posterize(image.detach(), amount.detach(), scale)
        if wanted:
            slope = _image_slope(image_gradient, _soft_steps(image.detach(), amount.detach()))
    elif name == "solarize":
        assert amount is not None
        result = solarize(image, amount.detach(), scale)
    else:
        result = autocontrast(image)
    if slope is not None:
        result = result + (image - image.detach()) * slope
    if amount is not None and wanted:
        result = result + _amount_term(image.detach(), name, amount, magnitude, h, scale, tiles)
    if gate is None:
        return result
    gate = gate[:, None, None, None]
    return gate * result + (1.0 - gate) * image


def _image_slope(kind: str, soft: Tensor) -> Tensor:
    if kind == "soft":
        return soft
    return torch.ones_like(soft) if kind == "straight_through" else torch.zeros_like(soft)


def _soft_steps(image: Tensor, bits: Tensor) -> Tensor:
    """The slope 1 + cos(2 pi L x) of the smoothed staircase x + sin(2 pi L x) / (2 pi L): 2 at a jump, 0 between two."""
    levels = torch.exp2(torch.floor(bits + 0.5))[:, None, None, None]
    return 1.0 + torch.cos(2.0 * torch.pi * levels * image)


def _amount_term(image: Tensor, name: str, amount: Tensor, kind: str, h: float, scale: float, tiles: Size) -> Tensor:
    """Zero, with the chosen slope to the amount."""
    zero = (amount - amount.detach())[:, None, None, None]
    if kind == "none":
        return 0.0 * zero
    if kind == "straight_through":
        return zero
    still = amount.detach()
    if name == "clahe":
        more, less = (clahe(image, still + reach, tiles)[0] for reach in (h, -h))
    else:
        operation = posterize if name == "posterize" else solarize
        more, less = (operation(image, still + reach, scale) for reach in (h, -h))
    return zero * ((more - less) / (2.0 * h)).detach()
