"""The second part of ``pellucid study worst``: what training on worst draws leaves, and which attacks survive unseen draws.

Owns: ways of fine-tuning that cost about the same, perturbations with and without draws, and their table.
Must not: search or attack; the library does.
Read next: ``worst.py``.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import mean
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pellucid
from pellucid.adversarial import Adversary
from pellucid.learn.data import Pictures, Task, small_task
from pellucid_bench.runs import Row

__all__ = ["ARMS", "as_markdown", "run"]

SHIFT = 3 / 28
GRID = {"degrees": 31, "translate_x": 5, "translate_y": 5}
CORNERS = {"translate_x": 2, "translate_y": 2}  # the ends of the shifts, under an angle that is drawn anew at each
RATE, BATCH, START = 2e-3, 128, 700


class Way(NamedTuple):
    """How to fine-tune.

    Args:
        steps: as many as take about the same time on one core.
        search: for the worst draw; None for a plain one.
        agree: 0 trains on a batch of such draws. More: on half as many pictures, each by a plain draw and by such a one; this
            times the divergence of the two answers is added (Yang, Wang, Heinze-Deml: "Invariance-inducing regularization using
            worst-case transformations suffices to boost accuracy and spatial robustness", NeurIPS 2019).
    """

    steps: int
    search: dict[str, Any] | None = None
    agree: float = 0.0


_GRID: dict[str, Any] = {"search": "grid", "draws": CORNERS}
_GRADIENT: dict[str, Any] = {"search": "gradient", "draws": CORNERS, "steps": 1, "restarts": 1}
WAYS = {
    "random draws": Way(1000),
    "the worst of 5": Way(400, _GRID),
    "pairs: a random draw and another, that should agree": Way(960, None, 8.0),
    "pairs: a random draw and the worst of 5, that should agree": Way(570, _GRID, 8.0),
    "pairs: the same, and a step up the slope from the worst": Way(380, _GRADIENT, 8.0),
}
ATTACKS = {"without draws": 1, "8 draws a step": 8}
"""By name: how many draws."""
ARMS = [*WAYS, *ATTACKS]


def run(pictures: Pictures, arm: str, seed: int, *, quick: bool) -> Row:
    """Fine-tune a network, or attack it."""
    task, model, augment = _started(pictures, seed, quick)
    torch.manual_seed(seed)
    rows = torch.randperm(len(task.x_test))[: 20 if quick else 200]
    x, y = task.x_test[rows], task.y_test[rows]
    if arm in ATTACKS:
        return {"success": _turned(model, x, y, seed, ATTACKS[arm], steps=2 if quick else 20)}
    way, model = WAYS[arm], copy.deepcopy(model)
    steps = 2 if quick else way.steps
    began = time.process_time()
    _train(model, task, augment, way._replace(steps=steps))
    spent = time.process_time() - began
    model.eval()
    out, _ = augment.worst(_losses(model, y), x, search="grid", draws=GRID, key=pellucid.Key(1000))
    with torch.no_grad():
        robust, clean = _accuracy(model, out, y), _accuracy(model, task.x_test, task.y_test)
    return {"grid": robust, "clean": clean, "steps": steps, "cpu_seconds": round(spent, 1)}


@lru_cache(maxsize=1)
def _started(pictures: Pictures, seed: int, quick: bool) -> tuple[Task, nn.Module, pellucid.Pipeline]:
    """A network after so many steps on random draws."""
    torch.manual_seed(seed)
    task = small_task(pictures, 200 if quick else len(pictures.x_train), seed=seed)
    model = _network(task)
    augment = pellucid.Pipeline([pellucid.RandomAffine(30, translate=(SHIFT, SHIFT))], seed=seed)
    _train(model, task, augment, Way(3 if quick else START))
    return task, model.eval(), augment


def _network(task: Task) -> nn.Module:
    """It sees where things are only through what moves a little: strides once, then pools, and averages in the end."""

    def layer(inputs: int, outputs: int, size: int, stride: int = 1) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
        return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]

    layers = [*layer(task.x.shape[1], 16, 5, 2), *layer(16, 32, 3), nn.MaxPool2d(2), *layer(32, 64, 3)]
    whole = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, task.classes))
    return whole.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _losses(model: nn.Module, labels: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda out: F.cross_entropy(model(out), labels, reduction="none")


def _train(model: nn.Module, task: Task, augment: pellucid.Pipeline, way: Way) -> None:
    """So many steps of as many pictures each, with a rate that falls to 0."""
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    for step in range(way.steps):
        optimizer.param_groups[0]["lr"] = RATE * (1.0 - step / way.steps)
        rows = torch.randint(len(task.x), (BATCH // 2 if way.agree else BATCH,))
        images, labels = task.x[rows], task.y[rows]
        plain = [augment(images)] if way.agree else []
        drawn = augment(images) if way.search is None else augment.worst(_losses(model.eval(), labels), images, **way.search)[0]
        answers = model.train()(torch.cat([*plain, drawn]))
        loss = F.cross_entropy(answers, labels.repeat(1 + len(plain)))
        if way.agree:
            one, other = answers.log_softmax(1).chunk(2)
            loss = loss + way.agree * F.kl_div(other, one, log_target=True, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _turned(model: nn.Module, x: Tensor, y: Tensor, seed: int, draws: int, steps: int) -> float:
    """The share of right answers under unseen draws that a perturbation turns, made with so many draws; one: without any."""
    camera = pellucid.Pipeline([pellucid.RandomAffine(30, translate=(SHIFT, SHIFT), scale=(0.8, 1.2))], seed=seed)
    through = camera if draws > 1 else pellucid.Pipeline([])
    attack = Adversary(through, lambda out, labels: _losses(model, labels)(out), radius=0.03, steps=steps, draws=draws)
    perturbed = attack(x, y, key=pellucid.Key(5))
    right = turned = 0
    with torch.no_grad():
        for step in range(16):
            key = pellucid.Key(777, step)
            before, after = (model(camera(pictures, key=key)).argmax(1) == y for pictures in (x, perturbed))
            right, turned = right + int(before.sum()), turned + int((before & ~after).sum())
    return turned / max(right, 1)


def _accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    return (model(x).argmax(1) == y).float().mean().item()


def as_markdown(rows: Sequence[Row]) -> tuple[str, str]:
    """Two tables: fine-tuning, and attacks on unseen draws."""
    tuned = [
        "| fine-tuned on | steps | CPU of the first | accuracy under the grid of 775, % | by seed | clean, % | by seed | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    attacked = ["| perturbation made | success under unseen draws, % | by seed |", "|---|---|---|"]

    def each(mine: Sequence[Row], name: str) -> str:
        values = [100 * row[name] for row in mine]
        return f"{mean(values):.1f} | {', '.join(f'{one:.1f}' for one in values)}"

    plain = {row["seed"]: row["cpu_seconds"] for row in rows if row["arm"] == "random draws"}
    for arm in ARMS:
        mine = [row for row in rows if row["arm"] == arm]
        if arm in WAYS and mine:
            cost = mean(row["cpu_seconds"] / plain[row["seed"]] for row in mine)
            ratio = mean(row["grid"] for row in mine) / mean(row["clean"] for row in mine)
            start = f"| {arm} | {mine[0]['steps']} | {cost:.2f}"
            tuned.append(f"{start} | {each(mine, 'grid')} | {each(mine, 'clean')} | {ratio:.2f} |")
        elif mine:
            attacked.append(f"| {arm} | {each(mine, 'success')} |")
    return "\n".join(tuned) + "\n", "\n".join(attacked) + "\n"
