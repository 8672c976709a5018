"""Hausdorff loss by erosion: how many times can the error be eroded before it is gone?

Owns: the erosion loss of Karimi and Salcudean (2019), out-of-place, in 2-D and 3-D.
Must not: repair its known weaknesses (see ``docs/losses.md``); ``hausdorff_level.py`` does.
Read next: ``hausdorff_distance.py``.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.losses.maps import Reduction, check_count, check_maps, reduce, working_dtype

__all__ = ["hausdorff_erosion_loss"]


def hausdorff_erosion_loss(
    prediction: Float[Tensor, "b c *space"],
    target: Float[Tensor, "b c *space"] | Bool[Tensor, "b c *space"],
    *,
    alpha: float = 2.0,
    iterations: int = 10,
    rescale: bool = True,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*reduced"]:
    """Weigh the squared error by how thick it is, measured by repeated soft erosion.

    ``mean over pixels of sum_k k^alpha E_k`` where ``E_0 = (prediction - target)^2`` and each erosion averages a pixel with its 4
    (in 3-D: 6) neighbours, subtracts one half and keeps the positive part. Where the error never exceeds 0.7 in magnitude, the
    loss and its gradient are exactly zero; once two shapes no longer overlap, it stops growing with their distance.

    Args:
        prediction: probabilities, (B, C, H, W) or (B, C, D, H, W).
        target: one mask per channel, the same shape.
        alpha: how much thick errors count more.
        iterations: number of erosions, at least 1.
        rescale: stretch every eroded map to [0, 1], per image and channel, as the published implementations do. Without it, a
            map of 1 is 0.5 after the first and 0 after the second erosion.
        reduction: ``mean`` or ``sum`` over images and channels, or ``none`` for (B, C).

    Returns:
        The loss, at least in float32.

    Gradient:
        prediction, target: almost everywhere (kinks at the soft threshold and where the extremum moves). Second order: yes.
        Deterministic: yes.

    Errors:
        ``InvalidArgument`` for shapes, maps without pixels, ``alpha``, ``iterations`` or ``reduction``;
        ``InvalidType`` for integer predictions.

    Source:
        Karimi and Salcudean, "Reducing the Hausdorff distance in medical image segmentation with convolutional neural networks",
        IEEE TMI 2019, erosion form. Equals a plain loop in the tests, and kornia's ``HausdorffERLoss`` where that is installed.

    Example:
        >>> target = torch.zeros(1, 1, 8, 8)
        >>> target[..., 2:6, 2:6] = 1
        >>> float(hausdorff_erosion_loss(target, target))
        0.0
    """
    check_maps(prediction, target, reduction, alpha)
    check_count("iterations", iterations)
    dtype = working_dtype(prediction)
    error = (prediction.to(dtype) - target.to(dtype)).square()
    space = tuple(range(2, error.ndim))
    total = torch.zeros_like(error[:, :, 0].flatten(2).sum(dim=-1))
    for k in range(1, iterations + 1):
        error = F.relu(_neighbourhood_mean(error, space) - 0.5)
        if rescale:
            error = _stretch(error, space)
        total = total + error.mean(dim=space) * float(k) ** alpha
    return reduce(total, reduction)


def _neighbourhood_mean(x: Tensor, space: tuple[int, ...]) -> Tensor:
    # Five (seven) shifted views of one padded copy: a tenth of a one-channel convolution's time, backward included.
    padded = F.pad(x, (1, 1) * len(space))
    total = x
    for axis in space:
        for start in (0, 2):
            view = padded
            for other in space:
                view = view.narrow(other, start if other == axis else 1, x.shape[other])
            total = total + view
    return total / (2 * len(space) + 1)


def _stretch(x: Tensor, space: tuple[int, ...]) -> Tensor:
    low, high = x.amin(dim=space, keepdim=True), x.amax(dim=space, keepdim=True)
    width = high - low
    flat = width == 0
    scale = 1 / torch.where(flat, 1.0, width)  # a flat map stays as it is
    return torch.addcmul(-torch.where(flat, 0.0, low) * scale, x, scale)
