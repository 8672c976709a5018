"""What a run may be told, in a TOML file or on the command line.

Owns: names, defaults and ranges.
Must not: do anything.
Read next: ``descriptor.py``, ``detector.py``, ``joint.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.training.settings import check_numbers

__all__ = ["DescriptorSettings", "DetectorSettings", "JointSettings"]


@dataclass(frozen=True)
class DescriptorSettings:
    """Training a HardNet.

    Args:
        photographs: a folder of pictures; empty takes the bundled ones.
        exclude: bundled photographs to hold out.
        steps: of the run.
        minutes: as many steps as fit into the time, instead of ``steps``.
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
        device: ``auto``, ``cpu`` or ``cuda``.
        seed: of weights, order, views and dropout.
        save_every, log_every: in steps.
    """

    photographs: str = ""
    exclude: tuple[str, ...] = ()
    steps: int = 3000
    minutes: float | None = None
    batch: int = 128
    rate: float = 3e-3
    weight_decay: float = 1e-4
    width: float = 0.5
    dropout: float = 0.1
    statistics: str = "detached"
    margin: float = 1.0
    second_order: float = 0.0
    keypoints: int = 4000
    factor: float = 8.0
    geometric: float = 1.0
    photometric: float = 1.0
    both_views: bool = False
    variants: bool = True
    average: float = 0.0
    precision: str = "auto"
    compile: bool = False
    device: str = "auto"
    seed: int = 0
    save_every: int = 200
    log_every: int = 10

    def __post_init__(self) -> None:
        check_numbers(
            self,
            at_least_one="steps batch keypoints save_every log_every",
            positive="rate width margin factor",
            not_negative="weight_decay second_order geometric photometric seed",
            share="dropout average",
        )


@dataclass(frozen=True)
class DetectorSettings:
    """Training a keypoint network.

    Args:
        photographs: a folder of pictures; empty takes the bundled ones.
        exclude: photographs to hold out.
        steps: of the run.
        minutes: as many steps as fit into the time, instead of ``steps``.
        batch: pairs of views per step, over all ranks together.
        size: side of the views, in pixels.
        strength: of the change of viewpoint.
        rate: of Adam, falling to 0 in a straight line.
        imitation_weight: of the correlation with the Hessian's response.
        consistency_weight: of the correlation between the views.
        orientation, scale: also learn an orientation, a scale.
        device: ``auto``, ``cpu`` or ``cuda``.
        seed: of weights and views.
        save_every, log_every: in steps.
    """

    photographs: str = ""
    exclude: tuple[str, ...] = ()
    steps: int = 600
    minutes: float | None = None
    batch: int = 4
    size: int = 96
    strength: float = 0.7
    rate: float = 1e-2
    imitation_weight: float = 1.0
    consistency_weight: float = 1.0
    orientation: bool = False
    scale: bool = False
    device: str = "auto"
    seed: int = 0
    save_every: int = 200
    log_every: int = 10

    def __post_init__(self) -> None:
        check_numbers(
            self,
            at_least_one="steps batch size save_every log_every",
            positive="rate",
            not_negative="strength imitation_weight consistency_weight seed",
        )


@dataclass(frozen=True)
class JointSettings:
    """Training a detector and a descriptor through the patches between them.

    Args:
        photographs: a folder of pictures; empty takes the bundled ones.
        exclude: photographs to hold out.
        detector, descriptor: finished runs (or files of weights) to start from, instead of training them now.
        detector_steps, descriptor_steps: of the stages before.
        steps: of the joint stage.
        minutes: as many joint steps as fit into the time, instead of ``steps``.
        batch: pairs of views per step, over all ranks together.
        size: side of the views, in pixels.
        strength: of the change of viewpoint.
        keypoints: per view.
        patch_scale: half the side of the patches, in pixels.
        pair_weight: weight, for the detector, of the distance between the descriptors of a pair.
        stop_gradient: let only the first view's patches move.
        detector_rate, descriptor_rate: of the two optimisers, falling to 0 in a straight line.
        width: of the descriptor.
        device: ``auto``, ``cpu`` or ``cuda``.
        seed: of everything that is drawn.
        save_every, log_every: in steps.
    """

    photographs: str = ""
    exclude: tuple[str, ...] = ()
    detector: str = ""
    descriptor: str = ""
    detector_steps: int = 600
    descriptor_steps: int = 1000
    steps: int = 400
    minutes: float | None = None
    batch: int = 4
    size: int = 160
    strength: float = 0.7
    keypoints: int = 64
    patch_scale: float = 16.0
    pair_weight: float = 1.0
    stop_gradient: bool = False
    detector_rate: float = 1e-3
    descriptor_rate: float = 5e-4
    width: float = 0.5
    device: str = "auto"
    seed: int = 0
    save_every: int = 100
    log_every: int = 10

    def __post_init__(self) -> None:
        check_numbers(
            self,
            at_least_one="detector_steps descriptor_steps steps batch size keypoints save_every log_every",
            positive="patch_scale width detector_rate descriptor_rate",
            not_negative="strength pair_weight seed",
        )
