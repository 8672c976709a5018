"""What exact gradients buy: the noise of each estimator at one step, how far a hypergradient sees, and which labels survive.

Owns: the measurements and their tables.
Must not: learn an augmentation; it measures the gradients that would.
Read next: ``arms.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from pellucid import (
    Bernoulli,
    CenteredUniform,
    Learnable,
    Pipeline,
    RandomAffine,
    RandomBrightness,
    RandomContrast,
    RandomRotation,
    RandomSolarize,
    Uniform,
)
from pellucid.learn import unrolled_hypergradient
from pellucid.learn.classifier import Student, accuracy
from pellucid.learn.data import Pictures, Task, small_task
from pellucid.learn.settings import Settings
from pellucid.policy import RandAugment
from pellucid.random import Key
from pellucid.training import World
from pellucid_bench.learned.arms import ARMS, Bytes
from pellucid_bench.runs import Row, each

__all__ = ["KINDS", "as_markdown", "differences", "run"]

KINDS = ("estimators", "horizons", "labels")
"""What is measured."""
AFTER = 200
"""Steps of training before anything is measured, and after which the held-out loss is."""
_RATE = 0.02
"""Of the unrolled steps of gradient descent, as `BilevelSettings` has it."""
_SURE = 12.0
"""The raw number of a gate that is always open, within float32."""
_GATE, _RANGE = ("exact", "arm", "reinforce", "straight_through"), ("reparameterised", "boundary")
_KINDS = {
    "chance of a rotation": _GATE,
    "largest angle": _RANGE,
    "chance of brightness": _GATE,
    "largest brightness": _RANGE,
    "least threshold of solarising": _RANGE,
}
"""The numbers, in the order of the pipeline's parameters, and the estimators of each."""


def estimators(pictures: Pictures, seed: int, *, keys: int = 100, after: int = AFTER) -> list[Row]:
    """Every estimator of every number: gradients of the loss expected over draws, at one batch of one half-trained network."""
    student, _ = _trained(pictures, seed, _space(), after)
    images, labels, _ = student.batch(after)
    net = student.net.eval()  # statistics of the batch would move with the draws

    def losses(seen: Tensor) -> Tensor:
        return F.cross_entropy(net(seen), labels, reduction="none")

    def expected(augment: Pipeline) -> Tensor:
        with torch.no_grad():
            return torch.stack([losses(augment(images, key=Key(seed, index))).mean() for index in range(10 * keys)]).mean()

    plain = _space()
    gates = [place for place, kinds in enumerate(_KINDS.values()) if kinds is _GATE]
    oracle = differences(list(plain.parameters()), lambda: expected(plain), step=0.25)
    for place in gates:  # the expectation is linear in a probability: from never to always, times the slope p (1 - p) of p
        (oracle[place],) = differences(list(plain.parameters())[place : place + 1], lambda: expected(plain), step=_SURE)
        oracle[place] *= 2.0 * _SURE * 0.25
    found: list[Row] = []
    for turn in range(len(_GATE)):
        augment = _space(*(kinds[min(turn, len(kinds) - 1)] for kinds in _KINDS.values()))
        numbers = list(augment.parameters())
        slopes = torch.stack(
            [
                torch.stack(torch.autograd.grad(augment.expected(losses, images, key=Key(seed, index)), numbers))
                for index in range(keys)
            ]
        )
        for place, (number, kinds) in enumerate(_KINDS.items()):
            if turn < len(kinds):
                middle, spread = float(slopes[:, place].mean()), float(slopes[:, place].std())
                row = {"number": number, "estimator": kinds[turn], "mean": middle, "spread": spread, "keys": keys}
                found.append({**row, "oracle": float(oracle[place])})
    return found


def horizons(pictures: Pictures, seed: int, *, batches: int = 8, after: int = AFTER, runs: int = 2) -> list[Row]:
    """Hypergradients of 1, 5 and 20 unrolled steps, beside differences of the held-out loss: after these steps, after training on.

    In float64, without which the differences after one step are noise. Two are taken after the same steps: *near* by 1e-8,
    *wide* by as much as after training on. Pooling and rectifiers switch between them, and the gradient of a step jumps there.
    """
    augment = _ranges().double()
    student, task = _trained(pictures, seed, augment, after, held=1000)
    net, hyper = student.net, list(augment.parameters())
    weights = dict(net.named_parameters())
    state = {name: value.clone() for name, value in net.state_dict().items()}

    def loss(at: Any, images: Tensor, labels: Tensor) -> Tensor:
        buffers = {name: buffer.clone() for name, buffer in net.named_buffers()}
        return F.cross_entropy(functional_call(net, {**at, **buffers}, (images,)), labels)

    def outer(at: Any) -> Tensor:
        return loss(at, task.x_held, task.y_held)

    def inner(index: int) -> Any:
        rows = student.rows(index)
        return lambda at: loss(at, augment(task.x[rows], key=Key(seed, index)), task.y[rows])

    def descended(first: int, steps: int) -> Tensor:
        """The held-out loss after steps of gradient descent."""
        now: dict[str, Tensor] = dict(weights)
        for index in range(first, first + steps):
            slopes = torch.autograd.grad(inner(index)(now), list(now.values()))
            now = {
                name: (value - _RATE * slope).detach().requires_grad_()
                for (name, value), slope in zip(now.items(), slopes, strict=True)
            }
        with torch.no_grad():
            return outer(now)

    def trained(order: int) -> Tensor:
        """The held-out loss after training on, with batches and draws in another order."""
        again = Student(task, replace(student.settings, seed=order), World())
        again.net.to(torch.float64).load_state_dict(state)
        for index in range(after, 2 * after):
            again.step(index, augment)
        with torch.no_grad():
            return F.cross_entropy(again.net.eval()(task.x_held), task.y_held)

    found: list[Row] = []
    for steps in (1, 5, 20):
        slopes = [
            torch.stack(unrolled_hypergradient([inner(after + batch + i) for i in range(steps)], outer, weights, hyper, rate=_RATE))
            for batch in range(batches)
        ]
        near = differences(hyper, partial(descended, after, steps), step=1e-8)
        wide = torch.stack(
            [differences(hyper, partial(descended, after + batch, steps), step=1.0) for batch in range(batches // 4)]
        )
        found.append({"steps": steps, "slopes": torch.stack(slopes).tolist(), "near": near.tolist(), "wide": wide.tolist()})
    far = [differences(hyper, partial(trained, seed + order), step=1.0).tolist() for order in range(1, runs + 1)]
    return [{**row, "far": far} for row in found]


def labels(pictures: Pictures, seed: int, *, images: int = 10_000, steps: int = 1000) -> list[Row]:
    """What RandAugment leaves of labels: how well a network trained under it on many pictures reads test pictures under it."""
    task = small_task(pictures, min(images, len(pictures.x_train)), seed=seed)
    settings = Settings(images=images, steps=steps, seed=seed, batch=32, rate=3e-3, weight_decay=1e-4)
    net = ARMS["random"].train(task, settings).net
    assert net is not None
    found: list[Row] = []
    for n in range(5):
        seen = Bytes(RandAugment(n), seed=seed)(task.x_test, key=Key(seed, n))
        found.append({"operations": n, "accuracy": accuracy(net, seen, task.y_test)})
    return found


def differences(numbers: Sequence[Tensor], value: Callable[[], Tensor], *, step: float) -> Tensor:
    """Central differences of a value by numbers that it depends on, under the same draws."""
    slopes = []
    for number in numbers:
        ends = []
        for sign in (1.0, -1.0):
            with torch.no_grad():
                number += sign * step
            ends.append(value().double())
            with torch.no_grad():
                number -= sign * step
        slopes.append((ends[0] - ends[1]) / (2.0 * step))
    return torch.stack(slopes)


def _trained(pictures: Pictures, seed: int, augment: Pipeline, after: int, held: int = 0) -> tuple[Student, Task]:
    task = small_task(pictures, 500, held=held, seed=seed)
    if held:
        task = replace(task, x=task.x.double(), x_held=task.x_held.double())
    student = Student(task, Settings(images=500, steps=1000, seed=seed, batch=32, rate=3e-3, weight_decay=1e-4), World())
    student.net.to(task.x.dtype)
    for index in range(after):
        student.step(index, augment)
    return student, task


def _space(*kinds: str) -> Pipeline:
    rotated, angle, lit, light, threshold = kinds or ("exact", "reparameterised", "exact", "reparameterised", "reparameterised")

    def drawn(low: float | Learnable, high: float | Learnable, estimator: str) -> Uniform:
        return Uniform(low, high, estimator=estimator)

    gates = [Bernoulli(Learnable(0.5), estimator=estimator) for estimator in (rotated, lit)]
    return Pipeline(
        [
            RandomRotation(drawn(-30.0, Learnable(30.0, low=0.0, high=90.0), angle), p=gates[0]),
            RandomBrightness(drawn(0.6, Learnable(1.4, low=1.0, high=2.0), light), p=gates[1]),
            RandomSolarize(drawn(Learnable(0.5, low=0.0, high=1.0), 1.0, threshold)),
        ]
    )


def _ranges() -> Pipeline:
    def width(value: float, high: float) -> Learnable:
        return Learnable(value, low=0.0, high=high)

    return Pipeline(
        [
            RandomAffine(
                degrees=width(20.0, 180.0),
                translate=(width(0.1, 0.5), width(0.1, 0.5)),
                scale=CenteredUniform(1.0, width(0.2, 0.9)),
            ),
            RandomBrightness(CenteredUniform(1.0, width(0.3, 0.9))),
            RandomContrast(CenteredUniform(1.0, width(0.3, 0.9))),
        ]
    )


def run(pictures: Pictures, arm: str, seed: int, *, quick: bool = False) -> Row:
    """One of the measurements."""
    if arm == "labels":
        return {"found": labels(pictures, seed, **({"images": 100, "steps": 2} if quick else {}))}
    if arm == "estimators":
        return {"found": estimators(pictures, seed, **({"keys": 2, "after": 2} if quick else {}))}
    return {"found": horizons(pictures, seed, **({"batches": 4, "after": 2, "runs": 2} if quick else {}))}


def as_markdown(rows: Sequence[Row]) -> str:
    """The tables."""
    by = {arm: [row["found"] for row in rows if row["arm"] == arm] for arm in KINDS}
    lines = ["| number | estimator | mean / difference | spread of one step / difference |", "|---|---|---|---|"]
    for of_seeds in zip(*by["estimators"], strict=True):
        ratios = each([row["mean"] / row["oracle"] for row in of_seeds], ".2f")
        spreads = each([abs(row["spread"] / row["oracle"]) for row in of_seeds], ".1f")
        lines.append(f"| {of_seeds[0]['number']} | `{of_seeds[0]['estimator']}` | {ratios} | {spreads} |")
    lines += [
        "",
        f"| unrolled steps | one batch, near differences | one batch, the mean of {len(by['horizons'][0][0]['slopes'])} "
        f"| the mean, wide differences | the mean, differences of {AFTER} steps | these, in two orders |",
        "|---|---|---|---|---|---|",
    ]
    for of_seeds in zip(*by["horizons"], strict=True):
        found: list[list[float]] = [[], [], [], [], []]
        for row in of_seeds:
            slopes, near, wide, far = (torch.tensor(row[name], dtype=torch.float64) for name in ("slopes", "near", "wide", "far"))
            middle = slopes.mean(0)
            found[0].append(_cosine(slopes[0], near))
            found[1].append(mean(_cosine(one, middle) for one in slopes))
            found[2].append(_cosine(middle, wide.mean(0)))
            found[3].append(_cosine(middle, far.mean(0)))
            found[4].append(mean(_cosine(one, other) for place, one in enumerate(far) for other in far[:place]))
        cosines = " | ".join(each(values, form) for values, form in zip(found, (".4f", *("+.2f",) * 4), strict=True))
        lines.append(f"| {of_seeds[0]['steps']} | {cosines} |")
    if by["labels"]:
        lines += ["", "| operations of RandAugment | read, % |", "|---|---|"]
    for of_seeds in zip(*by["labels"], strict=True):
        lines.append(f"| {of_seeds[0]['operations']} | {each([100 * row['accuracy'] for row in of_seeds])} |")
    return "\n".join(lines) + "\n"


def _cosine(one: Tensor, other: Tensor) -> float:
    return float(F.cosine_similarity(one, other, dim=0))
