"""Responses that rank places alike: correlation of two maps, over what both see.

Owns: the consistency of two views' responses, and the imitation of a classical one.
Must not: warp (``response_windows.py``).
Read next: ``detector_step.py``.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.features.response_windows import SharedView

__all__ = ["consistency_loss", "imitation_loss"]

_SILENT = 1e-12
"""Share of variance in squared values below which a map counts as flat."""


def consistency_loss(view: SharedView) -> Float[Tensor, ""]:
    """One minus the correlation of both views' responses over the pixels that both see: low when they rank places alike.

    Windows compare places near each other only; this compares all of a view, which is what the choice of the K highest needs. It is
    0 for smooth responses too: combine it with a loss that asks for peaks.

    Args:
        view: both responses in one frame.

    Returns:
        A scalar from 0 to 2.

    Gradient:
        responses: exact; 0 for flat ones, and for a pair that shares nothing.

    Example:
        >>> from pellucid.features import consistency_loss, share_view
        >>> response = torch.rand(1, 1, 16, 16)
        >>> bool(consistency_loss(share_view(response, response, torch.eye(3)[None])) < 1e-5)
        True
    """
    return _one_minus_correlation(view.first, view.second, view.visible)


def imitation_loss(response: Float[Tensor, "b 1 h w"], teacher: Float[Tensor, "b 1 h w"]) -> Float[Tensor, ""]:
    """One minus the correlation with the signed square root of a teacher's response, which is constant to the gradient.

    A determinant's highest peaks tower above the rest; under the root the weaker ones, which the K best need too, count as well.

    Args:
        response: what learns.
        teacher: of the same shape.

    Returns:
        A scalar from 0 to 2.

    Gradient:
        response: exact; 0 for flat ones. teacher: none by declaration.

    Example:
        >>> from pellucid.features import harris_response, imitation_loss
        >>> teacher = harris_response(torch.rand(1, 1, 16, 16))
        >>> bool(imitation_loss(teacher.sign() * teacher.abs().sqrt(), teacher) < 1e-5)
        True
    """
    known = teacher.detach()
    return _one_minus_correlation(response, known.sign() * known.abs().sqrt(), torch.ones_like(response, dtype=torch.bool))


def _one_minus_correlation(
    first: Float[Tensor, "b 1 h w"], second: Float[Tensor, "b 1 h w"], counted: Bool[Tensor, "b 1 h w"]
) -> Float[Tensor, ""]:
    weight = counted.to(first.dtype)
    count = torch.clamp(weight.sum((-2, -1), keepdim=True), min=1)

    def centred(x: Tensor) -> Tensor:
        mean = x.sum((-2, -1), keepdim=True) / count
        return weight * (x - mean)

    first, second = (torch.where(counted, x, 0.0) for x in (first, second))  # what nobody sees may be NaN
    a, b = centred(first), centred(second)
    size = a.square().sum((1, 2, 3)) * b.square().sum((1, 2, 3))  # b
    power = first.square().sum((1, 2, 3)) * second.square().sum((1, 2, 3))
    known = ~(size <= _SILENT * power.detach())  # in this form, so that NaN shows
    correlation = (a * b).sum((1, 2, 3)) * torch.rsqrt(torch.where(known, size, 1.0))
    pairs = known.sum()
    return torch.where(known, 1 - correlation, 0.0).sum() / torch.where(pairs > 0, pairs, 1)
