"""TeachAugment: an adversarial augmenter, limited by a teacher that must still recognise the pictures.

Owns: the augmenter's objective, the teacher's running average, and the recipe.
Must not: change the network's training other than by augmented images.
Read next: ``run.py``.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from pellucid.learn.classifier import Student
from pellucid.learn.data import Task
from pellucid.learn.ranges import numbers_of
from pellucid.learn.settings import Learning, Settings
from pellucid.pipeline import Pipeline
from pellucid.training import TrainState, World, descend
from pellucid.training.settings import Amount, Count, Share

__all__ = ["TeachSettings", "follow", "teach", "teach_losses"]


def teach_losses(
    student: Float[Tensor, "b k"], teacher: Float[Tensor, "b k"], labels: Int64[Tensor, "b"], *, caution: float = 1.0
) -> Float[Tensor, "b"]:
    """Return the augmenter's loss, per sample: low where the teacher still recognises a picture and the student does not.

    It is ``caution`` times the teacher's cross-entropy plus -log(1 - p), with p the student's probability of the right class. It is
    bounded below, and saturates once the student is wrong, so that destroying a picture gains nothing.

    Args:
        student: the student's logits.
        teacher: the teacher's logits.
        labels: the right classes.
        caution: weight of the teacher's loss, at least 0.

    Returns:
        The losses, at least 0.

    Gradient:
        student, teacher: exact.
    Source:
        Suzuki: "TeachAugment: data augmentation optimization using teacher knowledge", CVPR 2022, with its non-saturating form.

    Example:
        >>> from pellucid.learn import teach_losses
        >>> wrong, right = torch.tensor([[0.0, 9.0]]), torch.tensor([[9.0, 0.0]])
        >>> labels = torch.tensor([0])
        >>> bool(teach_losses(wrong, right, labels) < teach_losses(right, right, labels))
        True
    """
    logs = F.log_softmax(student, 1)
    others = logs.masked_fill(F.one_hot(labels, student.shape[1]).bool(), -torch.inf)
    # log(1 - p) as the log-sum-exp of the other classes: nothing cancels where p is nearly 1.
    return caution * F.cross_entropy(teacher, labels, reduction="none") - torch.logsumexp(others, 1)


def follow(teacher: nn.Module, student: nn.Module, momentum: float) -> None:
    """Move the teacher's weights and buffers to a running average of the student's.

    Args:
        teacher: changed in place.
        student: a network of the same shapes.
        momentum: the share of the teacher that stays, in [0, 1].

    Example:
        >>> from pellucid.learn import follow
        >>> teacher, student = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
        >>> follow(teacher, student, momentum=0.0)
        >>> torch.equal(teacher.weight, student.weight)
        True
    """
    with torch.no_grad():
        for mine, other in zip(teacher.parameters(), student.parameters(), strict=True):
            mine.lerp_(other, 1.0 - momentum)
        for kept, new in zip(teacher.buffers(), student.buffers(), strict=True):
            if kept.is_floating_point():
                kept.lerp_(new, 1.0 - momentum)
            else:
                kept.copy_(new)


@dataclass(frozen=True)
class TeachSettings(Settings):
    """The settings of ``learn("teach")``.

    Args:
        caution: weight of the teacher's loss against the student's.
        augmenter_every: network steps per step of the ranges.
        momentum: momentum of the teacher's running average.

    Example:
        >>> from pellucid.learn import TeachSettings
        >>> TeachSettings(caution=5.0).momentum
        0.99
    """

    caution: Amount = 10.0
    augmenter_every: Count = 4
    momentum: Share = 0.99


def teach(task: Task, augment: Pipeline, settings: TeachSettings, world: World) -> Learning:
    """Train the network on augmented images and the augmenter against it; the teacher averages the network's weights."""
    student = Student(task, settings, world)
    net = student.net
    teacher = copy.deepcopy(net).eval().requires_grad_(False)
    ranges = torch.optim.Adam(augment.parameters(), settings.range_rate)

    def adversarial(augmented: Tensor, labels: Tensor) -> Tensor:
        net.eval()  # judge the student in evaluation mode, without changing its statistics
        losses = teach_losses(net(augmented), teacher(augmented), labels, caution=settings.caution)
        net.train()
        return losses

    def step(index: int) -> dict[str, float | Tensor]:
        objective = torch.zeros(())
        if index % settings.augmenter_every == 0:
            images, labels, key = student.batch(index)
            objective = augment.expected(lambda augmented: adversarial(augmented, labels), images, key=key)
            descend(objective, ranges, world=world)
        loss = student.step(index, augment)
        # Early averages would keep too much of the initial weights, so the first steps use less momentum.
        follow(teacher, net, min(settings.momentum, (1 + index) / (10 + index)))
        return {"loss": loss, "objective": objective.detach(), **numbers_of(augment)}

    state = TrainState({"net": net, "teacher": teacher, "augment": augment}, {"optimizer": student.optimizer, "ranges": ranges})
    return Learning(step, state, augment, net)
