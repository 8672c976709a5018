"""What a run may be told, in a TOML file or on the command line.

Owns: names, defaults and ranges.
Must not: do anything.
Read next: ``descriptor.py``, ``detector.py``, ``joint.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.errors import invalid

__all__ = ["DescriptorSettings"]


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
        for name in ("steps", "batch", "keypoints", "save_every", "log_every"):
            if getattr(self, name) < 1:
                raise invalid(name, expected="at least 1", got=getattr(self, name))
        for name in ("rate", "width", "margin", "factor"):
            if not getattr(self, name) > 0:
                raise invalid(name, expected="a positive number", got=getattr(self, name))
        for name in ("weight_decay", "second_order", "geometric", "photometric", "seed"):
            if not getattr(self, name) >= 0:
                raise invalid(name, expected="a number that is not negative", got=getattr(self, name))
        for name in ("dropout", "average"):
            if not 0 <= getattr(self, name) < 1:
                raise invalid(name, expected="in [0, 1)", got=getattr(self, name))
