"""Detector and descriptor end to end: keypoints, patches cut with gradients, descriptors, loss, and back to the keypoints.

Owns: the step through the patches, and its two optimisers.
Must not: decide which loss reaches what; ``../joint.py`` does.
Read next: ``../joint.py``, ``../../functional/patches.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from pellucid.features.data.pairs import HomographicPairs
from pellucid.features.detect import detect
from pellucid.features.detector_step import detector_losses
from pellucid.features.frames import frames_from_xy, frames_inside
from pellucid.features.hardnet import HardNet
from pellucid.features.joint import joint_losses
from pellucid.features.keypoint_net import KeypointNet
from pellucid.features.negatives import near_in_image
from pellucid.features.train.precision import synchronised
from pellucid.features.train.settings import JointSettings
from pellucid.features.train.trainer import Trainer, rank_share, view_pairs
from pellucid.features.weights import DESCRIPTOR_FILE, DETECTOR_FILE, load_descriptor, load_detector, save_descriptor, save_detector
from pellucid.functional.patches import extract_patches
from pellucid.geometry.points import transform_points
from pellucid.losses import hardest_triplet_loss
from pellucid.training import TrainState, World, all_gather_rows, average_gradients, set_rate

__all__ = ["JointTrainer"]


class JointTrainer(Trainer):
    """Everything a joint run changes, and the step that changes it.

    The detector answers to two losses: the one it was trained with, and the distance of each pair's descriptors, which reaches its
    weights through the patches and the keypoints that placed them. The descriptor answers to the triplet loss. Each has its own
    optimiser.

    Args:
        settings: of the run.
        detector, descriptor: as pretrained.
        pairs: makes the views of a step.
        world: the ranks; each sees its share of the pairs, negatives come from all.
        device: where the networks are.
    """

    title = "Joint"
    panels: ClassVar = {name: (name,) for name in ("loss", "detector", "pair", "descriptor")}
    folder = "joint"

    @classmethod
    def prepare(
        cls, settings: JointSettings, photographs: Sequence[Tensor], world: World, device: torch.device
    ) -> Callable[[], JointTrainer]:
        """Draw pairs of views from the photographs, others than the detector was trained on."""
        size, strength, seed = settings.size, settings.strength, settings.seed + 1
        pairs = view_pairs(photographs, world, batch=settings.batch, size=size, strength=strength, seed=seed)
        return lambda: cls(settings, *_start(settings), pairs, world, device)

    def __init__(
        self,
        settings: JointSettings,
        detector: KeypointNet,
        descriptor: HardNet,
        pairs: HomographicPairs,
        world: World,
        device: torch.device,
    ) -> None:
        self.settings, self.pairs, self.world, self.device = settings, pairs, world, device
        self.detector = detector.to(device)
        descriptor = descriptor.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.descriptor = synchronised(descriptor, world)
        self.optimizers = {
            "detector": torch.optim.Adam(self.detector.parameters(), lr=settings.detector_rate),
            "descriptor": torch.optim.Adam(self.descriptor.parameters(), lr=settings.descriptor_rate, weight_decay=1e-4),
        }

    @property
    def state(self) -> TrainState:
        """What a checkpoint holds."""
        return TrainState({"detector": self.detector, "descriptor": self.descriptor}, self.optimizers)

    def step(self, index: int, total: int) -> Mapping[str, float | Tensor]:
        """Do step ``index`` of ``total``."""
        fade = 1.0 - index / total
        for name, start in (("detector", self.settings.detector_rate), ("descriptor", self.settings.descriptor_rate)):
            set_rate(self.optimizers[name], fade * start)
        views, weight = rank_share(self.pairs, index, self.settings.batch, self.world)
        first, second = views.first.to(self.device), views.second.to(self.device)
        second_from_first = views.second_from_first.to(self.device, torch.float32)
        own = detector_losses(self.detector, first, second, second_from_first, step=index)
        cut = self._cut(first, second, second_from_first)
        self.descriptor.train()

        def triplet(anchors: Tensor, positives: Tensor) -> Tensor:
            return self._triplet(anchors, positives, cut)

        losses = joint_losses(self.descriptor, cut.patches, cut.targets, triplet, stop_gradient=self.settings.stop_gradient)
        total_loss = weight * (own.total + self.settings.pair_weight * losses.pair) + losses.descriptor
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        total_loss.backward()
        for network in (self.detector, self.descriptor):
            average_gradients(network.parameters(), self.world)
        # The pair term's gradient passes a sampling grid: a rare steep one must not undo what was learned.
        torch.nn.utils.clip_grad_norm_(self.detector.parameters(), 1.0)
        for optimizer in self.optimizers.values():
            optimizer.step()
        return {
            "loss": total_loss.detach(),
            "detector": own.total.detach(),
            "pair": losses.pair.detach(),
            "descriptor": losses.descriptor.detach(),
            "patches": float(len(cut.patches)),
        }

    def save(self, home: Path, notes: Mapping[str, Any]) -> None:
        """Write both networks, and into ``before/`` what they were before this stage."""
        for place, (detector, descriptor) in (("before", _start(self.settings)), ("", (self.detector, self.descriptor))):
            save_detector(detector, home / place / DETECTOR_FILE, patch_scale=self.settings.patch_scale, settings=notes)
            save_descriptor(descriptor, home / place / DESCRIPTOR_FILE, settings=notes)

    def _cut(self, first: Tensor, second: Tensor, second_from_first: Tensor) -> _Cut:
        """Patches around the first view's keypoints, and around where the homography sends them: upright, of one scale, as the
        detector itself would cut them in either view. Only those that lie inside both are kept.
        """
        options = self.settings
        size = (first.shape[-2], first.shape[-1])
        detections = detect(self.detector, first, options.keypoints, scale=options.patch_scale, border=8)
        moved = frames_from_xy(transform_points(detections.keypoints.points, second_from_first), options.patch_scale)
        inside = frames_inside(detections.frames, size, margin=-options.patch_scale) & frames_inside(
            moved, size, margin=-options.patch_scale
        )
        kept = detections.keypoints.valid & inside  # b k
        moved = torch.where(kept[..., None, None], moved, 0.0)
        patches = extract_patches(first, detections.frames)[kept]
        targets = extract_patches(second, moved)[kept]
        if len(patches) < 2:  # nothing in common: a pair of flat patches keeps every rank in step, and teaches nothing
            blank = first.new_zeros(2, 1, 32, 32)
            return _Cut(blank, blank, first.new_zeros(2, 2), torch.zeros(2, dtype=torch.int64, device=first.device))
        pair = torch.arange(len(first), device=first.device)[:, None].expand_as(kept)
        return _Cut(patches, targets, detections.keypoints.points.detach()[kept], pair[kept])

    def _triplet(self, anchors: Tensor, positives: Tensor, cut: _Cut) -> Tensor:
        """The loss over the rows of all ranks; keypoints of one view nearer than half a patch show each other's place."""
        pair = cut.pair + self.world.rank * self.settings.batch  # no two ranks' pairs have one number
        gathered = [all_gather_rows(rows.contiguous(), self.world) for rows in (anchors, positives, cut.points, pair)]
        near = near_in_image(gathered[2], gathered[3], radius=0.5 * self.settings.patch_scale)
        return hardest_triplet_loss(gathered[0], gathered[1], not_negative=near)


class _Cut(NamedTuple):
    patches: Tensor
    """(N, 1, 32, 32) around keypoints of the first views."""
    targets: Tensor
    """(N, 1, 32, 32) of the same places in the second views."""
    points: Tensor
    """(N, 2): the keypoints."""
    pair: Tensor
    """(N,): which pair each belongs to."""


def _start(settings: JointSettings) -> tuple[KeypointNet, HardNet]:
    """The networks as the stages before left them."""
    return load_detector(Path(settings.detector)), load_descriptor(Path(settings.descriptor))
