"""What the study looks at: displaced keypoints of real photographs, compared by a descriptor.

Owns: the photographs, the keypoints, the displacement, and the loss as a function of whatever is to be differentiated.
Must not: differentiate.
Read next: ``gradients.py``.
"""

from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.features.classical import harris_response
from pellucid.features.frames import frames_from_xy
from pellucid.features.hardnet import HardNet
from pellucid.features.keypoints import select_keypoints
from pellucid.functional.patches import extract_patches
from pellucid.nn.policy import StatisticsGrad

__all__ = ["POLICIES", "Subject", "make_descriptor", "make_subject"]

POLICIES: Final[tuple[StatisticsGrad, ...]] = ("full", "detached", "mean_only", "var_only")

_SCALE: Final = 24.0  # half the side of a patch, in pixels of the photograph
_AWAY: Final = 2.0  # how far the second view's keypoint is off, in pixels


@dataclass(frozen=True)
class Subject:
    """Keypoints of one photograph in two views that differ in light and noise only."""

    first: Tensor
    """(1, 1, H, W), float64."""
    second: Tensor
    frames: Tensor
    """(1, N, 2, 3): where the keypoints are."""
    displaced: Tensor
    """The same, off by two pixels: what a gradient should lead home."""

    def patches(self, frames: Float[Tensor, "1 n 2 3"] | None = None) -> tuple[Float[Tensor, "n 1 32 32"], Tensor]:
        """Patches of the first view, and of the second at displaced frames (or at the ones given)."""
        home = extract_patches(self.first, self.frames)[0]
        return home, extract_patches(self.second, self.displaced if frames is None else frames)[0]


def make_subject(photograph: Float[Tensor, "1 h w"], *, count: int, seed: int) -> Subject:
    """Take the strongest corners of a photograph that has room for their patches."""
    dice = torch.Generator().manual_seed(seed)
    clean = photograph[None].double()
    noise = [0.02 * torch.randn(clean.shape, generator=dice, dtype=clean.dtype) for _ in range(2)]
    second = 0.9 * clean.clamp(min=1e-3) ** 1.2 + 0.03  # another light
    keypoints = select_keypoints(harris_response(clean), count, radius=6, border=int(_SCALE))
    points = keypoints.points[keypoints.valid]
    turn = 2 * torch.pi * torch.rand(len(points), generator=dice, dtype=clean.dtype)
    away = points + _AWAY * torch.stack((torch.cos(turn), torch.sin(turn)), -1)
    frames, displaced = (frames_from_xy(p, _SCALE)[None] for p in (points, away))
    return Subject(clean + noise[0], second + noise[1], frames, displaced)


def make_descriptor(statistics: StatisticsGrad, patches: Float[Tensor, "n 1 32 32"], *, seed: int, width: float = 0.25) -> HardNet:
    """A HardNet with random weights and running statistics taken from patches: the same function under every policy."""
    net = HardNet(width=width, statistics=statistics, dropout=0.0, seed=seed).to(patches.dtype)
    layers = [layer for layer in net.modules() if isinstance(layer, nn.BatchNorm2d)]
    for layer in layers:
        layer.momentum = 1.0  # running statistics: those of this one batch
    with torch.no_grad():
        net(patches)
    for layer in layers:
        layer.momentum = 0.1
    return net.eval()
