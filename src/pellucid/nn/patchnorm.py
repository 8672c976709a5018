"""Per-patch standardisation: the input normalisation of patch descriptors.

Owns: ``PatchNorm``, its smooth floor and its default gradient policy.
Must not: share statistics between patches.
Read next: ``standardize.py``; docs/normalization.md for what detaching costs and buys.
"""

from typing import final

from jaxtyping import Bool, Float
from torch import Tensor, nn

from pellucid.errors import invalid
from pellucid.nn.moments import check_float, moments, unbiased_var
from pellucid.nn.policy import StatisticsGrad, check_policy
from pellucid.nn.standardize import normalize_with, standardize

__all__ = ["PatchNorm"]


@final
class PatchNorm(nn.Module):
    """Give each patch zero mean and, unless it is flat, unit standard deviation.

    The divisor is ``sqrt(std^2 + floor^2)``: smooth, and at least ``floor``. Dividing by ``std + 1e-7``, as descriptors do,
    amplifies the noise of a flat patch 10^7 times; here the gain never passes ``1 / floor``.

    Args:
        statistics: ``"detached"`` (default, as in HardNet: mean and std are constants to the gradient), ``"full"``,
            ``"mean_only"`` or ``"var_only"``. Weight gradients of whatever follows are the same under all of them.
        floor: standard deviation, in units of the input, below which a patch counts as flat. Positive.
        per_channel: statistics per channel instead of over all channels.
        unbiased: divide by n - 1, as ``torch.std`` does.
        fused: force the one-pass reduction (True) or two steps (False); None chooses by device, because the fused one is slower on
            CPU and has been missing or wrong on others. Under ``"full"`` None uses torch's layer_norm kernel.

    Gradient:
        patches: exact under ``"full"``; under ``"detached"`` ``g / sigma`` (surrogate). Second order: yes. Deterministic: yes.
    Errors:
        InvalidArgument for a policy that does not exist, a floor that is not positive, or fewer than three dimensions.
    Source:
        ``torch.mean`` and ``torch.std`` in float64, ``tests/nn/test_patchnorm.py``.

    Example:
        >>> import torch
        >>> patches = torch.rand(128, 1, 32, 32)
        >>> out = PatchNorm()(patches)
        >>> bool(out.mean((1, 2, 3)).abs().max() < 1e-5), round(out.std((1, 2, 3)).mean().item(), 2)
        (True, 1.0)
    """

    def __init__(
        self,
        *,
        statistics: StatisticsGrad = "detached",
        floor: float = 1e-2,
        per_channel: bool = False,
        unbiased: bool = True,
        fused: bool | None = None,
    ) -> None:
        super().__init__()
        check_policy("statistics", statistics)
        if not floor > 0:
            raise invalid("floor", expected="a positive standard deviation", got=floor, fix="1e-2 suits images in [0, 1].")
        self.statistics: StatisticsGrad = statistics
        self.floor = floor
        self.per_channel = per_channel
        self.unbiased = unbiased
        self.fused = fused

    def forward(
        self, patches: Float[Tensor, "*b c h w"], *, mask: Bool[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "*b c h w"]:
        """Standardise each patch; pixels where ``mask`` is False count for nothing and become 0."""
        check_float("patches", patches)
        if patches.ndim < 3:
            raise invalid("patches", expected="(..., channels, height, width)", got=tuple(patches.shape))
        dims, eps = (-2, -1) if self.per_channel else (-3, -2, -1), self.floor**2
        if self.fused is None:
            return standardize(patches, dims, mask=mask, statistics=self.statistics, eps=eps, unbiased=self.unbiased)
        mean, var, samples = moments(patches, dims, mask=mask, policy=self.statistics, fused=self.fused)
        return normalize_with(patches, mean, unbiased_var(var, samples) if self.unbiased else var, eps=eps, mask=mask)

    def extra_repr(self) -> str:
        """The options."""
        names = ("statistics", "floor", "per_channel", "unbiased", "fused")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
