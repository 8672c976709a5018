"""Running averages of statistics, kept exactly as torch's batch norms keep them.

Owns: the in-place update of ``running_mean``, ``running_var`` and ``num_batches_tracked``: the only state in this package.
Must not: write to anything that is not a module's own buffer.
Read next: ``batchnorm.py``.
"""

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from pellucid.errors import invalid
from pellucid.nn.moments import Moments, unbiased_var

__all__ = [
    "channel_dims", "check_channels", "per_channel", "running_moments", "update_running", "update_running_plain",
    "uses_batch_statistics",
]  # fmt: skip


def uses_batch_statistics(module: _BatchNorm) -> bool:
    """Whether the module normalises with the batch at hand rather than with its running statistics."""
    return module.training or module.running_mean is None or module.running_var is None


def update_running(module: _BatchNorm, batch: Moments) -> None:
    """Move the running statistics towards a batch's: by ``momentum``, or to the plain average of all batches when it is None.

    A batch in which nothing counts leaves them alone.
    """
    if (moving := _moving(module)) is None:
        return
    mean, var = moving
    with torch.no_grad():
        new_var = unbiased_var(batch.var, batch.samples).reshape(mean.shape).to(var.dtype)
        new_mean = batch.mean.reshape(mean.shape).to(mean.dtype)
        step = _step(module, mean) * (batch.samples.reshape(-1).to(mean.dtype) > 0)
        mean.lerp_(new_mean, step.expand_as(mean))
        var.lerp_(new_var, step.expand_as(var))


def update_running_plain(module: _BatchNorm, new_mean: Tensor, biased_var: Tensor, samples: int) -> None:
    """:func:`update_running` for batches without weights or mask: the count is a Python number, and a third of the ops suffices."""
    if (moving := _moving(module)) is None:
        return
    mean, var = moving
    with torch.no_grad():
        step = _step(module, mean) if module.momentum is None else module.momentum
        mean.lerp_(new_mean, step)
        var.lerp_(biased_var * (samples / max(samples - 1, 1)), step)


def running_moments(module: _BatchNorm) -> tuple[Tensor, Tensor]:
    """The running mean and variance; ask :func:`uses_batch_statistics` first."""
    assert module.running_mean is not None
    assert module.running_var is not None
    return module.running_mean, module.running_var


def channel_dims(x: Tensor) -> tuple[int, ...]:
    """Every dimension but the channels'."""
    return (0, *range(2, x.ndim))


def per_channel(vector: Tensor, x: Tensor) -> Tensor:
    """Shape one value per channel so that it expands to ``x``."""
    return vector.reshape(1, -1, *[1] * (x.ndim - 2))


def check_channels(name: str, x: Tensor, num_features: int) -> None:
    """Raise unless ``x`` is (batch, channels, ...) with that number of channels."""
    if x.ndim < 2 or x.shape[1] != num_features:
        raise invalid(name, expected=f"(batch, {num_features} channels, ...)", got=tuple(x.shape))


def _moving(module: _BatchNorm) -> tuple[Tensor, Tensor] | None:
    """Count the batch and return the running statistics that it updates; None if it updates none."""
    mean, var, tracked = module.running_mean, module.running_var, module.num_batches_tracked
    if not (module.training and module.track_running_stats) or mean is None or var is None:
        return None
    if tracked is not None:
        tracked.add_(1)
    return mean, var


def _step(module: _BatchNorm, like: Tensor) -> Tensor:
    if module.momentum is not None:
        return like.new_tensor(module.momentum)
    assert module.num_batches_tracked is not None
    return module.num_batches_tracked.to(like.dtype).reciprocal()
