"""``pellucid study ada``: a small GAN on 1,000 pictures with and without adaptive augmentation.

Owns: the GAN, its measurements, the table and the picture.
Must not: augment or control; ``pellucid.policy`` does.
Read next: ``penalty.py``, ``runs.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.learn.data import Pictures, Task, small_task
from pellucid.policy import ADA
from pellucid.policy.adversarial import overfitting
from pellucid_bench.plot import pyplot
from pellucid_bench.runs import Row, each

__all__ = ["ARMS", "as_markdown", "draw", "run"]

ARMS = ("pictures as they are", "ADA")
STEPS, PICTURES, BATCH, NOISE = 1200, 1000, 64, 64
EVERY, LAZY, GAMMA, TARGET = 4, 16, 0.01, 0.6
FIGURES = {
    "r_t": "sign, r_t",
    "r_h": "sign, held out",
    "r_v": "validation, r_v",
    "p": "p",
    "distance": "Fréchet distance",
}


def run(pictures: Pictures, arm: str, seed: int, *, steps: int = STEPS, images: int = PICTURES) -> Row:
    """Train one GAN: its figures over the last quarter, and `trace`, the figures along the run."""
    torch.manual_seed(seed)
    task = small_task(pictures, images, held=images, seed=seed)
    generator, critic = _generator(task.x.shape[-1]), _critic(task.x.shape[-1])
    adam = partial(torch.optim.Adam, betas=(0.0, 0.99))
    of_generator, of_critic = adam(generator.parameters(), 1e-3), adam(critic.parameters(), 2e-3)
    augment = ADA(p=0.0, target=TARGET, images=10_000, seed=seed)
    trace: list[Row] = []
    outputs: list[Tensor] = []

    def seen(x: Tensor) -> Tensor:
        out: Tensor = augment(x) if arm == "ADA" else x
        return out

    for step in range(1, steps + 1):
        critic.requires_grad_(False)
        made = generator(torch.randn(BATCH, NOISE))
        _descend(of_generator, F.softplus(-critic(seen(made))).mean())
        critic.requires_grad_(True)
        regular = step % LAZY == 0
        real = task.x[torch.randint(len(task.x), (BATCH,))].requires_grad_(regular)
        of_real, of_made = critic(seen(torch.cat((real, made.detach())))).chunk(2)
        loss = F.softplus(-of_real).mean() + F.softplus(of_made).mean()
        if regular:  # R1, through the augmentation
            (slope,) = torch.autograd.grad(of_real.sum(), real, create_graph=True)
            loss = loss + LAZY * GAMMA / 2 * slope.square().sum((1, 2, 3)).mean()
        _descend(of_critic, loss)
        outputs.append(of_real.detach())
        if step % EVERY == 0:
            of_seen, of_made = torch.cat(outputs), of_made.detach()
            outputs.clear()
            with torch.no_grad():
                of_held = critic(seen(task.x_held[torch.randint(len(task.x_held), (BATCH,))]))
            if arm == "ADA":
                augment.update(of_seen)
            signs = {"r_t": float(of_seen.sign().mean()), "r_h": float(of_held.sign().mean())}
            valid = float(overfitting(of_seen, validation=of_held, generated=of_made))
            trace.append({"step": step, **signs, "r_v": valid, "p": float(augment.p)})
    last = trace[-len(trace) // 4 :]
    found = {name: mean(one[name] for one in last) for name in ("r_t", "r_h", "r_v", "p")}
    return {**found, "distance": _distance(generator, task), "trace": _thinned(trace)}


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@torch.no_grad()
def _distance(generator: nn.Module, task: Task, components: int = 32) -> float:
    """Fréchet distance between made pictures and the test set, in the principal components of the test set's pixels."""
    made = torch.cat([generator(torch.randn(250, NOISE)) for _ in range(8)]).flatten(1).double()
    true = task.x_test.flatten(1).double()
    axes = torch.linalg.eigh(true.T.cov()).eigenvectors[:, -components:]
    made, true = made @ axes, true @ axes
    of_made, of_true = made.T.cov(), true.T.cov()
    root = torch.linalg.eigvals(of_made @ of_true).real.clamp(min=0).sqrt().sum()
    return float((made.mean(0) - true.mean(0)).square().sum() + of_made.trace() + of_true.trace() - 2 * root)


def _thinned(trace: Sequence[Row], over: int = 10) -> list[Row]:
    """Means of so many rows, rounded."""
    parts = [trace[place : place + over] for place in range(0, len(trace), over)]
    return [{name: round(mean(one[name] for one in part), 3) for name in part[0]} for part in parts]


def _generator(size: int) -> nn.Module:
    quarter = size // 4
    return nn.Sequential(
        *(nn.Linear(NOISE, 48 * quarter * quarter), nn.Unflatten(1, (48, quarter, quarter)), nn.BatchNorm2d(48), nn.ReLU()),
        *(nn.ConvTranspose2d(48, 24, 4, 2, 1), nn.BatchNorm2d(24), nn.ReLU(), nn.ConvTranspose2d(24, 1, 4, 2, 1), nn.Sigmoid()),
    )


def _critic(size: int) -> nn.Module:
    quarter = size // 4
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Flatten()),
        *(nn.Linear(64 * quarter * quarter, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1)),
    )


def as_markdown(rows: Sequence[Row]) -> str:
    """A table: means over the last quarter of the runs, and each."""
    lines = [f"| critic sees | seeds | {' | '.join(FIGURES.values())} |", f"|{'---|' * (2 + len(FIGURES))}"]
    for arm in dict.fromkeys(row["arm"] for row in rows):
        mine = [row for row in rows if row["arm"] == arm]
        found = " | ".join(each([row[name] for row in mine], ".2f") for name in FIGURES)
        lines.append(f"| {arm} | {len(mine)} | {found} |")
    return "\n".join(lines) + "\n"


def draw(rows: Sequence[Row], path: Path) -> None:
    """The heuristics and the probability along the runs."""
    plt = pyplot()
    names = ("r_t", "r_v", "p")
    figure, axes = plt.subplots(1, len(names), figsize=(11, 3.2), layout="constrained")
    for number, arm in enumerate(dict.fromkeys(row["arm"] for row in rows)):
        for row in (row for row in rows if row["arm"] == arm):
            for axis, name in zip(axes, names, strict=True):
                places, values = [one["step"] for one in row["trace"]], [one[name] for one in row["trace"]]
                axis.plot(places, values, color=f"C{number}", label=arm if row["seed"] == 0 else None, linewidth=1)
    for axis, name in zip(axes, names, strict=True):
        axis.set(xlabel="step", ylabel=FIGURES[name], ylim=(-0.2, 1.1))
        if name != "p":
            axis.axhline(TARGET, color="0.5", linestyle=":")
    axes[0].legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
