"""Hausdorff loss by distance transform: errors cost more the farther they are from the boundary.

Owns: the distance-transform loss of Karimi and Salcudean (2019), in 2-D and 3-D.
Must not: differentiate through the distances; the published definition holds them fixed.
Read next: ``hausdorff_level.py``.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.losses.euclidean import distance_transform
from pellucid.losses.maps import Reduction, check_maps, reduce, working_dtype

__all__ = ["hausdorff_distance_loss"]


def hausdorff_distance_loss(
    prediction: Float[Tensor, "b c *space"],
    target: Float[Tensor, "b c *space"] | Bool[Tensor, "b c *space"],
    *,
    alpha: float = 2.0,
    spacing: tuple[float, ...] | None = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*reduced"]:
    """Weigh the squared error by the distances to both boundaries.

    ``mean over pixels of (prediction - target)^2 (d_target^alpha + d_prediction^alpha)``, where d is a pixel's distance to the
    nearest pixel on the other side of the map's boundary, the contour at one half. A map without a boundary has distance 0
    everywhere, so with an empty target and a prediction below one half the loss and its gradient are zero.

    Args:
        prediction: probabilities, (B, C, H, W) or (B, C, D, H, W).
        target: one mask per channel, the same shape; thresholded at one half for the distances.
        alpha: how much distant errors count more.
        spacing: size of a pixel along each spatial axis, for distances in millimetres.
        reduction: ``mean`` or ``sum`` over images and channels, or ``none`` for (B, C).

    Returns:
        The loss, at least in float32.

    Gradient:
        prediction, target: exact for fixed distances (they are piecewise constant; the loss jumps where a probability crosses one
        half). Second order: yes. Deterministic: yes.

    Errors:
        ``InvalidArgument`` for shapes, maps without pixels, ``alpha``, spacing or reduction;
        ``InvalidType`` for integer predictions.

    Source:
        Karimi and Salcudean, IEEE TMI 2019, distance-transform form. Equals a loop over ``scipy.ndimage`` in the tests.

    Example:
        >>> target = torch.zeros(1, 1, 1, 5)
        >>> target[..., :2] = 1
        >>> 5 * hausdorff_distance_loss(torch.ones(1, 1, 1, 5), target)  # 1 + 4 + 9
        tensor(14.)
    """
    check_maps(prediction, target, reduction, alpha)
    dtype = working_dtype(prediction)
    weight = _boundary_distance(prediction, spacing, dtype).pow(alpha) + _boundary_distance(target, spacing, dtype).pow(alpha)
    error = (prediction.to(dtype) - target.to(dtype)).square()
    return reduce((error * weight).flatten(2).mean(dim=-1), reduction)


def _boundary_distance(field: Tensor, spacing: tuple[float, ...] | None, dtype: torch.dtype) -> Tensor:
    inside = field.detach() > 0.5
    both = torch.stack([inside, ~inside])
    inner, outer = distance_transform(both, spatial_dims=field.ndim - 2, spacing=spacing, dtype=dtype).unbind()
    distance = torch.where(inside, inner, outer)
    return torch.where(distance.isinf(), 0.0, distance)
