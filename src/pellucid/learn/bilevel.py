"""Hypergradients: the derivative of a validation loss with respect to the augmentation's parameters in the training loss.

Owns: the unrolled form (one step or several), the implicit form, and the recipe that trains ranges by them.
Must not: know the meaning of the hyperparameters; a loss is a function of the network's weights, and closes over them.
Read next: ``density.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from pellucid.errors import invalid
from pellucid.learn.classifier import Student
from pellucid.learn.data import Batches, Task
from pellucid.learn.ranges import numbers_of
from pellucid.learn.settings import Learning, Settings
from pellucid.pipeline import Pipeline
from pellucid.random import Key
from pellucid.training import TrainState, World, average_gradients
from pellucid.training.settings import Count, Positive

__all__ = ["BilevelSettings", "bilevel", "implicit_hypergradient", "unrolled_hypergradient"]

Weights: TypeAlias = Mapping[str, Tensor]
Loss: TypeAlias = Callable[[Weights], Tensor]


def unrolled_hypergradient(
    inner: Loss | Sequence[Loss], outer: Loss, weights: Weights, hyper: Sequence[Tensor], *, rate: float
) -> tuple[Tensor, ...]:
    """Differentiate the outer loss after a gradient step on the inner loss, or after a step on each of several inner losses.

    With theta' = theta - rate * d inner(theta, phi) / d theta, this is d outer(theta', phi) / d phi, exactly.

    Args:
        inner: the training loss as a function of the weights; it closes over ``hyper``. A sequence is unrolled in order.
        outer: the validation loss as a function of the weights.
        weights: the weights before the step, by name; all of them require gradients.
        hyper: the tensors to differentiate with respect to.
        rate: the step size.

    Returns:
        One gradient per entry of ``hyper``; zeros where it has no influence.

    Gradient:
        None: the results are gradients, and constants.

    Source:
        Liu, Simonyan, Yang: "DARTS: differentiable architecture search", ICLR 2019, eq. 6, by double backward instead of its
        finite difference; on a quadratic it agrees with the closed form (``tests/learn/test_bilevel.py``).

    Example:
        >>> from pellucid.learn import unrolled_hypergradient
        >>> phi, weights = torch.tensor(2.0, requires_grad=True), {"w": torch.tensor(1.0, requires_grad=True)}
        >>> def inner(now):
        ...     return phi * now["w"]  # its step is w - rate * phi
        >>> unrolled_hypergradient(inner, lambda now: now["w"], weights, [phi], rate=0.5)
        (tensor(-0.5000),)
    """
    losses = [inner] if callable(inner) else list(inner)
    now = dict(weights)
    for loss in losses:
        slopes = torch.autograd.grad(loss(now), list(now.values()), create_graph=True, materialize_grads=True)
        now = {name: weight - rate * slope for (name, weight), slope in zip(now.items(), slopes, strict=True)}
    return torch.autograd.grad(outer(now), list(hyper), allow_unused=True, materialize_grads=True)


def implicit_hypergradient(
    inner: Loss, outer: Loss, weights: Weights, hyper: Sequence[Tensor], *, rate: float, terms: int
) -> tuple[Tensor, ...]:
    """Differentiate the outer loss at a minimum of the inner loss, by the implicit function theorem.

    With H the Hessian of the inner loss, d outer / d phi - (d outer / d theta) H^-1 (d2 inner / d theta d phi), where
    H^-1 v is approximated by the Neumann series rate * sum over j < terms of (1 - rate H)^j v. It costs one
    Hessian-vector product per term, and does not store the optimisation that led to the minimum.

    Args:
        inner, outer, weights, hyper: as in :func:`unrolled_hypergradient`; ``weights`` should (nearly) minimise ``inner``.
        rate: the step size of the series, which converges for 0 < rate < 2 / (largest eigenvalue of H) if H is positive.
        terms: how many terms of the series are summed. One term is the unrolled step at the minimum.

    Returns:
        One gradient per entry of ``hyper``; zeros where it has no influence.

    Gradient:
        None: the results are gradients, and constants.

    Errors:
        InvalidArgument for ``terms`` below 1.

    Source:
        Lorraine, Vicol, Duvenaud: "Optimizing millions of hyperparameters by implicit differentiation", AISTATS 2020.

    Example:
        >>> from pellucid.learn import implicit_hypergradient
        >>> phi, weights = torch.tensor(2.0, requires_grad=True), {"w": torch.tensor(2.0, requires_grad=True)}
        >>> def inner(now):
        ...     return (now["w"] - phi) ** 2 / 2  # its minimum is phi
        >>> implicit_hypergradient(inner, lambda now: now["w"], weights, [phi], rate=1.0, terms=1)
        (tensor(1.),)
    """
    if terms < 1:
        raise invalid("terms", expected="at least 1", got=terms)
    at = list(weights.values())
    value = outer(weights)
    pull = torch.autograd.grad(value, at, retain_graph=True, materialize_grads=True)
    direct = torch.autograd.grad(value, list(hyper), allow_unused=True, materialize_grads=True)
    slopes = torch.autograd.grad(inner(weights), at, create_graph=True, materialize_grads=True)
    total = power = pull
    for _ in range(terms - 1):
        curved = torch.autograd.grad(slopes, at, power, retain_graph=True, materialize_grads=True)
        power = tuple(p - rate * c for p, c in zip(power, curved, strict=True))
        total = tuple(t + p for t, p in zip(total, power, strict=True))
    back = torch.autograd.grad(slopes, list(hyper), [rate * t for t in total], allow_unused=True, materialize_grads=True)
    return tuple(d - b for d, b in zip(direct, back, strict=True))


@dataclass(frozen=True)
class BilevelSettings(Settings):
    """The settings of ``learn("bilevel")``.

    Args:
        every: network steps per step of the ranges.
        hypergradient: ``unrolled`` or ``implicit``.
        unrolled_steps: how many steps, on the next batches, are unrolled.
        inner_rate: step size of the unrolled steps, and of the Neumann series: small, so that the loss is nearly linear along
            the step.
        terms: how many terms of the Neumann series are summed.

    Example:
        >>> from pellucid.learn import BilevelSettings
        >>> BilevelSettings(hypergradient="implicit").terms
        5
    """

    every: Count = 1
    hypergradient: Literal["unrolled", "implicit"] = "unrolled"
    unrolled_steps: Count = 1
    inner_rate: Positive = 0.02
    terms: Count = 5


def bilevel(task: Task, augment: Pipeline, settings: BilevelSettings, world: World) -> Learning:
    """Train the network on augmented images, and the ranges on the loss of held-out images after a (virtual) step.

    The unrolled or implicit step is plain gradient descent on the same batch; the network itself is trained by AdamW.
    """
    if task.x_held.shape[0] == 0:
        raise invalid("held", expected="held-out images for the outer loss", got=0, fix="For example --held 200.")
    student = Student(task, settings, world)
    net, hyper = student.net, list(augment.parameters())
    weights = dict(net.named_parameters())
    ranges = torch.optim.Adam(hyper, settings.range_rate)
    outer_rows = Batches(task.x_held.shape[0], settings.batch, settings.seed + 1, world)
    outer_loss = torch.zeros(())

    def loss(at: Weights, images: Tensor, labels: Tensor) -> Tensor:
        # Use batch statistics as in training, but on copies of the buffers: a virtual step must not change running statistics.
        buffers = {name: buffer.clone() for name, buffer in net.named_buffers()}
        return F.cross_entropy(functional_call(net, {**at, **buffers}, (images,)), labels)

    def inner_at(index: int) -> Loss:
        rows = student.rows(index)
        return lambda at: loss(at, augment(task.x[rows], key=Key(settings.seed, index)), task.y[rows])

    def step(index: int) -> dict[str, float | Tensor]:
        nonlocal outer_loss
        if index % settings.every == 0:
            held = outer_rows(index // settings.every)

            def outer(at: Weights) -> Tensor:
                nonlocal outer_loss
                value = loss(at, task.x_held[held], task.y_held[held])
                outer_loss = value.detach()
                return value

            at, rate = (outer, weights, hyper), settings.inner_rate
            if settings.hypergradient == "unrolled":
                ahead = [inner_at(index + i) for i in range(settings.unrolled_steps)]
                slopes = unrolled_hypergradient(ahead, *at, rate=rate)
            else:
                slopes = implicit_hypergradient(inner_at(index), *at, rate=rate, terms=settings.terms)
            for parameter, slope in zip(hyper, slopes, strict=True):
                parameter.grad = slope
            average_gradients(hyper, world)
            ranges.step()
        return {"loss": student.step(index, augment), "outer_loss": outer_loss, **numbers_of(augment)}

    state = TrainState({"net": net, "augment": augment}, {"optimizer": student.optimizer, "ranges": ranges})
    return Learning(step, state, augment, net)
