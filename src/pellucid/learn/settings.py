"""The settings that all recipes share, and the parts of a training that a recipe passes to the loop.

Owns: `Settings` with defaults that were chosen on scikit-learn's digits, and `Learning`.
Must not: train, or know a recipe's own settings, which are in the recipe's file.
Read next: ``augerino.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from pellucid.training import RunSettings, TrainState
from pellucid.training.settings import Amount, Count, Number, Positive

__all__ = ["Learning", "Settings"]


@dataclass(frozen=True)
class Settings(RunSettings):
    """The settings that every recipe has, in a TOML file or on the command line.

    Args:
        images: number of training images.
        steps: optimiser steps of the network.
        batch: images per step, over all ranks.
        rate: the network's learning rate (AdamW, to 0 along half a cosine).
        weight_decay: weight decay of the network.
        range_rate: the learning rate of the ranges (Adam), in their unbounded coordinates.
        held: images held out of the training set (the outer loss of bilevel).

    Example:
        >>> from pellucid.learn import Settings
        >>> Settings(images=100).images
        100
    """

    images: Count = 500
    rate: Positive = 3e-3
    weight_decay: Amount = 1e-4
    range_rate: Positive = 0.05
    held: Number = 0


@dataclass(frozen=True)
class Learning:
    """The parts of a recipe that the loop needs, and that hold the results at the end.

    Args:
        step: does one step and returns the numbers to log.
        state: the objects that a checkpoint holds.
        augment: the augmentation that learns.
        net: the network that is trained with it, or None if the recipe only searches.

    Example:
        >>> from pellucid.learn import Learning
        >>> from pellucid.training import TrainState
        >>> augment = pellucid.Pipeline([pellucid.RandomRotation(pellucid.Learnable(10.0))])
        >>> Learning(lambda number: {"loss": 0.0}, TrainState({"augment": augment}), augment, net=None).step(0)
        {'loss': 0.0}
    """

    step: Callable[[int], Mapping[str, float | Tensor]]
    state: TrainState
    augment: nn.Module
    net: nn.Module | None
