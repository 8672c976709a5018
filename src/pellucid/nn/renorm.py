"""Batch renormalisation: training normalises as evaluation will, as far as two bounded corrections allow.

Owns: ``BatchRenorm`` and its two corrections.
Must not: let a gradient into the corrections; the method defines them as constants.
Read next: ``batch_normalize.py``.
"""

from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.nn.batch_normalize import batch_normalize
from pellucid.nn.batchnorm import PolicyNorm
from pellucid.nn.moments import check_float, moments
from pellucid.nn.policy import StatisticsGrad
from pellucid.nn.running import channel_dims, check_channels, per_channel, running_moments, update_running, uses_batch_statistics
from pellucid.nn.standardize import normalize_with

__all__ = ["BatchRenorm"]


@final
class BatchRenorm(PolicyNorm):
    """Normalise with the batch, then correct towards the running statistics: ``xhat * r + d``.

    ``r = sigma_batch / sigma_running`` within [1 / r_max, r_max] and ``d = (mean_batch - mean_running) / sigma_running`` within
    [-d_max, d_max], both constants to the gradient. Where no bound takes effect, training gives the result of evaluation.

    Args:
        num_features: number of channels.
        r_max: bound of the scale correction, at least 1; 1 switches it off. May be changed between steps (a schedule).
        d_max: bound of the shift correction, at least 0; 0 switches it off.
        eps: added to the variance.
        momentum: weight of the newest batch in the running statistics; None averages over all batches.
        affine: learn a scale and a shift per channel.
        device: of parameters and buffers.
        dtype: of parameters and buffers.
        statistics_grad: the gradient policy of the batch's statistics.

    Gradient:
        x: exact with r and d held: r times that of :class:`pellucid.nn.BatchNorm2d`. Second order: yes. Not under activation
        checkpointing: the recomputation would correct with running statistics that the first pass has already moved.

    Errors:
        InvalidArgument for r_max below 1, d_max below 0, another number of channels, and a policy that does not exist.

    Source:
        Ioffe, "Batch Renormalization", 2017; with r_max=1 and d_max=0 it is ``torch.nn.BatchNorm2d`` (tests).

    Example:
        >>> norm = BatchRenorm(3, r_max=3.0, d_max=5.0)
        >>> norm(torch.randn(4, 3, 8, 8)).shape
        torch.Size([4, 3, 8, 8])
    """

    options = ("r_max", "d_max", "statistics_grad")

    def __init__(
        self,
        num_features: int,
        r_max: float = 3.0,
        d_max: float = 5.0,
        eps: float = 1e-5,
        momentum: float | None = 0.01,
        affine: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        statistics_grad: StatisticsGrad = "full",
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, True, device, dtype, statistics_grad=statistics_grad)
        if not r_max >= 1:
            raise invalid("r_max", expected="at least 1", got=r_max, fix="1 switches the scale correction off.")
        if not d_max >= 0:
            raise invalid("d_max", expected="at least 0", got=d_max, fix="0 switches the shift correction off.")
        self.r_max = r_max
        self.d_max = d_max

    def forward(
        self, x: Float[Tensor, "b c *space"], *, mask: Bool[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "b c *space"]:
        """Normalise and correct; in evaluation normalise with the running statistics."""
        check_float("x", x)
        check_channels("x", x, self.num_features)
        if not uses_batch_statistics(self):
            return batch_normalize(self, x, self.statistics_grad, mask=mask)
        batch = moments(x, channel_dims(x), mask=mask, policy=self.statistics_grad)
        r, d = self._corrections(batch.mean.detach(), batch.var.detach(), x)
        update_running(self, batch)
        scale = r if self.weight is None else r * per_channel(self.weight, x)
        shift = d if self.weight is None else d * per_channel(self.weight, x) + per_channel(self.bias, x)
        return normalize_with(x, batch.mean, batch.var, eps=self.eps, scale=scale, shift=shift, mask=mask)

    def _corrections(self, mean: Tensor, var: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        # Compiled, torch may recompute these in the backward pass from running statistics that have moved by then: silently wrong
        # gradients (pytorch pull request 197039). It saves the result of a sort, and sorting one value changes nothing.
        snapshot = torch.stack(running_moments(self))[None].sort(0).values[0]
        running_mean, running_var = (per_channel(s, x) for s in snapshot.unbind())
        gain = torch.rsqrt(running_var + self.eps)
        # Bounded constants, not parameters: clamp cuts no gradient here.
        r = (torch.sqrt(var + self.eps) * gain).clamp(1 / self.r_max, self.r_max)
        d = ((mean - running_mean) * gain).clamp(-self.d_max, self.d_max)
        return r, d
