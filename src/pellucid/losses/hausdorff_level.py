"""Hausdorff loss over all level sets: monotone under shift, and never without a gradient.

Owns: the level-set form, our answer to the weaknesses of the two published ones (``docs/adr/0006-hausdorff-variants.md``).
Must not: threshold the prediction at one half.
Read next: ``docs/losses.md``.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.losses.euclidean import distance_transform, pixel_steps
from pellucid.losses.maps import Reduction, check_count, check_maps, reduce, working_dtype

__all__ = ["hausdorff_level_loss"]


def hausdorff_level_loss(
    prediction: Float[Tensor, "b c *space"],
    target: Float[Tensor, "b c *space"] | Bool[Tensor, "b c *space"],
    *,
    alpha: float = 2.0,
    levels: int = 8,
    spacing: tuple[float, ...] | None = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*reduced"]:
    """Charge every level set of the prediction for its distance from the target, and the target for its distance from it.

    ``mean over pixels of q d(x, P)^alpha + [x in P] * integral over t in (0, 1) of d(x, {q >= t})^alpha``, with ``q`` the
    prediction, ``P`` the target and ``d`` the distance to a set (0 inside it). The integral is a sum over ``levels`` slices of
    probability. Each slice is weighed by the part of it that the pixel itself lacks, and counts as at least one pixel away.

    For convex shapes the loss is a convex function of their offset. Every pixel outside the target is pushed down and every pixel
    inside it up with at least ``1 / number of pixels``, whatever the prediction, until it is exactly right.

    Args:
        prediction: probabilities, (B, C, H, W) or (B, C, D, H, W).
        target: one mask per channel, the same shape; thresholded at one half. Receives no gradient.
        alpha: how much distant errors count more; convexity needs at least 1.
        levels: number of slices; time and memory grow with it.
        spacing: size of a pixel along each spatial axis. Distances below 1 then occur, and the guarantee scales with the smallest.
        reduction: ``mean`` or ``sum`` over images and channels, or ``none`` for (B, C).

    Returns:
        The loss, at least in float32. Where no pixel reaches a slice, target pixels pay their depth inside the target; where
        the target is empty, predicted pixels pay 1.

    Gradient:
        prediction: exact for fixed distances (piecewise constant; the loss jumps a little where a probability crosses the middle
        of a slice). target: none. Second order: zero almost everywhere. Deterministic: yes.

    Errors:
        ``InvalidArgument`` for shapes, maps without pixels, ``alpha``, levels, spacing or reduction;
        ``InvalidType`` for integer predictions.

    Source:
        Own; argued in ``docs/adr/0006-hausdorff-variants.md``, compared with the published forms in ``docs/losses.md``.

    Example:
        >>> target = torch.zeros(1, 1, 1, 5)
        >>> target[..., :2] = 1
        >>> 5 * hausdorff_level_loss(torch.full((1, 1, 1, 5), 0.5), target, alpha=1.0)  # half of 1 + 2 + 3 and of depths 1, 1
        tensor(4.)
    """
    check_maps(prediction, target, reduction, alpha)
    check_count("levels", levels)
    dtype = working_dtype(prediction)
    q, inside = prediction.to(dtype), target.detach() > 0.5
    steps = pixel_steps(spacing, q.ndim - 2)

    def distance(mask: Tensor) -> Tensor:
        return distance_transform(mask, spatial_dims=q.ndim - 2, spacing=steps, dtype=dtype)

    to_target = distance(~inside)
    to_target = torch.where(to_target.isinf(), 1.0, to_target)  # an empty target
    # Beyond the image counts as outside, so the depth is finite even where the target fills the image.
    ring = (1, 1) * (q.ndim - 2)
    depth = F.pad(distance(F.pad(inside, ring, value=False)), [-side for side in ring])

    edges = torch.arange(levels + 1, dtype=dtype, device=q.device) / levels
    low, high = (edge.reshape(-1, *[1] * q.ndim) for edge in (edges[:-1], edges[1:]))
    to_level = distance(q.detach() < (low + high) / 2)  # (levels, b, c, *space)
    to_level = torch.where(to_level.isinf(), depth, to_level).clamp(min=min(steps))
    lacking = 1 - _filled(q, low, high)
    missed = (lacking * to_level.pow(alpha)).mean(dim=0)
    loss = q * to_target.pow(alpha) + torch.where(inside, missed, 0.0)
    loss = torch.where(target.isnan(), torch.nan, loss)  # neither inside nor outside; the threshold above calls it outside
    return reduce(loss.flatten(2).mean(dim=-1), reduction)


def _filled(q: Tensor, low: Tensor, high: Tensor) -> Tensor:
    # The part of each slice below q. Both ends of a slice keep the inside slope, so q = 0 and q = 1 have a gradient.
    part = (q - low) / (high - low)
    return torch.where(part < 0, 0.0, torch.where(part > 1, 1.0, part))
