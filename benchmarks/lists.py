"""A list of 32 pictures of many sizes beside a batch of one size: ``python benchmarks/lists.py``.

Sides are from 300 to 640, as in folders of JPEGs; the batch's are their mean. One thread: CPU time. Two: wall time, for a quiet
machine.

Owns: the pipelines, the sizes, and the table.
Must not: judge.
Read next: ``../docs/adr/0017-lists-of-pictures.md``.
"""

import itertools
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from pellucid import (
    CenterCrop,
    ColorJitter,
    Key,
    Normalize,
    Pipeline,
    RandomAffine,
    RandomHorizontalFlip,
    RandomResizedCrop,
)

PIPELINES = {
    "crop, flip": [RandomResizedCrop(224), RandomHorizontalFlip()],
    "crop, flip, jitter, normalise": [
        RandomResizedCrop(224),
        RandomHorizontalFlip(),
        ColorJitter(0.2, 0.2, saturation=0.2, hue=0.05),
        Normalize(0.5, 0.2),
    ],
    "affine, crop": [RandomAffine(15), CenterCrop(224)],
}
COUNT = 32


def pictures(sizes: list[tuple[int, int]], dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = [torch.randint(0, 256, (3, *size), generator=generator).to(torch.uint8) for size in sizes]
    return images if dtype == torch.uint8 else [image.to(dtype) / 255 for image in images]


def milliseconds(call: Callable[[], object], clock: Callable[[], float], rounds: int) -> float:
    """The lower quartile."""
    call()
    seconds = []
    for _ in range(rounds):
        start = clock()
        call()
        seconds.append(clock() - start)
    return sorted(seconds)[rounds // 4] * 1e3


def forward(augment: Pipeline, given: list[Tensor] | Tensor) -> Tensor:
    made: Tensor = augment(given, key=Key(0, 0, torch.arange(COUNT)))
    return made


def both_ways(augment: Pipeline, given: list[Tensor] | Tensor) -> object:
    leaves = [image.detach().requires_grad_() for image in given] if isinstance(given, list) else [given.detach().requires_grad_()]
    return torch.autograd.grad(forward(augment, leaves if isinstance(given, list) else leaves[0]).sum(), leaves)


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    sides = torch.randint(300, 641, (COUNT, 2), generator=torch.Generator().manual_seed(1))
    height, width = sides.sum(0).div(COUNT, rounding_mode="floor").tolist()
    print("| pipeline | pictures | threads | list, ms | batch, ms | list with gradients, ms | batch with gradients, ms |")
    print("|---|---|---|---|---|---|---|")
    for (name, transforms), dtype, threads in itertools.product(PIPELINES.items(), (torch.uint8, torch.float32), (1, 2)):
        torch.set_num_threads(threads)
        clock, augment = time.thread_time if threads == 1 else time.perf_counter, Pipeline(transforms, seed=0)
        given = pictures([(h, w) for h, w in sides.tolist()], dtype), torch.stack(pictures([(height, width)] * COUNT, dtype))
        calls = [partial(call, augment, each) for call in (forward, both_ways)[: 1 + dtype.is_floating_point] for each in given]
        numbers = [f"{milliseconds(call, clock, rounds):.1f}" for call in calls] + ["", ""]
        print(f"| {name} | {str(dtype).removeprefix('torch.')} | {threads} | {' | '.join(numbers[:4])} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
