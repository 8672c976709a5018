"""Batch statistics across processes, exact for unequal batches, with gradients through the reduction.

Owns: the differentiable all-reduce and ``SyncBatchNorm``.
Must not: need a GPU; any backend that can sum will do.
Read next: ``moments.py`` for the local part.
"""

from typing import Any, final

import torch
import torch.distributed as dist
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.nn.batch_normalize import apply_affine_with, batch_normalize
from pellucid.nn.batchnorm import PolicyNorm
from pellucid.nn.moments import Moments, check_float, moments
from pellucid.nn.policy import StatisticsGrad, mean_under, var_under
from pellucid.nn.running import channel_dims, check_channels, update_running, uses_batch_statistics

__all__ = ["SyncBatchNorm", "all_reduce_sum", "moments_across"]


class _AllReduceSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        out = x.clone()
        dist.all_reduce(out, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        # Every process holds a share of the loss, and each share depends on every x: the adjoint of a sum over processes is itself.
        return _AllReduceSum.apply(grads[0].contiguous(), ctx.group), None


def all_reduce_sum(x: Float[Tensor, "*shape"], group: Any = None) -> Float[Tensor, "*shape"]:
    """Sum a tensor over processes, out of place and differentiably.

    Args:
        x: the local term; same shape on every process.
        group: process group; None is the default group.

    Returns:
        The sum, the same on every process.

    Gradient:
        x: exact for the sum of all processes' losses, to any order. Every process must run the backward pass.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:  # a group of one process
        ...     dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=0, world_size=1)
        ...     total = all_reduce_sum(torch.ones(2))
        ...     dist.destroy_process_group()
        >>> total
        tensor([1., 1.])
    """
    out: Tensor = _AllReduceSum.apply(x, group)
    return out


def moments_across(local: Moments, group: Any = None) -> Moments:
    """Combine each process's statistics into those of all samples, with one all-reduce.

    Each process fills its own row of a table that is zero elsewhere, so one sum hands everybody the whole table; then the parallel
    form of the variance ``sum n_i (var_i + (mean_i - mean)^2) / n``, which does not cancel. A process without samples adds nothing.

    Args:
        local: this process's statistics.
        group: process group; None is the default group.

    Returns:
        The statistics of all samples, the same on every process; their ``samples`` is a constant.

    Gradient:
        local.mean, local.var: exact for the sum of all processes' losses.

    Example:
        >>> import tempfile
        >>> local = Moments(torch.zeros(3), torch.ones(3), torch.tensor(8.0))
        >>> with tempfile.TemporaryDirectory() as folder:  # a group of one process
        ...     dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=0, world_size=1)
        ...     total = moments_across(local)
        ...     dist.destroy_process_group()
        >>> total.samples
        tensor([8., 8., 8.])
    """
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    samples = local.samples.expand_as(local.mean)
    row = torch.stack([local.mean, local.var, samples]).flatten()
    table = all_reduce_sum(F.pad(row[None], (0, 0, rank, world - rank - 1)), group)
    means, variances, counts = table.reshape(world, 3, *local.mean.shape).unbind(1)
    total = counts.sum(0)
    share = counts / torch.where(total > 0, total, 1)
    mean = (share * means).sum(0)
    var = (share * (variances + (means - mean).square())).sum(0)
    return Moments(mean, var, total.detach())


@final
class SyncBatchNorm(PolicyNorm):
    """Batch norm over the batches of all processes: ``torch.nn.SyncBatchNorm`` with a gradient policy, on any backend.

    Batches may have different sizes, and may be empty. Without an initialised process group, or with a single process, it is a
    plain batch norm. Parameters and state dict are those of ``torch.nn.SyncBatchNorm``.

    Args:
        num_features: number of channels.
        eps: added to the variance.
        momentum: weight of the newest batch in the running statistics; None averages over all batches.
        affine: learn a scale and a shift per channel.
        track_running_stats: keep running statistics for ``eval()``.
        process_group: the processes to share statistics with; None is the default group.
        device: of parameters and buffers.
        dtype: of parameters and buffers.
        statistics_grad: the gradient policy. ``"detached"`` communicates in the forward pass only.

    Gradient:
        x: exact for the sum of all processes' losses. weight, bias: the local share, which DDP reduces like other gradients.
        Second order: yes.

    Errors:
        InvalidArgument for another number of channels, and for a policy that does not exist.

    Source:
        One process on the concatenated batch, ``tests/nn/test_sync.py``.

    Example:
        >>> SyncBatchNorm(3)(torch.randn(4, 3, 8, 8)).shape
        torch.Size([4, 3, 8, 8])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        statistics_grad: StatisticsGrad = "full",
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, statistics_grad=statistics_grad)
        self.process_group = process_group

    def forward(
        self, x: Float[Tensor, "b c *space"], *, mask: Bool[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "b c *space"]:
        """Normalise with the statistics of every process's batch; ``mask`` marks the values that count."""
        check_float("x", x)
        check_channels("x", x, self.num_features)
        policy = self.statistics_grad
        alone = not (dist.is_available() and dist.is_initialized()) or dist.get_world_size(self.process_group) == 1
        if alone or not uses_batch_statistics(self):
            return batch_normalize(self, x, policy, mask=mask)
        # Local statistics keep their gradients unless the policy drops both; it applies to the combined statistics.
        local = moments(x, channel_dims(x), mask=mask, policy="detached" if policy == "detached" else "full")
        batch = moments_across(local, self.process_group)
        update_running(self, batch)
        return apply_affine_with(self, x, mean_under(policy, batch.mean), var_under(policy, batch.var), mask=mask)
