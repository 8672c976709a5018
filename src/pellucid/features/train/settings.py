"""The settings of runs, in a TOML file or on the command line.

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
    """The settings of every run on photographs.

    Args:
        photographs: a folder of pictures; if empty, scikit-image's photographs are used.
        exclude: photographs to hold out.
        minutes: train as many steps as fit into this time, instead of ``steps``.
        device: ``auto``, ``cpu`` or ``cuda``.
    """

    photographs: str = ""
    exclude: tuple[str, ...] = ()
    minutes: float | None = None
    device: str = "auto"


@dataclass(frozen=True)
class DescriptorSettings(FeatureSettings):
    """The settings of training a HardNet.

    Args:
        batch: pairs per step, over all ranks together.
        rate: learning rate of Adam, which falls linearly to 0.
        weight_decay: weight decay of Adam.
        width: width of the network.
        dropout: dropout of the network.
        statistics: whether the gradient passes through each patch's mean and deviation: ``detached`` or ``full``.
        margin: margin of the triplet loss.
        second_order: weight of the second-order similarity; 0 leaves it out.
        keypoints: largest number of keypoints per photograph and size.
        factor: side of a patch in keypoint sizes.
        geometric, photometric: strength of the jitter between two views.
        both_views: jitter the anchor, too.
        variants: also train on mirrored and inverted patches, as further places.
        average: decay of the moving average of the weights, which is then exported; 0 is no average.
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
    """The settings of training a keypoint network.

    Args:
        batch: pairs of views per step, over all ranks together.
        size: side of the views, in pixels.
        strength: strength of the change of viewpoint.
        rate: learning rate of Adam, which falls linearly to 0.
        imitation_weight: weight of the correlation with the Hessian's response.
        consistency_weight: weight of the correlation between the views.
        orientation, scale: also learn an orientation, or a scale.
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
    """The settings of training a detector and a descriptor through the patches between them.

    Args:
        detector, descriptor: finished runs (or files of weights) to start from, instead of training them now.
        detector_steps, descriptor_steps: steps of the stages before.
        steps: steps of the joint stage.
        minutes: train as many joint steps as fit into this time, instead of ``steps``.
        batch: pairs of views per step, over all ranks together.
        size: side of the views, in pixels.
        strength: strength of the change of viewpoint.
        keypoints: keypoints per view.
        patch_scale: half the side of the patches, in pixels.
        pair_weight: weight, for the detector, of the distance between the descriptors of a pair.
        stop_gradient: pass the pair term's gradient to the first view's patches only.
        detector_rate, descriptor_rate: learning rate of this network's optimiser, which falls linearly to 0.
        width: width of the descriptor.
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
