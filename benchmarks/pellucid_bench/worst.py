"""``pellucid study worst``: what each search finds of a network's worst rotations and shifts, per evaluation.

Owns: the task, the searches that are compared, the table and the picture.
Must not: search; the library does.
Read next: ``studies.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import mean
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pellucid
from pellucid.learn.data import Pictures, small_task
from pellucid_bench.plot import pyplot
from pellucid_bench.runs import Row

__all__ = ["SEARCHES", "as_markdown", "draw", "run"]

SEARCHES: dict[str, dict[str, Any]] = {
    "no transform": {},
    "plain draw": {"search": "random", "draws": 1},
    "random, 10 and 10 steps from the best": {"search": "random", "draws": 10, "then": 10},
    "random, 60": {"search": "random", "draws": 60},
    "random, 120": {"search": "random", "draws": 120},
    "grid, 55": {"search": "grid", "draws": 55},
    "gradient, 28 + 3 x 9": {"search": "gradient", "draws": 28, "restarts": 3, "steps": 8},
    "gradient, 46 + 5 x 12": {"search": "gradient", "draws": 46, "restarts": 5, "steps": 11},
    "grid, 31 x 5 x 5": {"search": "grid", "draws": {"degrees": 31, "translate_x": 5, "translate_y": 5}},
}
SHIFT = 3 / 28


def run(pictures: Pictures, arm: str, seed: int, *, quick: bool) -> Row:
    """The accuracy that a search leaves a network."""
    model, x, y = _trained(pictures, seed, quick)
    if not SEARCHES[arm]:
        with torch.no_grad():
            return {"evaluations": 1, "accuracy": _accuracy(model(x), y)}
    pipeline = pellucid.Pipeline([pellucid.RandomAffine(30, translate=(SHIFT, SHIFT))], seed=seed)
    return _searched(pipeline, model, x, y, dict(SEARCHES[arm]))


def _searched(pipeline: pellucid.Pipeline, model: nn.Module, x: Tensor, y: Tensor, options: dict[str, Any]) -> Row:
    key = pellucid.Key(1000)

    def loss(out: Tensor) -> Tensor:
        return F.cross_entropy(model(out), y, reduction="none")

    pipeline.worst(loss, x, key=key, search="random", draws=2)  # the first call with a loss looks once more
    steps = options.pop("then", 0)
    out, record, found = pipeline.worst(loss, x, key=key, return_found=True, **options)
    evaluations = found.evaluations
    if steps:  # by hand, from random starts, as Engstrom et al. did
        out, evaluations = _stepped(pipeline, loss, x, record, steps), evaluations + steps
    with torch.no_grad():
        return {"evaluations": evaluations, "accuracy": _accuracy(model(out), y)}


def _stepped(
    pipeline: pellucid.Pipeline, loss: Callable[[Tensor], Tensor], x: Tensor, record: pellucid.Record, steps: int
) -> Tensor:
    """Signed steps of a tenth of each range from a draw, the best kept."""
    bounds = record.bounds()
    best, out = loss(pipeline.apply(x, record)).detach(), pipeline.apply(x, record)
    for _ in range(steps):
        leaf = record.requires_grad_()
        loss(pipeline.apply(x, leaf)).sum().backward()  # the network's weights ask for none
        for name, value in leaf.params[0].items():
            low, high = bounds[f"0.{name}"]
            assert value.grad is not None
            moved = (value.detach() + 0.1 * (high - low) * value.grad.sign()).clamp(low, high)
            record = record.with_param(0, name, moved)
        now = pipeline.apply(x, record)
        losses = loss(now).detach()
        out = torch.where((losses > best)[:, None, None, None], now, out)
        best = torch.maximum(losses, best)
    return out


@lru_cache(maxsize=1)
def _trained(pictures: Pictures, seed: int, quick: bool) -> tuple[nn.Module, Tensor, Tensor]:
    """A network that met rotations and shifts, and 200 test pictures."""
    torch.manual_seed(seed)
    task = small_task(pictures, 200 if quick else 6000, seed=seed)
    conv = nn.Conv2d
    model = nn.Sequential(
        *(conv(1, 16, 3, stride=2, padding=1), nn.ReLU(), conv(16, 32, 3, stride=2, padding=1), nn.ReLU()),
        *(conv(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(256, task.classes)),
    )
    augment = pellucid.Pipeline([pellucid.RandomAffine(30, translate=(SHIFT, SHIFT))], seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(1 if quick else 8):
        for rows in torch.randperm(len(task.x)).split(64):
            loss = F.cross_entropy(model(augment(task.x[rows])), task.y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    rows = torch.randperm(len(task.x_test))[: 20 if quick else 200]
    return model.requires_grad_(False), task.x_test[rows], task.y_test[rows]


def _accuracy(logits: Tensor, labels: Tensor) -> float:
    return (logits.argmax(1) == labels).float().mean().item()


def as_markdown(rows: Sequence[Row]) -> str:
    """A table: the mean over seeds, and each."""
    lines = ["| search | evaluations | accuracy left, % | by seed |", "|---|---|---|---|"]
    for name in SEARCHES:
        mine = [row for row in rows if row["arm"] == name]
        each = [100 * row["accuracy"] for row in mine]
        lines.append(f"| {name} | {mine[0]['evaluations']} | {mean(each):.1f} | {', '.join(f'{one:.1f}' for one in each)} |")
    return "\n".join(lines) + "\n"


def draw(rows: Sequence[Row], path: Path) -> None:
    """Accuracy left against evaluations, a point for each seed."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(7, 4))
    for name in SEARCHES:
        mine = [row for row in rows if row["arm"] == name]
        axis.plot([row["evaluations"] for row in mine], [100 * row["accuracy"] for row in mine], "o", label=name)
    axis.set(xscale="log", xlabel="evaluations", ylabel="accuracy left, %")
    axis.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)
