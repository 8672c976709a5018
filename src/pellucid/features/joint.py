"""Train a detector through a descriptor, by the pair term only.

Owns: the loss that reaches the descriptor's weights, and the one that reaches the detector.
Must not: extract patches or mine negatives.
Read next: ``detector_step.py``, ``../losses/triplet.py``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pellucid.errors import invalid
from pellucid.losses.descriptor_distance import pair_distance

__all__ = ["JointLosses", "joint_losses", "keypoint_pair_loss"]


class JointLosses(NamedTuple):
    """Two scalars whose sum may be differentiated at once: their gradients do not mix."""

    descriptor: Tensor
    """Reaches the descriptor's weights only."""
    pair: Tensor
    """Reaches the patches, and through them frames, keypoints and the detector; never the descriptor's weights."""


def joint_losses(
    describe: nn.Module,
    patches: Float[Tensor, "n 1 h w"],
    targets: Float[Tensor, "n 1 h w"],
    criterion: Callable[[Tensor, Tensor], Tensor],
    *,
    valid: Bool[Tensor, "n"] | None = None,
    stop_gradient: bool = False,
) -> JointLosses:
    """Return a descriptor's loss on patches, and the distance of each pair, whose gradient alone reaches the patches' places.

    The negatives depend on the batch: they train the descriptor to separate points, and say nothing about where a keypoint should
    lie, so their gradient is noise for the detector (its signal-to-noise ratio falls by 40 % with the whole triplet loss).

    Args:
        describe: maps patches to unit descriptors.
        patches: one view, row i showing the same point as row i of ``targets``.
        targets: the other view.
        criterion: ``(anchors, positives) -> loss`` for the descriptor's weights, for example ``hardest_triplet_loss``.
        valid: False marks rows that show no point, which the pair term ignores. Leave them out of ``criterion`` yourself.
        stop_gradient: take the descriptors of ``targets`` as constants in the pair term, so that only ``patches`` moves.

    Returns:
        Both terms, each a scalar.

    Gradient:
        descriptor term: to the weights, exact; none to the patches. pair term: to the patches (and targets), as the descriptor
        declares it; none to the weights. It evaluates the descriptor in evaluation mode: no dropout, running statistics.

    Errors:
        InvalidArgument for a ``valid`` of another shape.

    Example:
        >>> from pellucid.features import HardNet, joint_losses
        >>> from pellucid.losses import hardest_triplet_loss
        >>> patches = torch.rand(4, 1, 32, 32, requires_grad=True)
        >>> losses = joint_losses(HardNet(width=4), patches, torch.rand(4, 1, 32, 32), hardest_triplet_loss)
        >>> (losses.descriptor + losses.pair).backward()
        >>> patches.grad.shape
        torch.Size([4, 1, 32, 32])
    """
    if valid is not None and valid.shape != patches.shape[:1]:
        raise invalid("valid", expected=f"shape ({patches.shape[0]},)", got=tuple(valid.shape))
    n = patches.shape[0]
    learned = describe(torch.cat((patches.detach(), targets.detach())))
    descriptor = criterion(learned[:n], learned[n:])
    with _frozen(describe):
        first, second = describe(patches), describe(targets.detach() if stop_gradient else targets)
    distance = pair_distance(first, second).square()
    counted = torch.ones_like(distance) if valid is None else valid.to(distance.dtype)
    kept = torch.where(counted > 0, distance, 0.0).sum() / torch.clamp(counted.sum(), min=1)
    return JointLosses(descriptor, kept)


def keypoint_pair_loss(
    first: Float[Tensor, "b k 2"], second: Float[Tensor, "b k 2"], *, valid: Bool[Tensor, "b k"] | None = None, radius: float = 4.0
) -> Float[Tensor, ""]:
    """Return the mean squared distance of each keypoint to the other view's nearest one, which is a constant target.

    Args:
        first: keypoints of one view.
        second: keypoints of the other, mapped into the first view, in any order. NaN marks points without a place there.
        valid: False marks rows of ``first`` that hold no keypoint.
        radius: points farther apart than this, in pixels, are no pair.

    Returns:
        A scalar in square pixels; 0 if there is no pair.

    Gradient:
        first: exact for fixed pairs. second: none by declaration; call again with the views exchanged.

    Example:
        >>> from pellucid.features import keypoint_pair_loss
        >>> first = torch.tensor([[[5.0, 5.0], [20.0, 5.0]]])
        >>> keypoint_pair_loss(first, torch.tensor([[[6.0, 5.0], [40.0, 5.0]]]))  # the second has none within 4 pixels
        tensor(1.)
    """
    target = torch.where(torch.isfinite(second), second, torch.inf).detach()  # b k 2
    table = (first.detach()[:, :, None] - target[:, None]).square().sum(-1)  # b k k
    nearest, index = table.min(dim=-1)  # b k
    paired = nearest <= radius**2
    if valid is not None:
        paired = paired & valid
    chosen = target.gather(1, index[..., None].expand(-1, -1, 2))
    chosen = torch.where(paired[..., None], chosen, 0.0)
    difference = torch.where(paired[..., None], first, 0.0) - chosen
    count = paired.sum()
    return difference.square().sum() / torch.where(count > 0, count, 1)


@contextmanager
def _frozen(module: nn.Module) -> Iterator[None]:
    """Freeze a module inside the block: weights without gradient, evaluation mode. Both are restored afterwards."""
    modes = {part: part.training for part in module.modules()}
    needed = [weight for weight in module.parameters() if weight.requires_grad]
    module.eval()
    for weight in needed:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode
        for weight in needed:
            weight.requires_grad_(True)
