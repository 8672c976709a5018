"""Triplet margin with the hardest negative of the batch: the HardNet loss.

Owns: mining (hardest in batch, anchor swap, duplicates) and the margin.
Must not: compute descriptors, or choose negatives by a value read on the host.
Read next: ``second_order.py``.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.errors import invalid
from pellucid.losses.descriptor_distance import check_pairs, pair_distance, table_distance
from pellucid.losses.maps import Reduction, reduce

__all__ = ["hardest_triplet_loss"]


def hardest_triplet_loss(
    anchors: Float[Tensor, "n d"],
    positives: Float[Tensor, "n d"],
    *,
    ids: Int[Tensor, "n"] | None = None,
    margin: float = 1.0,
    power: Literal[1, 2] = 1,
    anchor_swap: bool = True,
    duplicate_distance: float = 0.008,
    not_negative: Bool[Tensor, "n n"] | None = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*reduced"]:
    """Pull each pair together and push the nearest wrong descriptor of the batch away.

    ``relu(margin + d(a_i, p_i) - nearest)^power``, where ``nearest`` is the smallest distance from ``a_i`` to another pair's
    positive and, with ``anchor_swap``, from ``p_i`` to another pair's anchor.

    Args:
        anchors: descriptors, usually of unit length.
        positives: row i shows the same point as row i of ``anchors``.
        ids: which point each row shows; rows of one point are never each other's negatives. By default all differ.
        margin: how much farther than the positive the negative should be.
        power: 1 for HardNet, 2 for the quadratic hinge of SOSNet.
        anchor_swap: also look for negatives of the positive.
        duplicate_distance: pairs closer than this are taken for the same point under two ids and masked. 0 turns it off.
        not_negative: True where anchor i and positive j must not be taken for different points, whatever their ids: for example
            because they lie a pixel apart in one image (``pellucid.features.near_in_image``).
        reduction: ``mean``, ``sum``, or ``none`` for (N,).

    Returns:
        The loss, at least in float32. A row without any negative contributes 0. A descriptor with NaN makes every row NaN in
        which it is one of the pair or might be a negative.

    Gradient:
        anchors, positives: almost everywhere (kinks at the margin and where the hardest negative changes; ties share the gradient).
        Zero through a distance of exactly 0. Second order: yes. Deterministic: yes.

    Errors:
        ``InvalidArgument`` for shapes, ``power`` or ``reduction``; ``InvalidType`` for integer descriptors.

    Source:
        Mishchuk et al., "Working hard to know your neighbor's margins", NeurIPS 2017. Equals a triple loop in the tests.

    Example:
        >>> a = torch.eye(3)
        >>> hardest_triplet_loss(a, a)  # positives at 0, negatives at sqrt(2): farther than the margin
        tensor(0.)
    """
    anchors, positives = check_pairs(anchors, positives, reduction)
    if power not in (1, 2):
        raise invalid("power", expected="1 or 2", got=power)
    n = anchors.shape[0]
    if ids is not None and tuple(ids.shape) != (n,):
        raise invalid("ids", expected=f"shape ({n},)", got=tuple(ids.shape))
    if not_negative is not None and (tuple(not_negative.shape) != (n, n) or not_negative.dtype != torch.bool):
        raise invalid("not_negative", expected=f"a boolean ({n}, {n})", got=f"{not_negative.dtype} {tuple(not_negative.shape)}")
    points = torch.arange(n, device=anchors.device) if ids is None else ids
    table = table_distance(anchors, positives)
    wrong = (points[:, None] != points) & ~(table.detach() < duplicate_distance)  # NaN is no duplicate
    if not_negative is not None:
        wrong = wrong & ~not_negative
    negatives = torch.where(wrong, table, torch.inf)
    nearest, alone = negatives.amin(dim=1), ~wrong.any(dim=1)
    if anchor_swap:
        nearest, alone = torch.minimum(nearest, negatives.amin(dim=0)), alone & ~wrong.any(dim=0)
    gap = margin + pair_distance(anchors, positives) - torch.where(alone, 0.0, nearest)
    return reduce(torch.where(alone, 0.0, F.relu(gap).pow(power)), reduction)
