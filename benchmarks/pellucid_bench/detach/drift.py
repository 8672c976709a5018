"""Where a learnable brightness and contrast go under each policy, when the loss does not depend on them.

Owns: the drift figures.
Must not: train weights.
Read next: ``training.py``.
"""

from typing import NamedTuple

import torch

from pellucid.nn.policy import StatisticsGrad
from pellucid_bench.detach.gradients import light
from pellucid_bench.detach.subject import POLICIES, Subject, make_descriptor

__all__ = ["Drift", "measure_drift"]


class Drift(NamedTuple):
    """One policy and seed."""

    statistics: StatisticsGrad
    seed: int
    brightness: list[float]
    """Before the first step (0) and after every one."""
    contrast: float
    """The factor after the last step, from 1."""
    loss_change: float
    """Loss after the last step minus before the first."""


def measure_drift(subjects: list[Subject], *, seeds: int, steps: int, rate: float = 0.05) -> list[Drift]:
    """Descend the mean pair loss by plain gradient steps on one brightness and one contrast for every other patch.

    Under full statistics the gradient is 0 up to the descriptor's floor, and both stay; under detached ones they walk.
    """
    home, away = (torch.cat(column)[::2] for column in zip(*(s.patches() for s in subjects), strict=True))
    results = []
    for seed in range(seeds):
        for policy in POLICIES[:2]:
            net = make_descriptor(policy, torch.cat((home, away)), seed=seed)
            target = net(home).detach()
            brightness = torch.zeros(1, dtype=home.dtype, requires_grad=True)
            contrast = torch.ones(1, dtype=home.dtype, requires_grad=True)
            path, losses = [], []
            for _ in range(steps + 1):  # the last one only measures
                loss = (target - net(light(away, brightness, contrast))).square().sum(-1).mean()
                losses.append(loss.item())
                path.append(brightness.item())
                if len(path) > steps:
                    break
                by_brightness, by_contrast = torch.autograd.grad(loss, (brightness, contrast))
                brightness = (brightness - rate * by_brightness).detach().requires_grad_()
                contrast = (contrast - rate * by_contrast).detach().requires_grad_()
            results.append(Drift(policy, seed, path, contrast.item(), losses[-1] - losses[0]))
    return results
