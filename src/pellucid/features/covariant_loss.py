"""Losses that make two views' responses peak at the same places.

Owns: the covariant index loss, the agreement loss, and two losses that make windows peaked.
Must not: warp (``response_windows.py``) or choose keypoints.
Read next: ``detector_step.py``.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.features.derivatives import gaussian_derivatives
from pellucid.features.response_windows import SharedView, cut_windows
from pellucid.features.soft_argmax import window_offsets

__all__ = ["agreement_loss", "covariant_index_loss", "dispersity_loss", "peakiness_loss"]

_RARE = 1e-6
"""Probability added before a logarithm."""


def covariant_index_loss(
    view: SharedView, *, windows: Sequence[int] = (8, 16, 24, 32), offset: tuple[int, int] = (0, 0), stop_gradient: bool = False
) -> Float[Tensor, ""]:
    """Return the squared distance between the two views' soft-argmaxes, window by window, at several window sizes.

    Distances are in units of the window's side, and windows are weighted by the (detached) probability mass of their two peaks, so
    that windows without a clear maximum count little. A constant response has loss 0: combine with :func:`agreement_loss`,
    :func:`peakiness_loss` or :func:`dispersity_loss`.

    Args:
        view: both responses in one frame, from :func:`~pellucid.features.share_view`.
        windows: sides in pixels; the losses of all sizes are averaged.
        offset: (y, x) of the first window, modulo its side: draw it at random, so that no place is always at a border.
        stop_gradient: take the second view's maxima as targets, constant to the gradient.

    Returns:
        A scalar, at least 0.

    Gradient:
        responses: exact, except that the weights are constants by declaration.
    Errors:
        InvalidArgument for windows larger than the maps.
    Source:
        Barroso-Laguna et al., "Key.Net", ICCV 2019 (the multi-scale index proposal loss).

    Example:
        >>> from pellucid.features import covariant_index_loss, share_view
        >>> response = torch.rand(1, 1, 40, 40)
        >>> covariant_index_loss(share_view(response, response, torch.eye(3)[None]))
        tensor(0.)
    """
    total = view.first.new_zeros(())
    for side in _sides(windows):
        first, second, counted = _weights(view, side, offset)  # b n s*s
        places = window_offsets(side, side, first) / side
        target = second @ places
        distance = (first @ places - (target.detach() if stop_gradient else target)).square().sum(-1)  # b n
        clear = (first.amax(-1) * second.amax(-1)).detach().sqrt()
        total = total + _mean(distance, clear * counted)
    return total / len(windows)


def agreement_loss(
    view: SharedView, *, windows: Sequence[int] = (16, 32), offset: tuple[int, int] = (0, 0), tolerance: float = 1.0
) -> Float[Tensor, ""]:
    """Return how unlikely two keypoints, one drawn from each view by softmax over a window, are to coincide.

    ``-log sum_ij p_i q_j w(|x_i - x_j|) / log(pixels)``, with w a Gaussian of sum 1: about 1 for constant responses, lowest for one
    sharp peak at the same place in both. It rewards repeatable places and peakiness at once, so it has no flat solution.

    Args:
        view: both responses in one frame.
        windows: sides in pixels; the losses of all sizes are averaged. In large ones, peaks compete for the most repeatable place.
        offset: (y, x) of the first window, modulo its side: draw it at random.
        tolerance: standard deviation of w in pixels: how far apart two places still count as the same. 0 counts equal pixels.

    Returns:
        A scalar.

    Gradient:
        responses: exact.
    Errors:
        InvalidArgument for windows larger than the maps.

    Example:
        >>> from pellucid.features import agreement_loss, share_view
        >>> peak = torch.zeros(1, 1, 40, 40)
        >>> peak[..., 20, 20] = 20.0
        >>> views = [share_view(peak, other, torch.eye(3)[None]) for other in (peak, torch.zeros_like(peak))]
        >>> bool(agreement_loss(views[0]) < agreement_loss(views[1]))
        True
    """
    total = view.first.new_zeros(())
    for side in _sides(windows):
        first, second, counted = _weights(view, side, offset)
        if tolerance > 0:
            spread = gaussian_derivatives(second.reshape(-1, 1, side, side), max(tolerance, 0.4), [(0, 0)], truncate=2.5)
            second = spread.reshape(second.shape)
        agreement = -torch.log((first * second).sum(-1) + _RARE) / math.log(side * side)
        total = total + _mean(agreement, counted)
    return total / len(windows)


def peakiness_loss(response: Float[Tensor, "b 1 h w"], *, window: int = 16, offset: tuple[int, int] = (0, 0)) -> Float[Tensor, ""]:
    """Return one minus the mean over windows of (highest minus average) softmax weight: 0 if each window has one sharp peak.

    Args:
        response: the response of one view.
        window: its side in pixels.
        offset: (y, x) of the first window, modulo its side.

    Returns:
        A scalar from 0 to 1.

    Gradient:
        response: almost everywhere (kinks where the maximum changes).

    Errors:
        InvalidArgument for a window larger than the map.

    Example:
        >>> from pellucid.features import peakiness_loss
        >>> peakiness_loss(torch.zeros(1, 1, 32, 32))
        tensor(1.)
    """
    weights = cut_windows(response, window, _offset(offset, window)).flatten(-2).softmax(-1)
    return 1 - (weights.amax(-1) - weights.mean(-1)).mean()


def dispersity_loss(response: Float[Tensor, "b 1 h w"], *, window: int = 16, offset: tuple[int, int] = (0, 0)) -> Float[Tensor, ""]:
    """Return the mean distance of a window's softmax weight from its soft-argmax, in units of the window's side.

    Args:
        response: the response of one view.
        window: its side in pixels.
        offset: (y, x) of the first window, modulo its side.

    Returns:
        A scalar, at least 0; 0 for sharp peaks.

    Gradient:
        response: exact, except that the soft-argmax is a constant by declaration.

    Errors:
        InvalidArgument for a window larger than the map.

    Source:
        Zhao et al., "ALIKE", 2022 (the dispersity peak loss).

    Example:
        >>> from pellucid.features import dispersity_loss
        >>> response = torch.rand(1, 1, 32, 32)
        >>> bool(dispersity_loss(100 * response) < dispersity_loss(response))
        True
    """
    weights = cut_windows(response, window, _offset(offset, window)).flatten(-2).softmax(-1)  # b n s*s
    places = window_offsets(window, window, weights) / window  # s*s 2
    centre = (weights @ places).detach()  # b n 2
    distance = (places - centre[..., None, :]).square().sum(-1).sqrt()  # constant to the gradient, so its kink at 0 is harmless
    return (weights * distance).sum(-1).mean()


def _sides(windows: Sequence[int]) -> Sequence[int]:
    if len(windows) == 0:
        raise invalid("windows", expected="at least one side in pixels", got="none")
    return windows


def _offset(offset: tuple[int, int], side: int) -> tuple[int, int]:
    return offset[0] % side, offset[1] % side


def _weights(view: SharedView, side: int, offset: tuple[int, int]) -> tuple[Tensor, Tensor, Bool[Tensor, "b n"]]:
    """Return both softmaxes over the visible pixels of each window, and a mask of windows that are mostly visible."""
    limits = [min(o % side, n - side) if n >= side else 0 for o, n in zip(offset, view.first.shape[-2:], strict=True)]
    start = (limits[0], limits[1])
    first, second, visible = (cut_windows(m, side, start).flatten(-2) for m in view)
    counted = visible.float().mean(-1) > 0.5
    shown = visible | ~counted[..., None]  # windows that do not count keep finite logits
    lowest = torch.finfo(first.dtype).min / 4
    p, q = (torch.where(shown, m, lowest).softmax(-1) for m in (first, second))
    return p, q, counted


def _mean(values: Float[Tensor, "b n"], weight: Tensor) -> Float[Tensor, ""]:
    total = weight.sum()
    return (values * weight).sum() / torch.where(total > 0, total, 1)
