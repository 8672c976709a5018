"""Density matching: search a policy whose pictures a critic takes for real ones and a classifier still recognises.

Owns: the critic with its gradient penalty, and the recipe that searches a policy.
Must not: train the final network; any training can use the policy.
Read next: ``teach.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.learn.data import Batches, Task
from pellucid.learn.ranges import numbers_of
from pellucid.learn.settings import Learning, Settings
from pellucid.pipeline import Pipeline
from pellucid.random import Key
from pellucid.training import TrainState, World, descend
from pellucid.training.settings import Amount, Count, Number

__all__ = ["Critic", "DensitySettings", "density", "gradient_penalty"]


class Critic(nn.Module):
    """A small network with two heads: how real a picture looks (unbounded), and its class (logits).

    It has no batch normalisation: the penalty concerns the gradient at one picture, which must not depend on other pictures.

    Args:
        channels: the pictures' channels.
        classes: the number of classes.
        mean, std: mean and deviation of the training images.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int, classes: int, *, mean: float, std: float, width: int = 16) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("std", torch.tensor(std))
        self.features = nn.Sequential(
            nn.Conv2d(channels, width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(2 * width, 4 * width, 3, padding=1),
            nn.LeakyReLU(0.2),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
        )
        self.realness = nn.Linear(64 * width, 1)
        self.logits = nn.Linear(64 * width, classes)

    def forward(self, images: Float[Tensor, "b c h w"]) -> tuple[Float[Tensor, "b"], Float[Tensor, "b k"]]:
        """Return (realness, logits)."""
        features = self.features((images - self.mean) / self.std)
        return self.realness(features)[:, 0], self.logits(features)


def gradient_penalty(
    realness: Callable[[Tensor], Tensor], real: Float[Tensor, "b c h w"], fake: Float[Tensor, "b c h w"], share: Float[Tensor, "b"]
) -> Float[Tensor, ""]:
    """Return the mean of (|gradient of realness| - 1)^2 at points between real and fake pictures.

    Args:
        realness: maps pictures to (B,) numbers.
        real, fake: pictures; no gradient flows to them.
        share: the share of ``real`` in each point, in (0, 1).

    Returns:
        The penalty, at least 0.

    Gradient:
        to everything ``realness`` depends on, through a double backward pass.
    Source:
        Gulrajani, Ahmed, Arjovsky, Dumoulin, Courville: "Improved training of Wasserstein GANs", NeurIPS 2017.

    Example:
        >>> from pellucid.learn import gradient_penalty
        >>> real, fake = torch.ones(2, 1, 2, 2), torch.zeros(2, 1, 2, 2)
        >>> gradient_penalty(lambda x: x.sum((1, 2, 3)), real, fake, torch.rand(2))  # a gradient of length 2
        tensor(1.)
    """
    share = share[:, None, None, None]
    between = (share * real + (1.0 - share) * fake).detach().requires_grad_()
    (slope,) = torch.autograd.grad(realness(between).sum(), between, create_graph=True)
    # The square root has an infinite slope at zero, which a dead critic's gradient reaches.
    norm = torch.sqrt(slope.square().sum((1, 2, 3)) + 1e-12)
    return (norm - 1.0).square().mean()


@dataclass(frozen=True)
class DensitySettings(Settings):
    """The settings of ``learn("density")``.

    Args:
        pairs: number of sub-policies in the search; 0 takes every pair of operations.
        policy_entropy: weight of the policy's entropy (nats per picture).
        content: weight of the classification term against the critic.
        critic_steps: steps of the critic per step of the policy.
        penalty: weight of the gradient penalty.

    Example:
        >>> from pellucid.learn import DensitySettings
        >>> DensitySettings(pairs=8).penalty
        10.0
    """

    pairs: Number = 0
    policy_entropy: Amount = 0.1
    content: Amount = 0.5
    critic_steps: Count = 1
    penalty: Amount = 10.0


def density(task: Task, augment: Pipeline, settings: DensitySettings, world: World) -> Learning:
    """Move the policy so that augmented images look like other images of the training set and keep their class.

    Each step takes two different batches: the policy changes the first, and the critic compares it with the second. The identity
    matches every density best, so without the reward for entropy, magnitudes and gates would shrink as long as the search runs.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        critic = Critic(task.x.shape[1], task.classes, mean=float(task.x.mean()), std=float(task.x.std())).to(task.x.device)
    judge = torch.optim.Adam(critic.parameters(), 1e-3, betas=(0.0, 0.99))
    ranges = torch.optim.Adam(augment.parameters(), settings.range_rate, betas=(0.5, 0.99))
    changed = Batches(task.x.shape[0], settings.batch, settings.seed, world)
    compared = Batches(task.x.shape[0], settings.batch, settings.seed + 1, world)

    def step(index: int) -> dict[str, float | Tensor]:
        first, second = changed(index), compared(index)
        fake = augment(task.x[first], key=Key(settings.seed, index))
        real, labels = task.x[second], task.y[second]
        for _ in range(settings.critic_steps):
            fake_realness, _ = critic(fake.detach())
            real_realness, logits = critic(real)
            distance = real_realness.mean() - fake_realness.mean()
            # The loop seeds the generator anew at every step.
            share = torch.rand(min(real.shape[0], fake.shape[0])).to(real)
            penalty = gradient_penalty(lambda x: critic(x)[0], real[: share.shape[0]], fake[: share.shape[0]], share)
            loss = -distance + settings.penalty * penalty + F.cross_entropy(logits, labels)
            descend(loss, judge, world=world)
        realness, logits = critic(fake)
        content = F.cross_entropy(logits, task.y[first])
        # Each picture takes one branch, so the reward is divided by the number of branches.
        spread = torch.stack(list(augment.entropy().values())).sum() / len(augment.steps[0].transform.transforms)  # type: ignore[attr-defined]
        objective = -realness.mean() + settings.content * content - settings.policy_entropy * spread.to(content)
        descend(objective, ranges, world=world)
        return {"loss": loss.detach(), "distance": distance.detach(), "content": content.detach(), **numbers_of(augment)}

    state = TrainState({"critic": critic, "augment": augment}, {"judge": judge, "ranges": ranges})
    return Learning(step, state, augment, None)
