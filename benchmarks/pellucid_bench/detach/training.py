"""A detector trained through patches under detached and full statistics, from the same start, over seeds.

Owns: the training step through patches, and the repeatability before and after.
Must not: train a descriptor: it is the same constant for both.
Read next: ``run.py``.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.features.data import HomographicPairs, ViewPairs
from pellucid.features.detect import as_maps
from pellucid.features.detector_step import detector_losses
from pellucid.features.evaluation.metrics import repeatability
from pellucid.features.frames import frames_from_xy, map_frames
from pellucid.features.hardnet import HardNet
from pellucid.features.keypoint_net import KeypointNet
from pellucid.features.keypoints import gather_map, select_keypoints
from pellucid.features.soft_argmax import soft_argmax
from pellucid.functional.patches import extract_patches
from pellucid.nn.policy import StatisticsGrad
from pellucid_bench.detach.subject import POLICIES, make_descriptor

__all__ = ["Trained", "TrainingPlan", "patch_pair_loss", "pooled_repeatability", "train_both_ways"]


class Trained(NamedTuple):
    """One seed's repeatability within 2 pixels on photographs not trained on, and steps whose gradient was not finite."""

    seed: int
    start: float
    detached: float
    full: float
    not_finite: int


@dataclass(frozen=True)
class TrainingPlan:
    """How long and on what."""

    seeds: int
    warm_steps: int
    steps: int
    pairs: int
    size: int
    held_out: int
    keypoints: int = 16
    scale: float = 10.0


def train_both_ways(photographs: list[Tensor], held_out: list[Tensor], plan: TrainingPlan) -> list[Trained]:
    """For each seed: train on responses, then go on through patches under each policy, on the same pairs."""
    test = HomographicPairs(held_out, size=128, strength=0.5, seed=1000)(0, plan.held_out)
    return [
        _train_one(seed, HomographicPairs(photographs, size=plan.size, strength=0.5, seed=seed), test, plan)
        for seed in range(plan.seeds)
    ]


def _train_one(seed: int, data: HomographicPairs, test: ViewPairs, plan: TrainingPlan) -> Trained:
    start = KeypointNet(seed=seed).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    spoiled = _descend(start, plan.warm_steps, 1e-2, lambda net, step: _response_loss(net, data(step, plan.pairs), step))
    after: dict[StatisticsGrad, float] = {}
    for policy in POLICIES[:2]:
        net, describe = copy.deepcopy(start), _describe(policy, data(0, plan.pairs), seed)

        def through_patches(net: KeypointNet, step: int, describe: HardNet = describe) -> Tensor:
            return patch_pair_loss(net, describe, data(plan.warm_steps + step, plan.pairs), plan)

        spoiled += _descend(net, plan.steps, 2e-3, through_patches)
        after[policy] = pooled_repeatability(net, test)
    return Trained(seed, pooled_repeatability(start, test), after["detached"], after["full"], spoiled)


def patch_pair_loss(net: KeypointNet, describe: HardNet, views: ViewPairs, plan: TrainingPlan) -> Float[Tensor, ""]:
    """Mean squared descriptor distance between corresponding keypoints' patches, weighted by how much the detector wants each.

    A keypoint of the first view corresponds to the soft-argmax of the second view's response around where the homography sends it.
    Its weight is the share of its score in the softmax of all: scores rise where descriptors agree.
    """
    first, second = net(views.first).response, net(views.second).response
    second_from_first = views.second_from_first.to(first.dtype)
    margin = int(plan.scale)
    detected = select_keypoints(first, plan.keypoints, border=margin, visible=views.first_valid)
    frames = frames_from_xy(detected.points, plan.scale)  # b k 2 3
    mapped = map_frames(frames.detach(), second_from_first)  # b k 2 3, NaN behind the horizon
    side = second.shape[-1]
    shown = ((mapped[..., 2] >= margin) & (mapped[..., 2] <= side - 1 - margin)).all(-1) & detected.valid
    mapped = torch.where(shown[..., None, None], mapped, frames.detach())
    pixels = mapped[..., 2].round().long()
    reach = torch.arange(-3, 4)
    around = torch.stack(torch.meshgrid(reach, reach, indexing="xy"), -1)  # 7 7 2
    windows = gather_map(second, pixels[:, :, None, None] + around)[:, 0]  # b k 7 7
    there = pixels + soft_argmax(windows)
    frames_there = torch.cat((mapped[..., :2], there[..., None]), -1)
    patches = [extract_patches(v, f).flatten(0, 1) for v, f in ((views.first, frames), (views.second, frames_there))]
    home, away = describe(torch.cat(patches)).chunk(2)
    distance = (home - away).square().sum(-1).reshape(shown.shape)
    weight = torch.where(shown, detected.scores, -1e4).softmax(-1) * shown
    return (weight * distance).sum(-1).mean()


def pooled_repeatability(net: Callable[[Tensor], object], views: ViewPairs, *, count: int = 40, limit: float = 2.0) -> float:
    """Mean repeatability of the strongest keypoints over pairs of views."""
    with torch.no_grad():
        a, b = (
            select_keypoints(as_maps(net(v)).response, count, radius=3, border=4, visible=m)
            for v, m in ((views.first, views.first_valid), (views.second, views.second_valid))
        )
    size = (views.first.shape[-2], views.first.shape[-1])
    shares = [
        repeatability(a.points[i][a.valid[i]], b.points[i][b.valid[i]], views.second_from_first[i], (size, size), (limit,))[0]
        for i in range(len(a.points))
    ]
    return sum(shares) / len(shares)


def _response_loss(net: KeypointNet, views: ViewPairs, step: int) -> Tensor:
    return detector_losses(net, views.first, views.second, views.second_from_first, step=step).total


def _describe(policy: StatisticsGrad, views: ViewPairs, seed: int) -> HardNet:
    starts = [(y, x) for y in range(0, views.first.shape[-2] - 31, 12) for x in range(0, views.first.shape[-1] - 31, 12)]
    patches = torch.cat([views.first[:, :, y : y + 32, x : x + 32] for y, x in starts])
    return make_descriptor(policy, patches, seed=seed).requires_grad_(False)


def _descend(net: KeypointNet, steps: int, rate: float, loss_at: Callable[[KeypointNet, int], Tensor]) -> int:
    optimiser = torch.optim.Adam(net.parameters(), lr=rate)
    spoiled = 0
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate * (1 - step / steps)
        optimiser.zero_grad()
        loss_at(net, step).backward()
        finite = all(bool(p.grad.isfinite().all()) for p in net.parameters() if p.grad is not None)
        spoiled += not finite
        if finite:
            optimiser.step()
    return spoiled
