"""Repeatability of a KeypointNet trained for so many seconds of processor time, beside the classical detectors.

Owns: the experiment behind docs/detectors.md.
Must not: train on the photographs it measures on.
Read next: ``src/pellucid/features/detector_step.py``.

Run: python benchmarks/detectors.py --seconds 120 --seed 0
"""

import argparse
import time

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

HELD_OUT = ("astronaut", "coffee", "camera", "coins")
RATE = 1e-2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=40, help="held-out pairs of 128x128 views")
    parser.add_argument("--batch", type=int, default=4)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pictures = bundled_photographs(longest=512)
    held_out = [pictures.pop(name) for name in HELD_OUT]
    test = HomographicPairs(held_out, size=128, strength=0.5, seed=77)(0, arguments.pairs)
    for name, response in {
        "random": lambda image: torch.rand(image.shape),
        "Shi-Tomasi": shi_tomasi_response,
        "Harris": harris_response,
        "DoG": dog_response,
        "Hessian": hessian_response,
    }.items():
        print(f"{name:12} {pooled_repeatability(response, test):.3f}", flush=True)
    net = KeypointNet(seed=arguments.seed).to(memory_format=torch.channels_last)
    print(f"{'net, 0 s':12} {pooled_repeatability(net, test):.3f}", flush=True)
    train(net, HomographicPairs(list(pictures.values()), size=96, strength=0.5, seed=arguments.seed), test, arguments)


def train(net, data, test, arguments):
    optimiser = torch.optim.Adam(net.parameters(), lr=RATE)
    begun, paused, step, spoiled, looks = time.process_time(), 0.0, 0, 0, [15, 30, 60, 120, 240, 360]
    while (spent := time.process_time() - begun - paused) < arguments.seconds:
        if looks and spent >= looks[0]:
            stopped = time.process_time()
            print(f"{f'net, {looks.pop(0)} s':12} {pooled_repeatability(net, test):.3f}  ({step} steps)", flush=True)
            paused += time.process_time() - stopped
        for group in optimiser.param_groups:
            group["lr"] = RATE * max(1 - spent / arguments.seconds, 0.01)
        views = data(step, arguments.batch)
        losses = detector_losses(net, views.first, views.second, views.second_from_first, step=step)
        optimiser.zero_grad()
        losses.total.backward()
        if all(bool(p.grad.isfinite().all()) for p in net.parameters()):
            optimiser.step()
        else:
            spoiled += 1
        step += 1
    print(f"{f'net, {arguments.seconds:.0f} s':12} {pooled_repeatability(net, test):.3f}  ({step} steps, {spoiled} not finite)")


if __name__ == "__main__":
    main()
