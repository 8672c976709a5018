"""Hypergradients: the derivative of a validation loss with respect to what the training loss was augmented with.

Owns: the one-step (or k-step) unrolled and the implicit form, and the recipe that trains ranges by them.
Must not: know what the hyperparameters are; a loss is a function of the network's parameters that closes over them.
Read next: ``density.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from pellucid.errors import invalid
from pellucid.learn.classifier import cosine, network_for
from pellucid.learn.data import Batches, Task
from pellucid.learn.ranges import numbers_of
from pellucid.learn.settings import Learning, Settings
from pellucid.pipeline import Pipeline
from pellucid.random import Key
from pellucid.training import TrainState, World, average_gradients

__all__ = ["bilevel", "implicit_hypergradient", "unrolled_hypergradient"]

Weights: TypeAlias = Mapping[str, Tensor]
Loss: TypeAlias = Callable[[Weights], Tensor]


def unrolled_hypergradient(
    inner: Loss | Sequence[Loss], outer: Loss, weights: Weights, hyper: Sequence[Tensor], *, rate: float
) -> tuple[Tensor, ...]:
    """Differentiate the outer loss after one gradient step on the inner loss, or after one per inner loss given.

    With theta' = theta - rate * d inner(theta, phi) / d theta, this is d outer(theta', phi) / d phi, exactly.

    Args:
        inner: the training loss as a function of the weights; it closes over ``hyper``. A sequence is unrolled in order.
        outer: the validation loss as a function of the weights.
        weights: where the step starts, by name; all of them require gradients.
        hyper: what to differentiate with respect to.
        rate: of the gradient step.

    Returns:
        One gradient per entry of ``hyper``; zeros where it has no influence.

    Source:
        Liu, Simonyan, Yang: "DARTS: differentiable architecture search", ICLR 2019, eq. 6, by double backward instead of its
        finite difference; on a quadratic it agrees with the closed form (``tests/learn/test_bilevel.py``).
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
    Hessian-vector product per term and no memory of the way to the minimum.

    Args:
        inner, outer, weights, hyper: as in :func:`unrolled_hypergradient`; ``weights`` should (nearly) minimise ``inner``.
        rate: of the series; it converges for 0 < rate < 2 / (largest eigenvalue of H) where H is positive.
        terms: of the series. One term is the unrolled step taken at the minimum.

    Source:
        Lorraine, Vicol, Duvenaud: "Optimizing millions of hyperparameters by implicit differentiation", AISTATS 2020.
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


def bilevel(task: Task, augment: Pipeline, settings: Settings, world: World) -> Learning:
    """Train the network on augmented images, and the ranges on the loss of held-out images after a (virtual) step.

    The unrolled or implicit step is one of plain gradient descent on the same batch; the network itself is trained by AdamW.
    """
    if task.x_held.shape[0] == 0:
        raise invalid("held", expected="held-out images for the outer loss", got=0, fix="For example --held 200.")
    net = network_for(task, seed=settings.seed).train()
    weights = dict(net.named_parameters())
    hyper = list(augment.parameters())
    optimizer = torch.optim.AdamW(net.parameters(), settings.rate, weight_decay=settings.weight_decay)
    ranges = torch.optim.Adam(hyper, settings.range_rate)
    inner_rows = Batches(task.x.shape[0], settings.batch, settings.seed, world)
    outer_rows = Batches(task.x_held.shape[0], settings.batch, settings.seed + 1, world)
    outer_loss = torch.zeros(())

    def loss(at: Weights, images: Tensor, labels: Tensor) -> Tensor:
        # Batch statistics as in training; the running ones are not to be changed by a virtual step.
        buffers = {name: buffer.clone() for name, buffer in net.named_buffers()}
        return F.cross_entropy(functional_call(net, {**at, **buffers}, (images,)), labels)

    def step(index: int) -> dict[str, float | Tensor]:
        nonlocal outer_loss
        rows = inner_rows(index)
        images, labels, key = task.x[rows], task.y[rows], Key(settings.seed, index)
        if index % settings.every == 0:
            held = outer_rows(index // settings.every)

            def inner_at(place: int) -> Loss:
                chosen = inner_rows(place)
                return lambda at: loss(at, augment(task.x[chosen], key=Key(settings.seed, place)), task.y[chosen])

            def outer(at: Weights) -> Tensor:
                nonlocal outer_loss
                value = loss(at, task.x_held[held], task.y_held[held])
                outer_loss = value.detach()
                return value

            ahead = settings.unrolled_steps if settings.hypergradient == "unrolled" else 1
            inner = [inner_at(index + i) for i in range(ahead)]
            slopes = _hypergradient(inner, outer, weights, hyper, settings)
            for parameter, slope in zip(hyper, slopes, strict=True):
                parameter.grad = slope
            average_gradients(hyper, world)
            ranges.step()
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * cosine(index, settings.steps)
        with torch.no_grad():
            augmented = augment(images, key=key)
        value = F.cross_entropy(net(augmented), labels)
        optimizer.zero_grad()
        value.backward()
        average_gradients(net.parameters(), world)
        optimizer.step()
        return {"loss": value.detach(), "outer_loss": outer_loss, **numbers_of(augment)}

    state = TrainState({"net": net, "augment": augment}, {"optimizer": optimizer, "ranges": ranges})
    return Learning(step, state, augment, net)


def _hypergradient(
    inner: Sequence[Loss], outer: Loss, weights: Weights, hyper: Sequence[Tensor], settings: Settings
) -> tuple[Tensor, ...]:
    if settings.hypergradient == "unrolled":
        return unrolled_hypergradient(inner, outer, weights, hyper, rate=settings.inner_rate)
    return implicit_hypergradient(inner[0], outer, weights, hyper, rate=settings.inner_rate, terms=settings.terms)
