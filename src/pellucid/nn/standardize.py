"""Subtract a mean and divide by a standard deviation, with a choice of the statistics that gradients pass through.

Owns: ``standardize`` and the choice of torch's native kernels where they compute the same thing.
Must not: keep running statistics (``running.py``) or know about layers.
Read next: ``batchnorm.py``, ``patchnorm.py``.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.core.constants import compute_dtype
from pellucid.errors import invalid
from pellucid.nn.detached import channels_detached, rows_detached
from pellucid.nn.moments import canonical_dims, check_float, check_like, moments, native_is_safe, unbiased_var
from pellucid.nn.policy import StatisticsGrad, check_policy

__all__ = ["normalize_with", "normalize_with_constants", "standardize"]


def standardize(
    x: Float[Tensor, "*shape"],
    dims: int | Sequence[int],
    *,
    weight: Float[Tensor, "*#shape"] | None = None,
    mask: Bool[Tensor, "*#shape"] | None = None,
    statistics: StatisticsGrad | tuple[Tensor, Tensor] = "full",
    eps: float = 1e-5,
    unbiased: bool = False,
) -> Float[Tensor, "*shape"]:
    """Return ``(x - mean) / sqrt(var + eps)``, with mean and variance taken along ``dims``.

    Args:
        x: values; the statistics of fp16 and bf16 are computed in float32, the result has ``x``'s dtype.
        dims: dimensions to take the statistics along.
        weight: non-negative importance of each value in the statistics. A value of weight 0 is still standardised.
        mask: True where a value counts. Where it is False the result is 0, and so is the gradient, whatever ``x`` holds there.
        statistics: ``"full"`` differentiates through both statistics, ``"detached"`` through neither, ``"mean_only"`` and
            ``"var_only"`` through one. A pair ``(mean, var)`` is used as it is, gradients included; its tensors have the shape
            of the dimensions left over, or that with ones in place of ``dims``.
        eps: added to the variance. About 1e-5; below 1e-7 the gain of a constant input passes 3000.
        unbiased: divide the sum of squares by n - 1 instead of n (under weights: ``n = (sum w)^2 / sum w^2``).

    Returns:
        A tensor like ``x``. A constant, a single value, or nothing under the mask gives 0, never NaN.

    Gradient:
        x: exact for ``"full"``: ``(g - mean g - xhat mean(g xhat)) / sigma``; for ``"detached"`` ``g / sigma`` by declaration (a
        surrogate: biased, see docs/normalization.md). weight, mean, var: exact. Second order: yes. Forward mode: yes, but for
        ``"detached"``, which raises. Deterministic: yes.
    Errors:
        InvalidType for integers; InvalidArgument for an unknown policy, and for dimensions, weights or statistics that do not fit.
    Source:
        torch's batch_norm and layer_norm, and the closed forms in ``tests/nn/test_standardize.py``.

    Example:
        >>> x = torch.tensor([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]])
        >>> standardize(x, 1, eps=1e-12)[0].tolist()
        [-1.2247447967529297, 0.0, 1.2247447967529297]
        >>> standardize(x, 1)[1].tolist()
        [0.0, 0.0, 0.0]
    """
    check_float("x", x)
    axes = canonical_dims(x, dims)
    if isinstance(statistics, tuple):
        mean, var = (_kept(n, s, x, axes) for n, s in zip(("mean", "var"), statistics, strict=True))
        return normalize_with(x, mean, var, eps=eps, mask=mask)
    check_policy("statistics", statistics)
    if weight is None and mask is None and statistics in ("full", "detached") and x.numel() > 0 and native_is_safe(x.device):
        return _native(x, axes, eps, unbiased, detached=statistics == "detached")
    mean, var, samples = moments(x, axes, weight=weight, mask=mask, policy=statistics)
    var = unbiased_var(var, samples) if unbiased else var
    return normalize_with(x, mean, var, eps=eps, mask=mask)


def normalize_with(
    x: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    eps: float,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Apply statistics, and optionally a scale and a shift. All of them expand to ``x``, and all of them get gradients."""
    if mask is not None:
        check_like("mask", mask, x)
        x = torch.where(mask, x, 0)
    gain = torch.rsqrt(var + eps)
    # Subtract first: with x * gain - mean * gain a large mean would cancel in rounding.
    out = (x - mean) * (gain if scale is None else gain * scale)
    out = out if shift is None else out + shift
    return (out if mask is None else torch.where(mask, out, 0)).to(x.dtype)


def normalize_with_constants(
    x: Tensor, mean: Tensor, var: Tensor, *, eps: float, scale: Tensor | None = None, shift: Tensor | None = None
) -> Tensor:
    """Apply per-channel statistics that need no gradient, in one pass: batch_norm's inference form."""
    # The kernel drops the gradient of mean and var without a word, so a caller must have detached them. It wants all four in one
    # dtype; a batch's statistics are at least float32, the parameters of a half-precision module are not.
    scale, shift = (None if p is None else p.to(mean.dtype) for p in (scale, shift))
    return torch.batch_norm(x, scale, shift, mean, var, False, 0.0, eps, torch.backends.cudnn.enabled)


def _kept(name: str, statistic: Tensor, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    ones = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
    kept = tuple(n for d, n in enumerate(x.shape) if d not in axes)
    if tuple(statistic.shape) == kept:
        return statistic.reshape(ones)
    if statistic.ndim != x.ndim:
        raise invalid(f"statistics ({name})", expected=f"shape {kept} or {ones}", got=tuple(statistic.shape))
    check_like(f"statistics ({name})", statistic, x)
    return statistic


def _native(x: Tensor, axes: tuple[int, ...], eps: float, unbiased: bool, *, detached: bool) -> Tensor:
    """Both statistics and the result in one kernel: batch_norm where channels are kept, layer_norm along the rest otherwise."""
    size = math.prod([x.shape[d] for d in axes])
    # (x - m) / sqrt(v n / k + eps) = sqrt(k / n) (x - m) / sqrt(v + eps k / n), with k = n - 1: the kernels only know k = n.
    ratio = max(size - 1, 1) / size if unbiased else 1.0
    wide = x.to(compute_dtype(x.dtype))
    if x.ndim > 1 and axes == (0, *range(2, x.ndim)):
        scale = wide.new_full((x.shape[1],), math.sqrt(ratio)) if unbiased else None
        if detached:
            return channels_detached(wide, scale, None, eps=eps * ratio)[0].to(x.dtype)
        return torch.batch_norm(wide, scale, None, None, None, True, 0.0, eps * ratio, torch.backends.cudnn.enabled).to(x.dtype)
    kept = [d for d in range(x.ndim) if d not in axes]
    order = [*kept, *axes]
    ordered = wide.permute(order)
    shape = ordered.shape[len(kept) :]
    if detached:
        out = rows_detached(ordered, shape, eps=eps * ratio, factor=math.sqrt(ratio))
    else:
        # The kernel is faster with a scale than without (CPU: 1.9x), even where it is one.
        out = F.layer_norm(ordered, shape, wide.new_full(shape, math.sqrt(ratio)), None, eps * ratio)
    return out.permute([order.index(d) for d in range(x.ndim)]).to(x.dtype)
