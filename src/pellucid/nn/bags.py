"""Statistics per bag: instances tied together by segment ids, bags of any size, no padding needed.

Owns: ``bag_moments``, ``standardize_bags`` and ``BagNorm``.
Must not: depend on how instances or bags are ordered, or keep running statistics (a bag only knows itself).
Read next: ``moments.py`` for what weights and masks mean.
"""

from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pellucid.core.constants import compute_dtype, wide_dtype
from pellucid.errors import invalid, wrong_type
from pellucid.nn.moments import Moments, check_float
from pellucid.nn.policy import StatisticsGrad, check_policy, mean_under, var_under
from pellucid.nn.running import check_channels, per_channel
from pellucid.nn.standardize import normalize_with

__all__ = ["BagNorm", "bag_moments", "standardize_bags"]


def bag_moments(
    x: Float[Tensor, "n c *space"],
    bags: Int[Tensor, "n"],
    *,
    num_bags: int | None = None,
    weight: Float[Tensor, "n"] | None = None,
    mask: Bool[Tensor, "n"] | None = None,
    policy: StatisticsGrad = "full",
) -> Moments:
    """Compute mean, biased variance and sample count of each bag and channel, over the bag's instances and their space.

    Args:
        x: instances.
        bags: the bag of each instance, in [0, num_bags), in any order. An id without instances is an empty bag.
        num_bags: number of bags; None takes n, which is always enough and asks no device for a maximum.
        weight: non-negative importance of each instance.
        mask: True where an instance counts; elements under False are never read, nor are their ids.
        policy: which of the two results lets gradients through.

    Returns:
        ``Moments`` of shape (num_bags, c); zeros for an empty bag.

    Gradient:
        x, weight: exact under ``"full"``. Second order: yes. Deterministic: on CPU; on CUDA under
        ``torch.use_deterministic_algorithms`` (``index_add``).
    Errors:
        InvalidType for ids that are not integers; InvalidArgument for lengths that do not fit. torch raises on ids out of range.

    Example:
        >>> x = torch.tensor([[1.0], [10.0], [3.0]])
        >>> bag_moments(x, torch.tensor([0, 1, 0]), num_bags=2).mean.flatten().tolist()
        [2.0, 10.0]
    """
    check_float("x", x)
    check_policy("policy", policy)
    _check_ids(x, bags, weight=weight, mask=mask)
    if policy == "detached":
        x, weight = x.detach(), None if weight is None else weight.detach()
    size = x.shape[0] if num_bags is None else num_bags
    dtype, wide = compute_dtype(x.dtype), wide_dtype(x.device)
    w = torch.ones(x.shape[0], dtype=wide, device=x.device) if weight is None else weight.to(wide)
    w = w if mask is None else torch.where(mask, w, 0)
    ids = bags if mask is None else torch.where(mask, bags, 0)
    flat = (x.flatten(2) if x.ndim > 2 else x[:, :, None]).to(dtype)  # n c s; a reshape to -1 fails where n is 0
    flat = torch.where((w > 0)[:, None, None], flat, 0)

    def per_bag(values: Tensor) -> Tensor:
        return torch.zeros(size, *values.shape[1:], dtype=wide, device=x.device).index_add(0, ids, w[:, None] * values)

    total = per_bag(torch.ones_like(w[:, None])) * flat.shape[2]  # k 1
    safe_total = torch.where(total > 0, total, 1)
    mean = (per_bag(flat.sum(2, dtype=wide)) / safe_total).to(dtype)  # k c
    centred = flat - mean.index_select(0, ids)[:, :, None]
    var = (per_bag(centred.square().sum(2, dtype=wide)) / safe_total).to(dtype)
    squares = per_bag(w[:, None]) * flat.shape[2]
    samples = (total.square() / torch.where(squares > 0, squares, 1)).to(dtype)
    return Moments(mean_under(policy, mean), var_under(policy, var), samples.detach().expand_as(mean))


def standardize_bags(
    x: Float[Tensor, "n c *space"],
    bags: Int[Tensor, "n"],
    *,
    num_bags: int | None = None,
    weight: Float[Tensor, "n"] | None = None,
    mask: Bool[Tensor, "n"] | None = None,
    statistics: StatisticsGrad = "full",
    eps: float = 1e-5,
) -> Float[Tensor, "n c *space"]:
    """Standardise each instance with the statistics of its own bag.

    Args:
        x: instances.
        bags: the bag of each instance, in [0, num_bags).
        num_bags: number of bags; None takes n.
        weight: non-negative importance of each instance in its bag's statistics.
        mask: True where an instance counts; under False the result and the gradient are 0.
        statistics: the gradient policy.
        eps: added to the variance.

    Returns:
        A tensor like ``x``; 0 for a bag of one instance without space.

    Gradient:
        As :func:`pellucid.nn.standardize` on each bag alone.

    Errors:
        InvalidArgument for other than one bag per instance; InvalidType for bags that are no integers.

    Example:
        >>> x = torch.tensor([[1.0], [10.0], [3.0]])
        >>> standardize_bags(x, torch.tensor([0, 1, 0]), eps=1e-12).flatten().tolist()
        [-1.0, 0.0, 1.0]
    """
    mean, var, _ = bag_moments(x, bags, num_bags=num_bags, weight=weight, mask=mask, policy=statistics)
    ids = bags if mask is None else torch.where(mask, bags, 0)
    ones = [1] * (x.ndim - 2)
    mean, var = (s.index_select(0, ids).reshape(*x.shape[:2], *ones) for s in (mean, var))
    return normalize_with(x, mean, var, eps=eps, mask=None if mask is None else mask.reshape(-1, 1, *ones))


@final
class BagNorm(nn.Module):
    """Normalise each bag of instances with its own statistics, in training and in evaluation alike.

    The state dict is that of ``torch.nn.BatchNorm*d(..., track_running_stats=False)``.

    Args:
        num_features: number of channels.
        eps: added to the variance.
        affine: learn a scale and a shift per channel.
        statistics_grad: the gradient policy.
        device: of the parameters.
        dtype: of the parameters.

    Gradient:
        x: exact under ``"full"``; under another policy the declared surrogate. Second order: yes.

    Errors:
        InvalidArgument for another number of channels, bags that are not one integer per instance, and a policy that does not
        exist.

    Example:
        >>> norm = BagNorm(16)
        >>> norm(torch.randn(5, 16), torch.tensor([0, 0, 1, 1, 1])).shape
        torch.Size([5, 16])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        statistics_grad: StatisticsGrad = "full",
    ) -> None:
        super().__init__()
        check_policy("statistics_grad", statistics_grad)
        self.num_features = num_features
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(num_features, device=device, dtype=dtype)) if affine else None
        self.bias = nn.Parameter(torch.zeros(num_features, device=device, dtype=dtype)) if affine else None
        self.statistics_grad: StatisticsGrad = statistics_grad

    def forward(
        self,
        x: Float[Tensor, "n c *space"],
        bags: Int[Tensor, "n"],
        *,
        num_bags: int | None = None,
        weight: Float[Tensor, "n"] | None = None,
        mask: Bool[Tensor, "n"] | None = None,
    ) -> Float[Tensor, "n c *space"]:
        """Standardise by bag (see :func:`standardize_bags`), then scale and shift; padding stays 0."""
        check_channels("x", x, self.num_features)
        policy = self.statistics_grad
        out = standardize_bags(x, bags, num_bags=num_bags, weight=weight, mask=mask, statistics=policy, eps=self.eps)
        if self.weight is not None and self.bias is not None:
            out = (out * per_channel(self.weight, x) + per_channel(self.bias, x)).to(x.dtype)
        return out if mask is None else torch.where(mask.reshape(-1, *[1] * (x.ndim - 1)), out, 0)

    def extra_repr(self) -> str:
        """The options."""
        return f"{self.num_features}, eps={self.eps}, affine={self.weight is not None}, statistics_grad={self.statistics_grad!r}"


def _check_ids(x: Tensor, bags: Tensor, *, weight: Tensor | None, mask: Tensor | None) -> None:
    if x.ndim < 2:
        raise invalid("x", expected="(instances, channels, ...)", got=tuple(x.shape), fix="Use x[:, None] for a single channel.")
    if bags.dtype not in (torch.int64, torch.int32):
        raise wrong_type("bags", expected="an int64 or int32 tensor of bag ids", got=bags.dtype)
    for name, value in (("bags", bags), ("weight", weight), ("mask", mask)):
        if value is not None and value.shape != x.shape[:1]:
            raise invalid(name, expected=f"one value per instance, shape {tuple(x.shape[:1])}", got=tuple(value.shape))
