"""Ghost batches: a large batch normalised in small groups, for the regularisation that small batches give.

Owns: ``GhostBatchNorm``.
Must not: compute statistics itself; see ``batch_normalize.py``.
Read next: ``renorm.py``, which removes the noise this one adds.
"""

from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.nn.batch_normalize import batch_normalize
from pellucid.nn.batchnorm import PolicyNorm
from pellucid.nn.policy import StatisticsGrad
from pellucid.nn.running import uses_batch_statistics

__all__ = ["GhostBatchNorm"]


@final
class GhostBatchNorm(PolicyNorm):
    """Split the batch into ghost batches of at least ``ghost_size`` samples and normalise each with its own statistics.

    Training is exactly a loop over ghost batches with one shared batch norm: running statistics move once per ghost batch. The
    batch is cut into ``max(1, b // ghost_size)`` parts whose sizes differ by at most one, so no small remainder is left over.

    Args:
        num_features: number of channels.
        ghost_size: samples per ghost batch.
        eps: added to the variance.
        momentum: weight of the newest ghost batch in the running statistics; None averages over all.
        affine: learn a scale and a shift per channel.
        track_running_stats: keep running statistics for ``eval()``.
        device: of parameters and buffers.
        dtype: of parameters and buffers.
        statistics_grad: the gradient policy.

    Gradient:
        As :class:`pellucid.nn.BatchNorm2d` on each ghost batch.

    Errors:
        InvalidArgument for a ghost_size below 1, another number of channels, and a policy that does not exist.

    Source:
        Hoffer, Hubara and Soudry, "Train longer, generalize better", 2017; ``torch.nn.BatchNorm2d`` in a loop (tests).

    Example:
        >>> norm = GhostBatchNorm(3, ghost_size=16)
        >>> norm(torch.randn(64, 3, 8, 8)).shape, int(norm.num_batches_tracked)
        (torch.Size([64, 3, 8, 8]), 4)
    """

    options = ("ghost_size", "statistics_grad")

    def __init__(
        self,
        num_features: int,
        ghost_size: int = 32,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        statistics_grad: StatisticsGrad = "full",
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, statistics_grad=statistics_grad)
        if ghost_size < 1:
            raise invalid("ghost_size", expected="at least 1", got=ghost_size)
        self.ghost_size = ghost_size

    def forward(
        self, x: Float[Tensor, "b c *space"], *, mask: Bool[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "b c *space"]:
        """Normalise each ghost batch; in evaluation with running statistics, the batch as a whole."""
        policy = self.statistics_grad
        if not uses_batch_statistics(self):  # before any question about the batch size, which may be dynamic in an export
            return batch_normalize(self, x, policy, mask=mask)
        ghosts = max(1, x.shape[0] // self.ghost_size)
        if ghosts == 1:
            return batch_normalize(self, x, policy, mask=mask)
        masks = [None] * ghosts if mask is None else mask.expand(x.shape[0], *mask.shape[1:]).tensor_split(ghosts)
        parts = zip(x.tensor_split(ghosts), masks, strict=True)
        return torch.cat([batch_normalize(self, part, policy, mask=part_mask) for part, part_mask in parts])
