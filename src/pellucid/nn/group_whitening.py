"""Whitening as a network layer: batch norm that also removes correlations, within groups of channels.

Owns: ``GroupWhitening`` and its running mean and covariance.
Must not: invert anything by itself; see ``spectral.py``.
Read next: ``batchnorm.py``: with one channel per group this layer is a batch norm.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.core.constants import compute_dtype, full_precision
from pellucid.errors import invalid
from pellucid.nn.moments import check_float
from pellucid.nn.running import check_channels, per_channel
from pellucid.nn.spectral import matrix_roots, newton_schulz_inverse_root

__all__ = ["GroupWhitening"]


@final
class GroupWhitening(nn.Module):
    """Give each group of channels zero mean and identity covariance over the batch.

    Args:
        num_features: number of channels; a multiple of ``group_size``.
        group_size: channels whitened together. 1 is a batch norm.
        iterations: Newton-Schulz steps (matrix products only, fast on a GPU; few steps whiten strong directions only, which is
            gentler to train with). None takes the exact root.
        eps: added to the covariance's diagonal.
        momentum: weight of the newest batch in the running statistics.
        affine: learn a scale and a shift per channel.
        statistics_grad: ``"full"`` differentiates through mean and transform, ``"detached"`` through neither.
        device: of parameters and buffers.
        dtype: of parameters and buffers.

    Evaluation whitens with the root of the averaged covariance, so train and eval agree when the statistics do.

    Gradient:
        x: exact under ``"full"`` (iterated: of the iteration; exact root: Daleckii-Krein). Second order: yes.

    Errors:
        InvalidArgument for channels that are no multiple of ``group_size``, another number of them, and a policy other than these
        two.

    Source:
        Huang et al., "Iterative Normalization", 2019; ``torch.nn.BatchNorm2d`` at group size 1 (tests).

    Example:
        >>> GroupWhitening(32, group_size=8)(torch.randn(16, 32, 6, 6)).shape
        torch.Size([16, 32, 6, 6])
    """

    running_mean: Tensor
    running_cov: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        num_features: int,
        *,
        group_size: int = 16,
        iterations: int | None = 5,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        statistics_grad: str = "full",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if group_size < 1 or num_features % group_size:
            raise invalid("group_size", expected=f"a divisor of num_features={num_features}", got=group_size)
        if statistics_grad not in ("full", "detached"):
            raise invalid("statistics_grad", expected="'full' or 'detached'", got=repr(statistics_grad))
        if iterations is not None and iterations < 1:
            raise invalid("iterations", expected="at least 1, or None for the exact root", got=iterations)
        if not eps > 0:
            raise invalid("eps", expected="a positive number", got=eps)
        self.num_features = num_features
        self.group_size = group_size
        self.iterations = iterations
        self.eps = eps
        self.momentum = momentum
        self.statistics_grad = statistics_grad
        groups = num_features // group_size
        self.weight = nn.Parameter(torch.ones(num_features, device=device, dtype=dtype)) if affine else None
        self.bias = nn.Parameter(torch.zeros(num_features, device=device, dtype=dtype)) if affine else None
        self.register_buffer("running_mean", torch.zeros(num_features, device=device, dtype=dtype))
        self.register_buffer("running_cov", torch.eye(group_size, device=device, dtype=dtype).repeat(groups, 1, 1))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.int64, device=device))

    def forward(self, x: Float[Tensor, "b c *space"]) -> Float[Tensor, "b c *space"]:
        """Whiten ``x``, then scale and shift."""
        check_float("x", x)
        check_channels("x", x, self.num_features)
        with full_precision(x.device):
            wide, groups = x.to(compute_dtype(x.dtype)), self.num_features // self.group_size
            values = wide.transpose(0, 1).reshape(groups, self.group_size, wide.numel() // self.num_features)  # g d m
            mean, covariance = self._statistics(values) if self.training else self._running(values)
            out = self._inverse_root(covariance) @ (values - mean)
            out = out.reshape(x.shape[1], x.shape[0], *x.shape[2:]).transpose(0, 1)
            if self.weight is not None and self.bias is not None:
                out = out * per_channel(self.weight, x) + per_channel(self.bias, x)
        return out.to(x.dtype)

    def _statistics(self, values: Tensor) -> tuple[Tensor, Tensor]:
        source = values.detach() if self.statistics_grad == "detached" else values
        size = values.shape[2]
        mean = source.sum(2, keepdim=True) / max(size, 1)  # g d 1
        centred = source - mean
        covariance = centred @ centred.mT / max(size, 1)  # g d d
        if size:
            with torch.no_grad():
                self.num_batches_tracked.add_(1)
                unbiased = covariance * (size / max(size - 1, 1))
                self.running_mean.lerp_(mean.reshape(-1).to(self.running_mean.dtype), self.momentum)
                self.running_cov.lerp_(unbiased.to(self.running_cov.dtype), self.momentum)
        return mean, covariance

    def _running(self, values: Tensor) -> tuple[Tensor, Tensor]:
        return self.running_mean.reshape(-1, self.group_size, 1).to(values.dtype), self.running_cov.to(values.dtype)

    def _inverse_root(self, covariance: Tensor) -> Tensor:
        if self.iterations is None:
            return matrix_roots(covariance, eps=self.eps)[1]
        identity = torch.eye(self.group_size, dtype=covariance.dtype, device=covariance.device)
        return newton_schulz_inverse_root(covariance + self.eps * identity, iterations=self.iterations)

    def extra_repr(self) -> str:
        """The options."""
        names = ("group_size", "iterations", "eps", "momentum", "statistics_grad")
        return f"{self.num_features}, " + ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
