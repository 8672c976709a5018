"""Train detector and descriptor end to end: the loss on descriptors has gradients to the patches, and so to the keypoints.

Owns: the step through the patches, and its two optimisers.
Must not: decide which loss reaches which network; ``../joint.py`` does.
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
    """The state of a joint training, and its step.

    The detector has two losses: the one it was trained with, and the distance of each pair's descriptors, whose gradient reaches
    its weights through the patches and their keypoints. The descriptor has the triplet loss. Each has its own optimiser.

    Args:
        settings: the settings of the run.
        detector, descriptor: the pretrained networks.
        pairs: makes the views of a step.
        world: the ranks; each has its share of the pairs, and negatives come from all.
        device: the networks' device.
    """

    title = "Joint"
    panels: ClassVar = {name: (name,) for name in ("loss", "detector", "pair", "descriptor")}
    folder = "joint"

    @classmethod
    def prepare(
        cls, settings: JointSettings, photographs: Sequence[Tensor], world: World, device: torch.device
    ) -> Callable[[], JointTrainer]:
        """Draw pairs of views from the photographs, different from those that the detector was trained on."""
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
        """The content of a checkpoint."""
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
        # The pair term's gradient passes through a sampling grid: clip it, as a rare steep one could undo the training.
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
        """Write both networks, and their state before this stage into ``before/``."""
        for place, (detector, descriptor) in (("before", _start(self.settings)), ("", (self.detector, self.descriptor))):
            save_detector(detector, home / place / DETECTOR_FILE, patch_scale=self.settings.patch_scale, settings=notes)
            save_descriptor(descriptor, home / place / DESCRIPTOR_FILE, settings=notes)

    def _cut(self, first: Tensor, second: Tensor, second_from_first: Tensor) -> _Cut:
        """Extract patches around the first view's keypoints and their places in the second, upright and of one scale, as the
        detector itself would in either view. Only patches that lie inside both views are kept.
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
        if len(patches) < 2:  # no common places: flat patches have no gradient, and keep the ranks' collectives in step
            blank = first.new_zeros(2, 1, 32, 32)
            return _Cut(blank, blank, first.new_zeros(2, 2), torch.zeros(2, dtype=torch.int64, device=first.device))
        pair = torch.arange(len(first), device=first.device)[:, None].expand_as(kept)
        return _Cut(patches, targets, detections.keypoints.points.detach()[kept], pair[kept])

    def _triplet(self, anchors: Tensor, positives: Tensor, cut: _Cut) -> Tensor:
        """Return the loss over the rows of all ranks; keypoints of a view within half a patch are no negatives of each other."""
        pair = cut.pair + self.world.rank * self.settings.batch  # unique over all ranks
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
    """Load the networks that the stages before have trained."""
    return load_detector(Path(settings.detector)), load_descriptor(Path(settings.descriptor))
