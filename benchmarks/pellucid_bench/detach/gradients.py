"""Gradients under each policy, against finite differences: keypoint geometry, brightness, contrast, weights.

Owns: the exactness figures.
Must not: train.
Read next: ``drift.py``.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.features.hardnet import HardNet
from pellucid.nn.policy import StatisticsGrad
from pellucid_bench.detach.subject import POLICIES, Subject, make_descriptor

__all__ = ["Exactness", "light", "measure_exactness", "pair_losses"]

_STEP = 1e-5


class Exactness(NamedTuple):
    """One policy's figures."""

    statistics: StatisticsGrad
    error: float
    """|gradient - finite differences| / |finite differences|, over the six numbers of every frame."""
    cosine: float
    """Between both."""
    brightness: float
    """Mean over patches of |d loss / d brightness|; a descriptor of standardised patches does not depend on it, so 0 is right."""
    contrast: float
    """The same for a factor about the patch's mean."""
    weights: float
    """Largest difference of a weight's gradient from the one under full statistics, over the largest gradient."""


def pair_losses(net: HardNet, home: Tensor, away: Tensor) -> Float[Tensor, "n"]:
    """Squared distances of corresponding descriptors."""
    return (net(home) - net(away)).square().sum(-1)


def light(patches: Tensor, brightness: Tensor, contrast: Tensor) -> Tensor:
    """Patches seen in another light: a factor about each patch's mean (a constant here) and an offset."""
    mean = patches.mean((1, 2, 3), keepdim=True).detach()
    return mean + contrast.reshape(-1, 1, 1, 1) * (patches - mean) + brightness.reshape(-1, 1, 1, 1)


def measure_exactness(subjects: list[Subject], *, seed: int) -> list[Exactness]:
    """Every policy's figures, pooled over photographs."""
    everything = torch.cat([torch.cat(s.patches()) for s in subjects])
    nets = {policy: make_descriptor(policy, everything, seed=seed) for policy in POLICIES}
    truth = torch.cat([_finite_differences(nets["full"], s) for s in subjects])  # n 6
    reference = _weight_gradients(nets["full"], subjects)
    largest = max(float(g.abs().max()) for g in reference)
    rows = []
    for policy, net in nets.items():
        measured = torch.cat([_frame_gradients(net, s) for s in subjects])
        brightness, contrast = _light_gradients(net, subjects)
        apart = max(float((a - b).abs().max()) for a, b in zip(_weight_gradients(net, subjects), reference, strict=True))
        rows.append(
            Exactness(
                policy,
                float((measured - truth).norm() / truth.norm()),
                float((measured * truth).sum() / (measured.norm() * truth.norm())),
                brightness,
                contrast,
                apart / largest,
            )
        )
    return rows


def _frame_gradients(net: HardNet, subject: Subject) -> Float[Tensor, "n 6"]:
    frames = subject.displaced.clone().requires_grad_()
    loss = pair_losses(net, *subject.patches(frames)).sum()
    (gradient,) = torch.autograd.grad(loss, frames)
    return gradient[0].flatten(1)


@torch.no_grad()
def _finite_differences(net: HardNet, subject: Subject) -> Float[Tensor, "n 6"]:
    # Frames do not see one another, so one number of all of them is moved at once.
    columns = []
    for row in range(2):
        for column in range(3):
            step = torch.zeros(2, 3, dtype=torch.float64)
            step[row, column] = _STEP
            ahead, behind = (pair_losses(net, *subject.patches(subject.displaced + sign * step)) for sign in (1, -1))
            columns.append((ahead - behind) / (2 * _STEP))
    return torch.stack(columns, dim=1)


def _light_gradients(net: HardNet, subjects: list[Subject]) -> tuple[float, float]:
    parts = []
    for subject in subjects:
        home, away = subject.patches()
        dark = torch.zeros(len(away), dtype=away.dtype, requires_grad=True)
        plain = torch.ones(len(away), dtype=away.dtype, requires_grad=True)
        loss = pair_losses(net, home, light(away, dark, plain)).sum()
        parts.append(torch.stack(torch.autograd.grad(loss, (dark, plain))))
    brightness, contrast = torch.cat(parts, dim=1).abs().mean(1).tolist()
    return brightness, contrast


def _weight_gradients(net: HardNet, subjects: list[Subject]) -> list[Tensor]:
    loss = torch.stack([pair_losses(net, *s.patches()).mean() for s in subjects]).mean()
    return list(torch.autograd.grad(loss, list(net.parameters())))
