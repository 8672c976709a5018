"""Weakening: many operations per picture at first, few at the end, at the cost of any fixed policy.

Owns: the choice among several pipelines by the step of the training.
Must not: train, or count steps; the loop passes the step, so that a run resumes exactly.
Read next: ``run.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from pellucid.core.arguments import whole_number
from pellucid.errors import invalid
from pellucid.pipeline import Pipeline
from pellucid.policy import RandAugment
from pellucid.random import Key
from pellucid.transforms.base import Transform

__all__ = ["Weakening"]


class Weakening(nn.Module):
    """Augment strongly at first and weakly at the end: each of several pipelines serves for an equal part of the training.

    While the learning rate is high, a network learns features that survive strong changes. While it falls, the network adapts to
    pictures that look more and more like those of the test. `Learned augmentation, measured` says what this gains over
    `policy.RandAugment`.

    Args:
        steps: how many steps the training has, at least 1.
        stages: pipelines or transforms, from the first to the last; by default RandAugment of 4, 3, 2 and 1 operations, for
            pictures (B, C, H, W), uint8 or floats in [0, 1].

    The ``state_dict`` holds the pipelines' parameters. The step comes from the key, so a training that resumes goes on exactly.

    Gradient:
        as the pipelines'.
    Errors:
        InvalidArgument for no stage, for steps below 1, and for a step outside of the training.
    Source:
        He, Xie, Zhang, Zhang: "Data augmentation revisited", 2019, train the last epochs on clean pictures. Here there are several
        stages, and the last has one operation.

    Example:
        >>> from pellucid.learn import Weakening
        >>> augment = Weakening(1000)
        >>> for step in range(2):
        ...     seen = augment(torch.rand(8, 3, 16, 16), key=pellucid.Key(0, step))
        >>> [augment.stage(step)[0].n for step in (0, 249, 250, 999)]
        [4, 4, 3, 1]
    """

    def __init__(self, steps: int, stages: Sequence[nn.Module | Transform] | None = None) -> None:
        super().__init__()
        self.steps = whole_number("steps", steps, 1, 1 << 40)
        given = [RandAugment(n) for n in (4, 3, 2, 1)] if stages is None else stages
        self.stages = nn.ModuleList(one if isinstance(one, nn.Module) else Pipeline([one]) for one in given)
        if not len(self.stages):
            raise invalid("stages", expected="at least one pipeline", got="none")

    def stage(self, step: int) -> nn.Module:
        """Return the pipeline that a step uses.

        Args:
            step: 0 to ``steps`` - 1.

        Returns:
            One of ``stages``.

        Errors:
            InvalidArgument for a step outside of the training.
        """
        if not 0 <= step < self.steps:
            raise invalid("step", expected=f"0 to {self.steps - 1}, as the training has {self.steps} steps", got=step)
        return self.stages[step * len(self.stages) // self.steps]

    def forward(self, images: Any, *, key: Key, **options: Any) -> Any:
        """Augment by the pipeline of the key's step; options and results are those of `Pipeline`'s call."""
        return self.stage(int(key.step))(images, key=key, **options)
