"""The forward pass that every batch norm here shares.

Owns: the order of statistics, running averages, scale and shift, and when torch's native kernel does them all.
Must not: define a module.
Read next: ``batchnorm.py``, ``dropout_batchnorm.py``, ``ghost.py``, ``renorm.py``, ``sync.py``.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from pellucid.core.constants import compute_dtype
from pellucid.errors import invalid
from pellucid.nn.detached import channels_detached
from pellucid.nn.moments import check_float, moments, native_is_safe
from pellucid.nn.policy import StatisticsGrad
from pellucid.nn.running import (
    channel_dims,
    check_channels,
    per_channel,
    running_moments,
    update_running,
    update_running_plain,
    uses_batch_statistics,
)
from pellucid.nn.standardize import normalize_with, normalize_with_constants

__all__ = ["apply_affine_with", "batch_normalize"]


def batch_normalize(
    module: _BatchNorm,
    x: Float[Tensor, "b c *space"],
    policy: StatisticsGrad,
    *,
    statistics_from: Float[Tensor, "b2 c *space2"] | None = None,
    weight: Float[Tensor, "*#shape"] | None = None,
    mask: Bool[Tensor, "*#shape"] | None = None,
) -> Float[Tensor, "b c *space"]:
    """Run a batch norm's forward pass: statistics under the policy, running averages, scale and shift.

    ``weight`` and ``mask`` belong to the tensor the statistics come from; a mask also zeroes the output when that is ``x`` itself.
    """
    check_float("x", x)
    check_channels("x", x, module.num_features)
    source = x if statistics_from is None else statistics_from
    check_channels("statistics_from", source, module.num_features)
    out_mask = mask if statistics_from is None else None
    if not uses_batch_statistics(module):
        mean, var = running_moments(module)
        if out_mask is None:
            return normalize_with_constants(x, mean, var, eps=module.eps, scale=module.weight, shift=module.bias)
        return apply_affine_with(module, x, per_channel(mean, x), per_channel(var, x), mask=out_mask)
    plain = weight is None and mask is None
    if plain:
        _check_enough(source)
    # For an empty batch torch's kernel would report statistics of zero.
    if plain and statistics_from is None and policy == "full" and x.numel() > 0:
        return _native(module, x)
    if plain and statistics_from is None and policy == "detached" and _has_detached_kernel(module, x):
        out, mean, var = channels_detached(x, module.weight, module.bias, eps=module.eps)
        update_running_plain(module, mean, var, x.numel() // x.shape[1])
        return out
    batch = moments(source, channel_dims(source), weight=weight, mask=mask, policy=policy)
    update_running(module, batch)
    if policy == "detached" and out_mask is None:
        flat = batch.mean.flatten(), batch.var.flatten()
        return normalize_with_constants(x, *flat, eps=module.eps, scale=module.weight, shift=module.bias)
    return apply_affine_with(module, x, per_channel(batch.mean, x), per_channel(batch.var, x), mask=out_mask)


def apply_affine_with(module: _BatchNorm, x: Tensor, mean: Tensor, var: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Normalise with these statistics, then apply the module's scale and shift."""
    scale = None if module.weight is None else per_channel(module.weight, x)
    shift = None if module.bias is None else per_channel(module.bias, x)
    return normalize_with(x, mean, var, eps=module.eps, scale=scale, shift=shift, mask=mask)


def _native(module: _BatchNorm, x: Tensor) -> Tensor:
    """Torch's own kernel for the statistics, the result and both gradients."""
    tracks = module.training and module.track_running_stats and module.running_mean is not None
    cudnn = torch.backends.cudnn.enabled
    if tracks and module.momentum is not None:
        if module.num_batches_tracked is not None:
            module.num_batches_tracked.add_(1)
        stats = module.running_mean, module.running_var
        return torch.batch_norm(x, module.weight, module.bias, *stats, True, module.momentum, module.eps, cudnn)
    if not tracks:
        return torch.batch_norm(x, module.weight, module.bias, None, None, True, 0.0, module.eps, cudnn)
    # momentum=None averages over batches. torch reads the batch counter on the host for it, which breaks the graph; a momentum of
    # one into fresh buffers hands us this batch's statistics instead, and the average is taken on the device.
    mean, var = running_moments(module)
    batch_mean, batch_var = torch.zeros_like(mean), torch.zeros_like(var)
    out = torch.batch_norm(x, module.weight, module.bias, batch_mean, batch_var, True, 1.0, module.eps, cudnn)
    # The kernel's variance is unbiased already; a sample count of one leaves it alone.
    update_running_plain(module, batch_mean, batch_var, 1)
    return out


def _has_detached_kernel(module: _BatchNorm, x: Tensor) -> bool:
    # The kernel keeps its statistics in the parameters' dtype, or in x's without parameters: that must not be half precision.
    dtype = x.dtype if module.weight is None else module.weight.dtype
    return dtype == compute_dtype(x.dtype) and x.numel() > 0 and native_is_safe(x.device)


def _check_enough(source: Tensor) -> None:
    if source.numel() // source.shape[1] == 1:
        fix = "Call eval() first."
        raise invalid("x", expected="more than one value per channel when training", got=tuple(source.shape), fix=fix)
