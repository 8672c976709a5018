"""Batch normalisation that can be dropped in for torch's, with a gradient policy and statistics from another tensor.

Owns: ``BatchNorm1d``, ``BatchNorm2d``, ``BatchNorm3d``, and what all batch norms here share: the policy, and an error in
    ``torch.nn.SyncBatchNorm.convert_sync_batchnorm``, which would replace them by torch's and drop the policy.
Must not: change a result, a state-dict key or a running statistic of ``torch.nn.BatchNorm*`` under the default policy.
Read next: ``batch_normalize.py``, which does the work.
"""

import sys
from typing import Any, ClassVar, NoReturn, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pellucid.errors import invalid
from pellucid.nn.batch_normalize import batch_normalize
from pellucid.nn.policy import StatisticsGrad, check_policy

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "PolicyNorm"]


class _RaisesInTorchSync:
    # The conversion reads one attribute that torch's layers lack: qconfig, which quantisation sets.
    def __get__(self, norm: Any, owner: type) -> NoReturn:
        if norm is not None and sys._getframe(1).f_code.co_name == "convert_sync_batchnorm":
            fix = "Call it on torch's norms, then pellucid.nn.convert_batchnorm on its result; or use pellucid.nn.SyncBatchNorm."
            got = f"a pellucid.nn.{owner.__name__}, whose statistics_grad and options would be lost"
            raise invalid("convert_sync_batchnorm", expected="batch norms of torch.nn", got=got, fix=fix)
        raise AttributeError("qconfig")


class PolicyNorm(_BatchNorm):
    """The common part of all batch norms here: torch's state and constructor, and a gradient policy."""

    options: ClassVar[tuple[str, ...]] = ("statistics_grad",)
    """The options that torch's norms lack; ``print(norm)`` shows them."""
    qconfig = _RaisesInTorchSync()  # a qconfig set on an instance takes precedence

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        statistics_grad: StatisticsGrad = "full",
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        check_policy("statistics_grad", statistics_grad)
        self.statistics_grad: StatisticsGrad = statistics_grad

    def extra_repr(self) -> str:
        """Torch's fields and the options."""
        return ", ".join([super().extra_repr(), *(f"{name}={getattr(self, name)!r}" for name in self.options)])


class _WithPolicy(PolicyNorm):
    """The forward pass of the three classes, with our statistics."""

    ranks: ClassVar[tuple[int, ...]]

    def forward(
        self,
        x: Float[Tensor, "b c *space"],
        *,
        statistics_from: Tensor | None = None,
        weight: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Float[Tensor, "b c *space"]:
        """Normalise ``x``.

        Args:
            x: of the shape that the class is for.
            statistics_from: take the statistics, running ones included, from this tensor instead; same channels, any other sizes.
            weight: importance of each value in the statistics.
            mask: True where a value counts. Belongs to the tensor the statistics come from; zeroes the output where that is ``x``.
        """
        if x.ndim not in self.ranks:
            raise invalid("x", expected=" or ".join(f"{rank} dimensions" for rank in self.ranks), got=tuple(x.shape))
        return batch_normalize(self, x, self.statistics_grad, statistics_from=statistics_from, weight=weight, mask=mask)


@final
class BatchNorm1d(_WithPolicy, nn.BatchNorm1d):
    """``torch.nn.BatchNorm1d`` with a gradient policy: :class:`BatchNorm2d` for ``(b, c)`` and ``(b, c, length)``.

    Args:
        num_features, eps, momentum, affine, track_running_stats, device, dtype, statistics_grad: as there.

    Gradient:
        As there.

    Errors:
        As there.

    Example:
        >>> BatchNorm1d(3)(torch.randn(8, 3)).shape
        torch.Size([8, 3])
    """

    ranks: ClassVar[tuple[int, ...]] = (2, 3)


@final
class BatchNorm2d(_WithPolicy, nn.BatchNorm2d):
    """``torch.nn.BatchNorm2d`` where you choose whether gradients pass through the statistics, and whose statistics they are.

    Results, running statistics and state dict are torch's. It is a subclass of torch's class so that code which looks for
    batch norms (weight decay groups, ``swa_utils.update_bn``, freezing) still finds it. Do not subclass it further.

    Args:
        num_features: number of channels.
        eps: added to the variance.
        momentum: weight of the newest batch in the running statistics; None averages over all batches.
        affine: learn a scale and a shift per channel.
        track_running_stats: keep running statistics for ``eval()``; without them every batch uses its own.
        device: of parameters and buffers.
        dtype: of parameters and buffers.
        statistics_grad: ``"full"``, ``"detached"``, ``"mean_only"`` or ``"var_only"``: the statistics that gradients pass through.

    Gradient:
        x: exact under ``"full"``; under ``"detached"`` ``scale * g / sigma``, the others between (surrogates by declaration).
        weight, bias: exact under every policy. Second order: yes. Deterministic: yes.
    Errors:
        InvalidArgument for other shapes, and for a single value per channel in training, as in torch.
    Source:
        ``torch.nn.BatchNorm2d`` in value, gradient and state, ``tests/nn/test_batchnorm.py``.

    Example:
        >>> norm = BatchNorm2d(3, statistics_grad="detached")
        >>> norm.load_state_dict(nn.BatchNorm2d(3).state_dict())
        <All keys matched successfully>
        >>> x = torch.randn(8, 3, 4, 4, requires_grad=True)
        >>> norm(x).sum().backward()  # zero under "full", where the gradient through the mean cancels it
        >>> bool(x.grad.min() > 0)
        True
    """

    ranks: ClassVar[tuple[int, ...]] = (4,)


@final
class BatchNorm3d(_WithPolicy, nn.BatchNorm3d):
    """``torch.nn.BatchNorm3d`` with a gradient policy: :class:`BatchNorm2d` for ``(b, c, d, h, w)``.

    Args:
        num_features, eps, momentum, affine, track_running_stats, device, dtype, statistics_grad: as there.

    Gradient:
        As there.

    Errors:
        As there.

    Example:
        >>> BatchNorm3d(3)(torch.randn(2, 3, 4, 5, 6)).shape
        torch.Size([2, 3, 4, 5, 6])
    """

    ranks: ClassVar[tuple[int, ...]] = (5,)
