"""Training with an augmentation that does not learn: the arm that every learned one is compared with.

Owns: the recipe.
Must not: train the augmentation.
Read next: ``run.py``.
"""

from __future__ import annotations

from torch import Tensor, nn

from pellucid.learn.classifier import Student
from pellucid.learn.data import Task
from pellucid.learn.settings import Learning, Settings
from pellucid.training import TrainState, World

__all__ = ["fixed"]


def fixed(task: Task, augment: nn.Module | None, settings: Settings, world: World) -> Learning:
    """Train the network on images augmented by a pipeline or policy as it is, or on plain ones."""
    student = Student(task, settings, world)

    def step(index: int) -> dict[str, float | Tensor]:
        return {"loss": student.step(index, augment)}

    state = TrainState({"net": student.net}, {"optimizer": student.optimizer})
    return Learning(step, state, nn.Identity() if augment is None else augment, student.net)
