"""The second part of ``pellucid study worst``: what training on worst draws leaves, and which attacks survive unseen draws.

Owns: fine-tuning for equal time on one thread, perturbations with and without draws, and their table.
Must not: search or attack; the library does.
Read next: ``worst.py``.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pellucid
from pellucid.adversarial import Adversary
from pellucid.learn.data import Pictures, Task, small_task

__all__ = ["as_markdown", "run_hardening"]

Row: TypeAlias = dict[str, Any]

SHIFT = 3 / 28
GRID = {"degrees": 31, "translate_x": 5, "translate_y": 5}
CORNERS = {"translate_x": 2, "translate_y": 2}  # the ends of the shifts, under an angle that is drawn anew at each
RATE = 2e-3


def run_hardening(
    pictures: Pictures, seed: int, *, quick: bool, say: Callable[[str], None], seconds: float = 30.0, steps: int = 1500
) -> list[Row]:
    """Rows of one seed. ``seconds`` of the process's CPU time are given to each way of fine-tuning."""
    torch.manual_seed(seed)
    task = small_task(pictures, 200 if quick else len(pictures.x_train), seed=seed)
    model = _network(task)
    augment = pellucid.Pipeline([pellucid.RandomAffine(30, translate=(SHIFT, SHIFT))], seed=seed)
    _train(model, task, lambda x, _: augment(x), steps=3 if quick else steps)
    model.eval()
    rows = torch.randperm(len(task.x_test))[: 20 if quick else 200]
    x, y = task.x_test[rows], task.y_test[rows]
    found = [*_perturbed(model, x, y, seed, quick=quick, say=say)]
    start = copy.deepcopy(model.state_dict())

    def worst(x: Tensor, y: Tensor) -> Tensor:
        few = len(x) // 3
        hard, _ = augment.worst(
            lambda out: F.cross_entropy(model.eval()(out), y[:few], reduction="none"), x[:few], search="grid", draws=CORNERS
        )
        return torch.cat((hard, augment(x[few:])))

    ways: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "random draws": lambda x, _: augment(x),
        "a third of them worst of 5": worst,
    }
    for name, drawn in ways.items():
        model.load_state_dict(start)
        began = time.perf_counter()
        count = _train(model, task, drawn, seconds=0.1 if quick else seconds)
        spent = time.perf_counter() - began
        model.eval()
        out, _ = augment.worst(
            lambda out: F.cross_entropy(model(out), y, reduction="none"), x, search="grid", draws=GRID, key=pellucid.Key(1000)
        )
        with torch.no_grad():
            robust, clean = _accuracy(model, out, y), _accuracy(model, task.x_test, task.y_test)
        times = {"steps": count, "cpu_seconds": seconds, "seconds": round(spent, 1)}
        found.append({"seed": seed, "tuned": name, "grid": robust, "clean": clean, **times})
        say(f"seed {seed}: fine-tuned on {name}: {robust:.3f} under the grid, {clean:.3f} clean")
    return found


def _network(task: Task) -> nn.Module:
    """Without pooling: it knows where things are, so that shifts hurt it, and has the room to learn them."""
    cells = (-(-task.x.shape[-1] // 4)) ** 2
    layers = (1, 16, 2), (16, 32, 2), (32, 64, 1)
    convolutions = [
        part
        for inputs, outputs, stride in layers
        for part in (nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())
    ]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(64 * cells, task.classes))


def _train(
    model: nn.Module,
    task: Task,
    drawn: Callable[[Tensor, Tensor], Tensor],
    *,
    steps: int | None = None,
    seconds: float | None = None,
) -> int:
    """So many steps, or as many as fit into so many seconds of CPU time, with a rate that falls to 0; returns how many."""
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    began, count = time.process_time(), 0
    while True:
        spent = count / steps if steps else (time.process_time() - began) / (seconds or 1.0)
        if spent >= 1.0:
            return count
        optimizer.param_groups[0]["lr"] = RATE * (1.0 - spent)
        rows = torch.randint(len(task.x), (128,))
        seen = drawn(task.x[rows], task.y[rows])
        loss = F.cross_entropy(model.train()(seen), task.y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        count += 1


def _perturbed(model: nn.Module, x: Tensor, y: Tensor, seed: int, *, quick: bool, say: Callable[[str], None]) -> list[Row]:
    """The share of right answers under unseen draws that a perturbation turns, made with draws and without."""
    camera = pellucid.Pipeline([pellucid.RandomAffine(30, translate=(SHIFT, SHIFT), scale=(0.8, 1.2))], seed=seed)

    def loss(out: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(model(out), labels, reduction="none")

    steps = 2 if quick else 20
    ways = {
        "without draws": Adversary(pellucid.Pipeline([]), loss, radius=0.03, steps=steps, draws=1),
        "8 draws a step": Adversary(camera, loss, radius=0.03, steps=steps, draws=8),
    }
    rows: list[Row] = []
    for name, attack in ways.items():
        perturbed = attack(x, y, key=pellucid.Key(5))
        right = turned = 0
        with torch.no_grad():
            for step in range(16):
                key = pellucid.Key(777, step)
                before, after = (model(camera(pictures, key=key)).argmax(1) == y for pictures in (x, perturbed))
                right, turned = right + int(before.sum()), turned + int((before & ~after).sum())
        rows.append({"seed": seed, "attack": name, "success": turned / max(right, 1)})
        say(f"seed {seed}: perturbed {name}: {rows[-1]['success']:.3f}")
    return rows


def _accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    return (model(x).argmax(1) == y).float().mean().item()


def as_markdown(rows: Sequence[Row]) -> str:
    """Two tables: fine-tuning, and attacks on unseen draws."""
    lines = [
        "| fine-tuned on | steps | accuracy under the grid of 775, % | by seed | clean, % | by seed |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["tuned"] for row in rows if "tuned" in row):
        mine = [row for row in rows if row.get("tuned") == name]
        cells = [
            f"{mean(100 * row[k] for row in mine):.1f} | " + ", ".join(f"{100 * row[k]:.1f}" for row in mine)
            for k in ("grid", "clean")
        ]
        lines.append(f"| {name} | {mean(row['steps'] for row in mine):.0f} | {' | '.join(cells)} |")
    lines += ["", "| perturbation made | success under unseen draws, % | by seed |", "|---|---|---|"]
    for name in dict.fromkeys(row["attack"] for row in rows if "attack" in row):
        each = [100 * row["success"] for row in rows if row.get("attack") == name]
        lines.append(f"| {name} | {mean(each):.1f} | {', '.join(f'{one:.1f}' for one in each)} |")
    return "\n".join(lines) + "\n"
