"""The settings of a learning run, and what a recipe hands to the loop.

Owns: `Settings` with the defaults that were chosen on scikit-learn's digits, and `Learning`.
Must not: train.
Read next: ``augerino.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from pellucid.errors import invalid
from pellucid.training import TrainState
from pellucid.training.settings import check_numbers

__all__ = ["Learning", "Settings"]


@dataclass(frozen=True)
class Settings:
    """What a run may be told, in a TOML file or on the command line.

    Args:
        images: how many training images.
        steps: optimiser steps of the network.
        batch: images per step, over all ranks.
        rate: the network's learning rate (AdamW, to 0 along half a cosine).
        weight_decay: of the network.
        range_rate: the learning rate of the ranges (Adam), in their unbounded coordinates.
        entropy: nats of training loss that one nat of entropy is worth (Augerino).
        policy_entropy: what one nat of entropy per picture is worth to the policy search (density).
        every: network steps per step of the ranges (bilevel).
        hypergradient: ``unrolled`` or ``implicit`` (bilevel).
        unrolled_steps: how many steps, on the coming batches, are unrolled (bilevel).
        inner_rate: step size of the unrolled steps, and of the Neumann series: small, so that the loss is nearly linear along
            the step (bilevel).
        terms: of the Neumann series (bilevel).
        pairs: sub-policies of the search (density); 0 takes every pair of operations.
        content: weight of the classification term against the critic (density).
        critic_steps: steps of the critic per step of the policy (density).
        penalty: weight of the gradient penalty (density).
        caution: weight of the teacher's loss against the student's (teach).
        augmenter_every: network steps per step of the ranges (teach).
        momentum: of the teacher's running average (teach).
        held: images held out of the training set (the outer loss of bilevel).
        seed: of everything.
    """

    images: int = 500
    steps: int = 1000
    batch: int = 64
    rate: float = 3e-3
    weight_decay: float = 1e-4
    range_rate: float = 0.05
    entropy: float = 0.02
    policy_entropy: float = 0.1
    every: int = 1
    hypergradient: str = "unrolled"
    unrolled_steps: int = 1
    inner_rate: float = 0.02
    terms: int = 5
    pairs: int = 0
    content: float = 0.5
    critic_steps: int = 1
    penalty: float = 10.0
    caution: float = 10.0
    augmenter_every: int = 4
    momentum: float = 0.99
    held: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_numbers(
            self,
            at_least_one="images steps batch every unrolled_steps terms critic_steps augmenter_every",
            positive="rate range_rate inner_rate",
            not_negative="weight_decay entropy policy_entropy pairs content penalty caution held seed",
            share="momentum",
        )
        if self.hypergradient not in ("unrolled", "implicit"):
            raise invalid("hypergradient", expected="'unrolled' or 'implicit'", got=repr(self.hypergradient))


@dataclass(frozen=True)
class Learning:
    """What a recipe builds: everything the loop needs, and what is left in the end.

    Args:
        step: does one step, says what to log.
        state: what a checkpoint holds.
        augment: the augmentation that learns.
        net: the network that was trained with it, or None where the recipe only searches.
    """

    step: Callable[[int], Mapping[str, float | Tensor]]
    state: TrainState
    augment: nn.Module
    net: nn.Module | None
