"""Repeatability of KeypointNets after so many steps of training, beside the classical detectors.

Owns: the experiment behind docs/detectors.md.
Must not: train on the photographs it measures on.
Read next: ``src/pellucid/features/detector_step.py``.

Run: python benchmarks/detectors.py --write docs. Call it again, and it goes on where it was stopped.
"""

import argparse
from pathlib import Path
from statistics import mean

import torch

from pellucid.features import (
    KeypointNet,
    detector_losses,
    dog_response,
    harris_response,
    hessian_response,
    shi_tomasi_response,
)
from pellucid.features.data import HomographicPairs, bundled_photographs
from pellucid_bench.detach.training import pooled_repeatability
from pellucid_bench.report import insert
from pellucid_bench.runs import run_all

HELD_OUT = ("astronaut", "coffee", "camera", "coins")
CLASSICAL = {
    "random points": lambda image: torch.rand(image.shape),
    "DoG": dog_response,
    "Shi-Tomasi": shi_tomasi_response,
    "Harris": harris_response,
    "determinant of the Hessian, sigma 2": hessian_response,
}
NETWORK = "`KeypointNet`"
RATE, BATCH, PAIRS = 1e-2, 4, 40


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=3, help="of the views that are measured, and of network and training")
    parser.add_argument("--write", type=Path, help="the folder of detectors.json and detectors.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = run_all(
        lambda arm, seed: measured(arm, seed, arguments.steps),
        [*CLASSICAL, NETWORK],
        arguments.seeds,
        about={"steps": arguments.steps, "batch": BATCH, "pairs": PAIRS},
        path=None if arguments.write is None else arguments.write / "detectors.json",
        say=print,
    )
    print(table(rows))
    if arguments.write is not None:
        insert(arguments.write / "detectors.md", "detectors", f"\n{table(rows)}")


def measured(arm, seed, steps):
    """Repeatability on the held-out photographs; of a network after no step, a quarter, half and all of them."""
    torch.manual_seed(seed)
    pictures = bundled_photographs(longest=512)
    held_out = [pictures.pop(name) for name in HELD_OUT]
    test = HomographicPairs(held_out, size=128, strength=0.5, seed=77 + seed)(0, PAIRS)
    if arm in CLASSICAL:
        return {"repeatability": pooled_repeatability(CLASSICAL[arm], test)}
    net = KeypointNet(seed=seed).to(memory_format=torch.channels_last)
    data = HomographicPairs(list(pictures.values()), size=96, strength=0.5, seed=seed)
    found = {0: pooled_repeatability(net, test)}
    optimiser, spoiled = torch.optim.Adam(net.parameters(), lr=RATE), 0
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = RATE * max(1 - step / steps, 0.01)
        views = data(step, BATCH)
        losses = detector_losses(net, views.first, views.second, views.second_from_first, step=step)
        optimiser.zero_grad()
        losses.total.backward()
        if all(bool(p.grad.isfinite().all()) for p in net.parameters()):
            optimiser.step()
        else:
            spoiled += 1
        if 1 + step in (steps // 4, steps // 2, steps):
            found[1 + step] = pooled_repeatability(net, test)
    return {"after": found, "not_finite": spoiled}


def table(rows):
    lines = ["| detector | repeatability at 2 px | by seed |", "|---|---|---|"]

    def line(name, values):
        lines.append(f"| {name} | {mean(values):.3f} | {', '.join(f'{one:.3f}' for one in values)} |")

    for arm in CLASSICAL:
        line(arm, [row["repeatability"] for row in rows if row["arm"] == arm])
    networks = [{int(step): value for step, value in row["after"].items()} for row in rows if row["arm"] == NETWORK]
    for step in networks[0]:
        line(f"{NETWORK}, {f'after {step} steps' if step else 'random weights'}", [found[step] for found in networks])
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
