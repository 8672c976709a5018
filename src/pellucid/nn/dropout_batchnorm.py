"""Dropout followed by batch normalisation, without the variance shift between training and evaluation.

Owns: ``DropoutBatchNorm``.
Must not: compute statistics itself; see ``batch_normalize.py``.
Read next: docs/normalization.md, "Dropout before normalisation".
"""

from typing import final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.nn.batch_normalize import batch_normalize
from pellucid.nn.batchnorm import PolicyNorm
from pellucid.nn.moments import check_like
from pellucid.nn.policy import StatisticsGrad

__all__ = ["DropoutBatchNorm"]


@final
class DropoutBatchNorm(PolicyNorm):
    """Drop activations, then normalise them with the mean and variance they had before.

    Dropout that keeps a share q turns a variance s^2 around a mean m into ``(s^2 + m^2) / q - m^2``. A batch norm behind it learns
    that number, and divides by it in evaluation, when the activations have s^2. Here the statistics, running ones included, are
    those of the activation without dropout: training and evaluation divide by the same. (The output in training still carries
    dropout's own noise; that is its purpose.)

    Args:
        num_features: number of channels.
        p: probability that an activation is dropped, in [0, 1).
        eps: added to the variance.
        momentum: weight of the newest batch in the running statistics; None averages over all batches.
        affine: learn a scale and a shift per channel.
        track_running_stats: keep running statistics for ``eval()``.
        device: of parameters and buffers.
        dtype: of parameters and buffers.
        statistics_grad: the gradient policy.

    Gradient:
        x: exact for the drawn mask, through dropout and (policy permitting) the statistics. Deterministic given ``keep``.

    Errors:
        InvalidArgument for p outside of [0, 1), a mask of another shape, another number of channels, and a policy that does not
        exist.

    Source:
        The closed form above, ``tests/nn/test_dropout_batchnorm.py``.

    Example:
        >>> norm = DropoutBatchNorm(8, p=0.5)
        >>> norm(torch.randn(4, 8, 5, 5)).shape
        torch.Size([4, 8, 5, 5])
    """

    options = ("p", "statistics_grad")

    def __init__(
        self,
        num_features: int,
        p: float = 0.5,
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
        if not 0 <= p < 1:
            raise invalid("p", expected="a probability in [0, 1)", got=p, fix="With p=1 nothing would be left to normalise.")
        self.p = p

    def forward(
        self, x: Float[Tensor, "b c *space"], *, keep: Bool[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "b c *space"]:
        """Drop (in training), then normalise.

        Args:
            x: the activation before dropout.
            keep: True where an activation survives, instead of a draw from torch's generator. Shape (b, c, 1, 1) drops channels.
        """
        if not self.training:
            return batch_normalize(self, x, self.statistics_grad)
        if keep is None:
            dropped = F.dropout(x, self.p, training=True)
        else:
            check_like("keep", keep, x)
            dropped = torch.where(keep, x, 0) / (1 - self.p)
        return batch_normalize(self, dropped, self.statistics_grad, statistics_from=x)
