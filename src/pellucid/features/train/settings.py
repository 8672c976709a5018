"""What a run may be told, in a TOML file or on the command line.

Owns: names, defaults and ranges.
Must not: do anything.
Read next: ``run.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.nn.policy import StatisticsGrad
from pellucid.training import RunSettings
from pellucid.training.settings import Amount, Count, Positive, Share

__all__ = ["DescriptorSettings", "DetectorSettings", "FeatureSettings", "JointSettings"]


@dataclass(frozen=True)
class FeatureSettings(RunSettings):
    """What every run on photographs may be told.

    Args:
        photographs: a folder of pictures; empty takes scikit-image's photographs.
        exclude: photographs to hold out.
        minutes: as many steps as fit into the time, instead of ``steps``.
        device: ``auto``, ``cpu`` or ``cuda``.
    """

    photographs: str = ""
    exclude: tuple[str, ...] = ()
    minutes: float | None = None
    device: str = "auto"


@dataclass(frozen=True)
class DescriptorSettings(FeatureSettings):
    """Training a HardNet.

    Args:
        batch: pairs per step, over all ranks together.
        rate: of Adam, falling to 0 in a straight line.
        weight_decay: of Adam.
        width: of the network.
        dropout: of the network.
        statistics: what the gradient sees of each patch's mean and deviation.
        margin: of the triplet loss.
        second_order: weight of the second-order similarity; 0 leaves it out.
        keypoints: per photograph and size, at most.
        factor: side of a patch in keypoint sizes.
        geometric, photometric: strength of the jitter between two views.
        both_views: jitter the anchor, too.
        variants: also train on mirrored and inverted patches, as places of their own.
        average: of the weights over steps (0 is none): the decay of the moving average that is exported.
        precision: ``auto``, ``float32`` or ``bfloat16`` autocast.
        compile: run the network through torch.compile.
    """

    steps: Count = 3000
    batch: Count = 128
    rate: Positive = 3e-3
    weight_decay: Amount = 1e-4
    width: Positive = 0.5
    dropout: Share = 0.1
    statistics: StatisticsGrad = "detached"
    margin: Positive = 1.0
    second_order: Amount = 0.0
    keypoints: Count = 4000
    factor: Positive = 8.0
    geometric: Amount = 1.0
    photometric: Amount = 1.0
    both_views: bool = False
    variants: bool = True
    average: Share = 0.0
    precision: str = "auto"
    compile: bool = False


@dataclass(frozen=True)
class DetectorSettings(FeatureSettings):
    """Training a keypoint network.

    Args:
        batch: pairs of views per step, over all ranks together.
        size: side of the views, in pixels.
        strength: of the change of viewpoint.
        rate: of Adam, falling to 0 in a straight line.
        imitation_weight: of the correlation with the Hessian's response.
        consistency_weight: of the correlation between the views.
        orientation, scale: also learn an orientation, a scale.
    """

    steps: Count = 600
    batch: Count = 4
    size: Count = 96
    strength: Amount = 0.7
    rate: Positive = 1e-2
    imitation_weight: Amount = 1.0
    consistency_weight: Amount = 1.0
    orientation: bool = False
    scale: bool = False


@dataclass(frozen=True)
class JointSettings(FeatureSettings):
    """Training a detector and a descriptor through the patches between them.

    Args:
        detector, descriptor: finished runs (or files of weights) to start from, instead of training them now.
        detector_steps, descriptor_steps: of the stages before.
        steps: of the joint stage.
        minutes: as many joint steps as fit into this time, instead of ``steps``.
        batch: pairs of views per step, over all ranks together.
        size: side of the views, in pixels.
        strength: of the change of viewpoint.
        keypoints: per view.
        patch_scale: half the side of the patches, in pixels.
        pair_weight: weight, for the detector, of the distance between the descriptors of a pair.
        stop_gradient: let only the first view's patches move.
        detector_rate, descriptor_rate: of the two optimisers, falling to 0 in a straight line.
        width: of the descriptor.
    """

    detector: str = ""
    descriptor: str = ""
    detector_steps: Count = 600
    descriptor_steps: Count = 1000
    steps: Count = 400
    batch: Count = 4
    size: Count = 160
    strength: Amount = 0.7
    keypoints: Count = 64
    patch_scale: Positive = 16.0
    pair_weight: Amount = 1.0
    stop_gradient: bool = False
    detector_rate: Positive = 1e-3
    descriptor_rate: Positive = 5e-4
    width: Positive = 0.5
    save_every: Count = 100
