"""Mean and variance along some dimensions: plain, weighted or masked; the one place that computes them.

Owns: the accumulation dtype, the choice between a fused and a two-step reduction, the meaning of weights.
Must not: normalise anything, or keep running averages.
Read next: ``standardize.py``.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.core.constants import compute_dtype, wide_dtype
from pellucid.errors import invalid, wrong_type
from pellucid.nn.policy import StatisticsGrad, mean_under, var_under

__all__ = [
    "Moments", "canonical_dims", "check_float", "check_like", "moments", "native_is_safe",
    "unbiased_var", "uses_fused",
]  # fmt: skip

# The fused reduction is one pass on a GPU. Elsewhere it is slower (CPU: 3x, benchmarks/normalization.py) or has been wrong (MPS).
_FUSED_DEVICES = ("cuda", "xpu")


class Moments(NamedTuple):
    """Mean, biased variance and sample count (``(sum w)^2 / sum w^2`` under weights), with reduced dimensions kept.

    Args:
        mean: over the reduced dimensions.
        var: biased: the sum of squares divided by the count.
        samples: the number of values behind each mean.
    """

    mean: Tensor
    var: Tensor
    samples: Tensor


def uses_fused(device: torch.device, fused: bool | None = None) -> bool:
    """Whether ``torch.var_mean`` computes plain statistics on this device; an explicit choice wins."""
    return device.type in _FUSED_DEVICES if fused is None else fused


def native_is_safe(device: torch.device) -> bool:
    """Whether torch's fused normalisation kernels may stand in for the two-step form on this device."""
    return device.type != "mps"


def check_float(name: str, x: Tensor) -> None:
    """Raise unless ``x`` is a real floating-point tensor."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        got = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise wrong_type(name, expected="a floating-point tensor", got=got, fix="Convert it first, for example with x.float().")


def check_like(name: str, value: Tensor, x: Tensor) -> None:
    """Raise unless ``value`` has as many dimensions as ``x``, each of size one or of ``x``'s size."""
    if value.ndim != x.ndim or any(v not in (1, n) for v, n in zip(value.shape, x.shape, strict=True)):
        fix = f"Reshape it, for example {name}.reshape(-1, *[1] * {x.ndim - 1}) for one value per sample."
        raise invalid(name, expected=f"{x.ndim} dimensions that expand to {tuple(x.shape)}", got=tuple(value.shape), fix=fix)


def canonical_dims(x: Tensor, dims: int | Sequence[int]) -> tuple[int, ...]:
    """The reduced dimensions as sorted, distinct, non-negative integers."""
    axes_in = (dims,) if isinstance(dims, int) else tuple(dims)
    if not axes_in or any(not -x.ndim <= d < x.ndim for d in axes_in):
        raise invalid("dims", expected=f"one or more integers in [{-x.ndim}, {x.ndim})", got=dims)
    positive = tuple(sorted({d % x.ndim for d in axes_in}))
    if len(positive) != len(axes_in):
        raise invalid("dims", expected="distinct dimensions", got=dims)
    return positive


def moments(
    x: Float[Tensor, "*shape"],
    dims: int | Sequence[int],
    *,
    weight: Float[Tensor, "*#shape"] | None = None,
    mask: Bool[Tensor, "*#shape"] | None = None,
    policy: StatisticsGrad = "full",
    fused: bool | None = None,
) -> Moments:
    """Compute mean, biased variance and count along ``dims``, which stay as dimensions of size one.

    Args:
        x: values; fp16 and bf16 are reduced in float32.
        dims: the dimensions to reduce.
        weight: non-negative importance of each value; only ratios matter.
        mask: True where a value counts. Elements under False are never read: it may be NaN.
        policy: which of the two results lets gradients through.
        fused: force one pass (``torch.var_mean``) or two steps; None chooses by device. Plain statistics only.

    Returns:
        ``Moments(mean, var, samples)``. Where nothing counts, all three are 0.

    Gradient:
        x: exact under ``"full"``, as declared under the other policies. weight: exact. Second order: yes. Deterministic: yes.
    Errors:
        InvalidType for integer input; InvalidArgument for dimensions or weights that do not fit.
    Source:
        ``numpy.average`` and ``numpy.cov(..., aweights=weight)``, see ``tests/nn/test_standardize.py``.

    Example:
        >>> mean, var, samples = moments(torch.tensor([[1.0, 3.0, 99.0]]), 1, mask=torch.tensor([[True, True, False]]))
        >>> mean.item(), var.item(), samples.item()
        (2.0, 1.0, 2.0)
    """
    check_float("x", x)
    axes = canonical_dims(x, dims)
    if weight is not None or mask is not None:
        return _weighted(x, axes, _joint_weight(x, weight, mask), policy)
    size = math.prod([x.shape[d] for d in axes])
    dtype = compute_dtype(x.dtype)
    count = torch.full([1] * x.ndim, float(size), dtype=dtype, device=x.device)
    if policy == "detached":
        x = x.detach()  # no graph at all, rather than one that is cut at its end
    if size == 0:
        zero = x.sum(axes, keepdim=True, dtype=dtype)
        return Moments(zero, zero.square(), count)
    if uses_fused(x.device, fused):
        var, mean = torch.var_mean(x.to(dtype), axes, correction=0, keepdim=True)
        return Moments(mean_under(policy, mean), var_under(policy, var), count)
    mean = x.mean(axes, keepdim=True, dtype=dtype)
    # The variance keeps its mean attached: its first derivative does not need it, its second does.
    var = (x - mean).square().mean(axes, keepdim=True)
    return Moments(mean_under(policy, mean), var_under(policy, var), count)


def unbiased_var(var: Tensor, samples: Tensor) -> Tensor:
    """Divide by n - 1 where the variance was divided by n; a single sample keeps its variance of zero."""
    several = samples > 1
    return var * torch.where(several, samples / torch.where(several, samples - 1, 1), 1)


def _joint_weight(x: Tensor, weight: Tensor | None, mask: Tensor | None) -> Tensor:
    if mask is not None:
        check_like("mask", mask, x)
        if mask.dtype != torch.bool:
            raise wrong_type("mask", expected="a boolean tensor", got=mask.dtype, fix="Pass real numbers as weight=.")
    if weight is None:
        assert mask is not None
        return mask.to(compute_dtype(x.dtype))
    check_float("weight", weight)
    check_like("weight", weight, x)
    weight = weight.to(compute_dtype(x.dtype))
    return weight if mask is None else torch.where(mask, weight, 0)


def _weighted(x: Tensor, axes: tuple[int, ...], w: Tensor, policy: StatisticsGrad) -> Moments:
    dtype, wide = compute_dtype(x.dtype), wide_dtype(x.device)
    w = w.expand(x.shape)
    counts = w > 0
    if policy == "detached":
        x, w = x.detach(), w.detach()
    x = torch.where(counts, x.to(dtype), 0)  # guards the input: NaN under a zero weight reaches neither sum nor gradient
    total = w.sum(axes, keepdim=True, dtype=wide)
    safe_total = torch.where(total > 0, total, 1)
    mean = ((w * x).sum(axes, keepdim=True, dtype=wide) / safe_total).to(dtype)
    var = ((w * (x - mean).square()).sum(axes, keepdim=True, dtype=wide) / safe_total).to(dtype)
    squares = w.square().sum(axes, keepdim=True, dtype=wide)
    count = (total.square() / torch.where(squares > 0, squares, 1)).to(dtype)
    return Moments(mean_under(policy, mean), var_under(policy, var), count.detach())
