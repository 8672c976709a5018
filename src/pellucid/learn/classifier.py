"""The small network that every learning command trains, and its accuracy.

Owns: `SmallNet`, the `Student` that trains one on augmented images, training without learning the augmentation, and accuracy.
Must not: train an augmentation.
Read next: ``augerino.py``.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from pellucid.learn.data import Batches, Task
from pellucid.learn.settings import Learning, Settings
from pellucid.random import Key
from pellucid.training import TrainState, World, descend, set_rate

__all__ = ["SmallNet", "Student", "accuracy", "cosine", "fixed", "network_for"]


class SmallNet(nn.Module):
    """Three 3x3 convolutions, each followed by 2x2 pooling, and a linear layer: 29,000 parameters for 28 x 28 grey pictures.

    Args:
        shape: (C, H, W) of the images.
        classes: the number of classes.
        mean, std: mean and deviation of the training images; the network normalises its input itself, after augmentation.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, shape: tuple[int, int, int], classes: int, *, mean: float, std: float) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("std", torch.tensor(std))
        channels, height, inner = shape[0], shape[1], []
        rows, columns = height, shape[2]
        for out in (16, 32, 64):
            # Pool before the normalisation, which then does a quarter of the work.
            inner += [nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.MaxPool2d(2), nn.BatchNorm2d(out), nn.ReLU()]
            channels, rows, columns = out, rows // 2, columns // 2
        self.features = nn.Sequential(*inner, nn.Flatten())
        self.head = nn.Linear(channels * rows * columns, classes)
        self.features.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k"]:
        """Return the logits."""
        logits: Tensor = self.head(self.features((images - self.mean) / self.std))
        return logits


def network_for(images: Float[Tensor, "n c h w"], classes: int, *, seed: int) -> SmallNet:
    """Make a network for images of this size; its weights depend on ``seed``, and the global generator keeps its state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        channels, height, width = images.shape[1:]
        net = SmallNet((channels, height, width), classes, mean=float(images.mean()), std=float(images.std()))
    return net.to(images.device)


class Student:
    """The network of a task and its optimiser: AdamW on the cross-entropy of augmented images.

    Args:
        task: the labelled pictures, and how they are split.
        settings: the settings of the run.
        world: the ranks; each takes its own part of a batch.
    """

    def __init__(self, task: Task, settings: Settings, world: World) -> None:
        self.task, self.settings, self.world = task, settings, world
        self.net = network_for(task.x, task.classes, seed=settings.seed).train()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), settings.rate, weight_decay=settings.weight_decay)
        self.rows = Batches(task.x.shape[0], settings.batch, settings.seed, world)

    def batch(self, index: int) -> tuple[Float[Tensor, "b c h w"], Int64[Tensor, "b"], Key]:
        """Set the step's learning rate, and return the images, the labels and the key of the step's draws."""
        set_rate(self.optimizer, self.settings.rate * cosine(index, self.settings.steps))
        rows = self.rows(index)
        return self.task.x[rows], self.task.y[rows], Key(self.settings.seed, index)

    def step(self, index: int, augment: nn.Module | None) -> Float[Tensor, ""]:
        """Train on one batch under the current augmentation, and return the loss."""
        images, labels, key = self.batch(index)
        if augment is not None:
            with torch.no_grad():
                images = augment(images, key=key)
        loss = F.cross_entropy(self.net(images), labels)
        descend(loss, self.optimizer, world=self.world)
        return loss.detach()


def fixed(task: Task, augment: nn.Module | None, settings: Settings, world: World) -> Learning:
    """Train the network on images augmented by a fixed pipeline or policy, or on plain images."""
    student = Student(task, settings, world)

    def step(index: int) -> dict[str, float | Tensor]:
        return {"loss": student.step(index, augment)}

    state = TrainState({"net": student.net}, {"optimizer": student.optimizer})
    return Learning(step, state, nn.Identity() if augment is None else augment, student.net)


def accuracy(net: nn.Module, images: Float[Tensor, "b c h w"], labels: Int64[Tensor, "b"]) -> float:
    """Return the share of images that the network classifies correctly in evaluation mode."""
    training = net.training
    net.eval()
    with torch.no_grad():
        parts = zip(images.split(500), labels.split(500), strict=True)
        right = sum(int((net(part).argmax(1) == truth).sum()) for part, truth in parts)
    net.train(training)
    return right / max(1, images.shape[0])


def cosine(step: int, total: int) -> float:
    """The learning rate's factor: from 1 to 0 along half a cosine."""
    return 0.5 + 0.5 * math.cos(math.pi * step / total)
