"""A line as the taps of a convolution, or as reads through maps: what each costs in one thread, and how far it is from 64 reads.

Run: ``python benchmarks/motion_blur.py``. The table of docs/adr/0044.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from pellucid.kernels import convolve, layers
from pellucid.transforms.filters import distances, line

BATCH, SIZE, LENGTH = 8, 224, 12.0
IMAGE = torch.rand(BATCH, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
DEGREES = torch.linspace(-90.0, 90.0, BATCH)


def taps(image: Tensor, impl: str) -> Tensor:
    """The mean along a line by one kernel for each picture."""
    reach = distances(1.0 + LENGTH / 2.0, image)
    return convolve.dense(image, line(torch.full((BATCH,), LENGTH), DEGREES, reach), impl=impl)


def reads(image: Tensor, count: int) -> Tensor:
    """The mean of so many reads along the line, laid over one another."""
    angle = torch.deg2rad(DEGREES)[:, None]
    along = LENGTH * ((torch.arange(count) + 0.5) / count - 0.5)
    maps = torch.eye(2, 3).repeat(BATCH, count, 1, 1)
    maps[..., 0, 2], maps[..., 1, 2] = torch.cos(angle) * along, -torch.sin(angle) * along
    opacity = (1.0 / (torch.arange(count) + 1.0)).expand(BATCH, count)
    offset = torch.zeros(BATCH, count, dtype=torch.int64)
    return layers.layers(image, offset, opacity, None, maps, ground=(0.0,), covers=True, dtype=torch.float32)


def nanoseconds(call: Callable[[], object]) -> float:
    """Per pixel: the least of three calls after the first."""
    call()
    found = []
    for _ in range(3):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found) / (BATCH * SIZE * SIZE) * 1e9


def main() -> None:
    torch.set_num_threads(1)
    inside = slice(10, -10)  # reads show the ground beyond the border, taps its mirror image
    wanted = reads(IMAGE.double(), 64)[..., inside, inside]
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "compiled taps": lambda x: taps(x, "cpu"),
        "torch.conv2d, a group per plane": lambda x: taps(x, "reference"),
        "8 reads": lambda x: reads(x, 8),
        "13 reads": lambda x: reads(x, 13),
        "64 reads": lambda x: reads(x, 64),
    }
    print("| | forward, ns per pixel | and backward | largest difference |\n|---|---|---|---|")
    for name, way in ways.items():
        leaf = IMAGE.clone().requires_grad_()
        weights = torch.ones_like(leaf)
        forward = nanoseconds(lambda way=way: way(IMAGE))
        both = nanoseconds(lambda way=way, leaf=leaf, weights=weights: torch.autograd.grad(way(leaf), leaf, weights))
        apart = (way(IMAGE)[..., inside, inside].double() - wanted).abs().max()
        print(f"| {name} | {forward:.1f} | {both:.1f} | {float(apart):.1e} |", flush=True)


if __name__ == "__main__":
    main()
