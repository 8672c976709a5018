"""One step of training a detector on a pair of views: the recipe, as a pure function.

Owns: the choice of losses that make a detector repeatable, and their windows and weights.
Must not: make pairs, hold an optimiser or keep state.
Read next: ``covariant_loss.py``, ``response_windows.py``.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.features.classical import hessian_response
from pellucid.features.covariant_loss import agreement_loss, covariant_index_loss
from pellucid.features.detect import Detector, as_maps, frame_covariance_loss
from pellucid.features.keypoint_net import DetectorMaps
from pellucid.features.keypoints import select_keypoints
from pellucid.features.response_correlation import consistency_loss, imitation_loss
from pellucid.features.response_windows import share_view

__all__ = ["DetectorLosses", "detector_losses", "window_offset"]

# The plastic number's powers: multiples of them, modulo 1, fill the square evenly.
_STRIDES = (0.7548776662466927, 0.5698402909980532)


class DetectorLosses(NamedTuple):
    """The total, to be differentiated, and its parts for the log.

    Args:
        total: the loss to differentiate.
        agreement, covariant, frames, imitation, consistency: its parts, without their weights.
    """

    total: Tensor
    agreement: Tensor
    covariant: Tensor
    frames: Tensor
    imitation: Tensor
    consistency: Tensor


def window_offset(step: int, side: int) -> tuple[int, int]:
    """Return where the first window of a step begins, (y, x) in [0, side): evenly spread over the steps, without random numbers."""
    return int(step * _STRIDES[0] % 1 * side), int(step * _STRIDES[1] % 1 * side)


def detector_losses(
    detector: Detector,
    first: Float[Tensor, "b 1 h w"],
    second: Float[Tensor, "b 1 h w"],
    second_from_first: Float[Tensor, "b 3 3"],
    *,
    step: int = 0,
    teacher: Callable[[Tensor], Tensor] | None = hessian_response,
    imitation_weight: float = 1.0,
    consistency_weight: float = 1.0,
    agreement_weight: float = 0.0,
    index_weight: float = 0.0,
    windows: Sequence[int] = (16, 32),
    border: int = 4,
) -> DetectorLosses:
    """Compute a detector's loss on a batch of pairs of views.

    There are two terms by default. The response of each view should correlate with the other's over all pixels that both see
    (:func:`~pellucid.features.consistency_loss`), so that the K highest places are the same; and with that of a classical detector
    (:func:`~pellucid.features.imitation_loss`), which makes peaks and prevents smooth solutions of the first term. Windowed losses
    may be added; alone they were worse than Harris in minutes (docs/detectors.md). For networks with orientation or scale maps, a
    further term makes these follow the homography.

    Args:
        detector: a :class:`~pellucid.features.KeypointNet`, or any differentiable response.
        first: one view of each pair, grey.
        second: the other, of the same size.
        second_from_first: pixels of the first view to pixels of the second.
        step: the number of the step, which moves the windows.
        teacher: the response to imitate; None for none.
        imitation_weight: weight of the imitation of the teacher.
        consistency_weight: weight of the correlation between the views.
        agreement_weight: weight of :func:`~pellucid.features.agreement_loss`.
        index_weight: weight of :func:`~pellucid.features.covariant_index_loss`.
        windows: sides in pixels, for the last two.
        border: pixels along the views' edges that are ignored.

    Returns:
        Scalars. docs/detectors.md has results with Adam, at a rate from 1e-2 to 0, on batches of 4 pairs of 96x96 pixels.

    Gradient:
        Total: exact, to weights and images, for fixed keypoints in the orientation and scale term.
    Errors:
        InvalidArgument for shapes that do not fit, and windows larger than the views.

    Example:
        >>> from pellucid.features import KeypointNet
        >>> views = torch.rand(2, 1, 48, 48)
        >>> losses = detector_losses(KeypointNet(), views, views, torch.eye(3).expand(2, 3, 3))
        >>> bool(losses.total > 0)
        True
    """
    if first.shape != second.shape:
        raise invalid("second", expected=f"the shape of first, {tuple(first.shape)}", got=tuple(second.shape))
    count = first.shape[0]
    both = as_maps(detector(torch.cat((first, second))))  # one batch: half the calls
    maps = _halves(both, count)
    view = share_view(maps[0].response, maps[1].response, second_from_first.to(first.dtype), border=border)
    imitation = consistency = agreement = covariant = frames = view.first.new_zeros(())
    if teacher is not None and imitation_weight > 0:
        imitation = imitation_loss(both.response, teacher(torch.cat((first, second)).detach()))
    if consistency_weight > 0:
        consistency = consistency_loss(view)
    if agreement_weight > 0:
        agreement = agreement_loss(view, windows=windows, offset=window_offset(step, max(windows)))
    if index_weight > 0:
        covariant = covariant_index_loss(view, windows=windows, offset=window_offset(step, max(windows)))
    if both.direction is not None or both.log_scale is not None:
        keypoints = select_keypoints(maps[0].response, 64, border=border, visible=view.visible)
        frames = frame_covariance_loss((maps[0], maps[1]), keypoints.points, second_from_first, valid=keypoints.valid)
    total = imitation_weight * imitation + consistency_weight * consistency
    total = total + agreement_weight * agreement + index_weight * covariant + frames
    return DetectorLosses(total, agreement, covariant, frames, imitation, consistency)


def _halves(both: DetectorMaps, count: int) -> tuple[DetectorMaps, DetectorMaps]:
    first, second = both.response.split(count)
    direction = (None, None) if both.direction is None else both.direction.split(count)
    log_scale = (None, None) if both.log_scale is None else both.log_scale.split(count)
    return DetectorMaps(first, direction[0], log_scale[0]), DetectorMaps(second, direction[1], log_scale[1])
