"""HardNet: maps 32x32 grey patches to 128 numbers, with the published networks' names and shapes of weights.

Owns: the L2-Net architecture at any width, its initial weights, and the check of its input.
Must not: cut patches out of images or compute losses.
Read next: ``../nn/patchnorm.py`` for the input normalisation, ``../losses/triplet.py`` for the loss.
"""

import math
from collections.abc import Mapping
from typing import Final, final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.core.constants import compute_dtype
from pellucid.errors import invalid
from pellucid.nn import PatchNorm
from pellucid.nn.moments import check_float
from pellucid.nn.policy import StatisticsGrad

__all__ = ["HardNet", "width_of"]

_CHANNELS: Final = (32, 32, 64, 64, 128, 128)
_STRIDES: Final = (1, 1, 2, 1, 2, 1)
_SMALLEST_NORM: Final = 1e-6


@final
class HardNet(nn.Module):
    """Describe 32x32 patches by vectors of unit length.

    Six 3x3 convolutions (32, 32, 64, 64, 128, 128 channels; the third and fifth halve the size), dropout, and one 8x8 convolution
    to the descriptor; each is followed by batch normalisation without weights, all but the last by ReLU. Checkpoints of the
    original repository (its ``state_dict`` entry) and of kornia load unchanged at ``width=1``. On a CPU, training takes a quarter
    less time after ``net.to(memory_format=torch.channels_last)``.

    Args:
        width: factor on the inner channels. 0.5 has 596 thousand weights instead of 1.3 million, and no published checkpoint.
        dimensions: length of the descriptor.
        statistics: what the gradient sees of each patch's mean and standard deviation: ``"detached"`` (default, as published)
            takes them as constants, ``"full"`` differentiates through them. Weights, outputs and weight gradients are the same.
        floor: standard deviation, in units of the patches, below which a patch counts as flat.
        dropout: probability of dropping a channel's value before the last convolution, while training.
        seed: decides the initial weights (orthogonal, gain 0.6). torch's global generator is left alone.

    Gradient:
        patches: exact under ``statistics="full"``, otherwise a surrogate by declaration (``g / sigma``, see docs/detach-study.md);
        zero for a flat patch's descriptor. weights: exact under both. Second order: yes. Deterministic: yes.
    Errors:
        InvalidArgument for patches that are not (N, 1, 32, 32), or a width that leaves no channel; InvalidType for integers.
    Source:
        Mishchuk et al., "Working hard to know your neighbor's margins", NeurIPS 2017; Tian et al., "L2-Net", CVPR 2017. Equals
        ``kornia.feature.HardNet`` with the same weights, ``tests/features/test_hardnet.py``.

    Example:
        >>> net = HardNet(width=0.25).eval()
        >>> descriptors = net(torch.rand(5, 1, 32, 32))
        >>> descriptors.shape, torch.allclose(descriptors.norm(dim=1), torch.ones(5))
        (torch.Size([5, 128]), True)
    """

    patch_size: Final = 32

    def __init__(
        self,
        *,
        width: float = 1.0,
        dimensions: int = 128,
        statistics: StatisticsGrad = "detached",
        floor: float = 3e-4,
        dropout: float = 0.3,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(width, int | float) or not math.isfinite(width) or round(_CHANNELS[0] * width) < 1:
            raise invalid("width", expected=f"a number of at least {1 / _CHANNELS[0]}", got=width)
        if not isinstance(dimensions, int) or dimensions < 1:
            raise invalid("dimensions", expected="a whole number, at least 1", got=dimensions)
        if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
            raise invalid("dropout", expected="a probability in [0, 1)", got=dropout)
        self.normalize = PatchNorm(statistics=statistics, floor=floor)
        layers: list[nn.Module] = []
        channels = [1, *(round(c * width) for c in _CHANNELS)]
        for before, after, stride in zip(channels, channels[1:], _STRIDES, strict=False):
            layers += [_conv(before, after, 3, stride=stride, padding=1), nn.BatchNorm2d(after, affine=False), nn.ReLU()]
        # The order decides the weights' names in a checkpoint: features.0 to features.20.
        layers += [nn.Dropout(dropout), _conv(channels[-1], dimensions, 8), nn.BatchNorm2d(dimensions, affine=False)]
        self.features = nn.Sequential(*layers)
        self._initialise(seed)

    def forward(self, patches: Float[Tensor, "n 1 32 32"]) -> Float[Tensor, "n d"]:
        """Describe each patch."""
        check_float("patches", patches)
        if patches.ndim != 4 or patches.shape[1:] != (1, self.patch_size, self.patch_size):
            fix = "Average colours to grey and extract patches of this size."
            expected = f"shape (N, 1, {self.patch_size}, {self.patch_size})"
            raise invalid("patches", expected=expected, got=tuple(patches.shape), fix=fix)
        x = self.normalize(patches)
        if x.device.type == "cpu":
            x = x.contiguous(memory_format=torch.channels_last)  # otherwise each convolution reorders what the last one wrote
        x = self.features(x).flatten(1)  # n d
        return F.normalize(x.to(compute_dtype(x.dtype)), dim=1, eps=_SMALLEST_NORM)

    def extra_repr(self) -> str:
        """The number of parameters, for printing."""
        return f"parameters={sum(p.numel() for p in self.parameters())}"

    def _initialise(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for module in self.features:
            if isinstance(module, nn.Conv2d):
                nn.init.orthogonal_(module.weight, gain=0.6, generator=generator)


def width_of(weights: Mapping[str, Tensor]) -> float:
    """Return the width whose layers have the sizes of these weights; all layers are used, because rounding makes one ambiguous."""
    kinds = {full: weights[f"features.{3 * i}.weight"].shape[0] for i, full in enumerate(_CHANNELS)}
    low = max((channels - 0.5) / full for full, channels in kinds.items())
    high = min((channels + 0.5) / full for full, channels in kinds.items())
    return (low + high) / 2


def _conv(before: int, after: int, size: int, *, stride: int = 1, padding: int = 0) -> nn.Conv2d:
    # skip_init: torch would draw weights from the global generator, which are replaced anyway.
    return nn.utils.skip_init(nn.Conv2d, before, after, kernel_size=size, stride=stride, padding=padding, bias=False, device="cpu")
