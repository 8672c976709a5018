"""Second-order similarity: the distances within one view of a batch should equal those within the other.

Owns: the SOSNet regulariser.
Must not: contain the first-order term; add ``hardest_triplet_loss`` with ``power=2`` for that.
Read next: ``docs/losses.md``.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.errors import invalid
from pellucid.losses.descriptor_distance import check_pairs, safe_sqrt, table_distance
from pellucid.losses.maps import Reduction, reduce

__all__ = ["second_order_similarity_loss"]


def second_order_similarity_loss(
    anchors: Float[Tensor, "n d"],
    positives: Float[Tensor, "n d"],
    *,
    ids: Int[Tensor, "n"] | None = None,
    neighbours: int = 8,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*reduced"]:
    """Make the distances among the anchors agree with those among the positives.

    ``sqrt(sum_j (d(a_i, a_j) - d(p_i, p_j))^2)`` over the j that are among the nearest neighbours of ``a_i`` in the
    anchors or of ``p_i`` in the positives.

    Args:
        anchors: descriptors, usually of unit length.
        positives: row i shows the same point as row i of ``anchors``.
        ids: which point each row shows; rows of the same point are no neighbours. By default all differ.
        neighbours: how many nearest neighbours on each side; more than N - 1 means all.
        reduction: ``mean``, ``sum``, or ``none`` for (N,).

    Returns:
        The loss, at least in float32; 0 where both sides agree exactly. A descriptor with NaN counts as everybody's neighbour.

    Gradient:
        anchors, positives: almost everywhere for fixed neighbours (the choice of neighbours has no gradient); zero where both sides
        agree exactly. Second order: yes. Deterministic: yes.

    Errors:
        ``InvalidArgument`` for shapes, ``neighbours`` or ``reduction``; ``InvalidType`` for integer descriptors.

    Source:
        Tian et al., "SOSNet: second order similarity regularization for local descriptor learning", CVPR 2019. Equals a plain loop
        in the tests.

    Example:
        >>> a = torch.eye(4)
        >>> second_order_similarity_loss(a, a.roll(1, 0))  # a rotation of descriptor space keeps all distances
        tensor(0.)
    """
    anchors, positives = check_pairs(anchors, positives, reduction)
    if neighbours < 1:
        raise invalid("neighbours", expected="at least 1", got=neighbours)
    n = anchors.shape[0]
    if ids is not None and tuple(ids.shape) != (n,):
        raise invalid("ids", expected=f"shape ({n},)", got=tuple(ids.shape))
    points = torch.arange(n, device=anchors.device) if ids is None else ids
    among_anchors, among_positives = table_distance(anchors, anchors), table_distance(positives, positives)
    other = points[:, None] != points
    k = min(neighbours, n)
    near = (_nearest(among_anchors, other, k) | _nearest(among_positives, other, k)) & other
    change = torch.where(near, among_anchors - among_positives, 0.0)
    return reduce(safe_sqrt(change.square().sum(dim=1)), reduction)


def _nearest(table: Float[Tensor, "n n"], other: Bool[Tensor, "n n"], k: int) -> Bool[Tensor, "n n"]:
    fixed = torch.where(table.isnan(), -1.0, table.detach())  # nearer than anything
    order = torch.where(other, fixed, torch.inf).topk(k, dim=1, largest=False).indices
    return torch.zeros_like(other).scatter(1, order, True)
