"""Losses that make two responses rank places alike: the correlation of two maps over the pixels that both see.

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
"""A map counts as flat if its variance is a smaller share of its squared values."""


def consistency_loss(view: SharedView) -> Float[Tensor, ""]:
    """Return one minus the correlation of both views' responses over the pixels that both see: low when they rank places alike.

    Windowed losses compare only places near each other; this one compares whole views, as the choice of the K highest does. It is 0
    for smooth responses, too: combine it with a loss that makes peaks.

    Args:
        view: both responses in one frame.

    Returns:
        A scalar from 0 to 2.

    Gradient:
        responses: exact; 0 for flat ones, and for a pair without common pixels.

    Example:
        >>> from pellucid.features import consistency_loss, share_view
        >>> response = torch.rand(1, 1, 16, 16)
        >>> bool(consistency_loss(share_view(response, response, torch.eye(3)[None])) < 1e-5)
        True
    """
    return _one_minus_correlation(view.first, view.second, view.visible)


def imitation_loss(response: Float[Tensor, "b 1 h w"], teacher: Float[Tensor, "b 1 h w"]) -> Float[Tensor, ""]:
    """Return one minus the correlation with the signed square root of a teacher's response, which is a constant target.

    The highest peaks of a determinant are far above the others; with the root, weaker peaks count as well, which the K best need.

    Args:
        response: the learned response.
        teacher: the teacher's response, of the same shape.

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

    first, second = (torch.where(counted, x, 0.0) for x in (first, second))  # hidden pixels may be NaN
    a, b = centred(first), centred(second)
    size = a.square().sum((1, 2, 3)) * b.square().sum((1, 2, 3))  # b
    power = first.square().sum((1, 2, 3)) * second.square().sum((1, 2, 3))
    known = ~(size <= _SILENT * power.detach())  # negated, so that NaN counts as known and stays visible
    correlation = (a * b).sum((1, 2, 3)) * torch.rsqrt(torch.where(known, size, 1.0))
    pairs = known.sum()
    return torch.where(known, 1 - correlation, 0.0).sum() / torch.where(pairs > 0, pairs, 1)
