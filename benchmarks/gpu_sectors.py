"""How much memory the warps of the GPU kernels touch, without a GPU: the addresses of their loads, by Triton's interpreter.

    python benchmarks/gpu_sectors.py                       # the table
    python benchmarks/gpu_sectors.py --docs docs/cuda.md   # also writes it there

Sectors are the pieces of 32 bytes that the 32 threads of a warp touch when they load one number each of a float32 image; 4 is the
least. Counted are the loads of pixels (of the image by the forward pass, of the gradient by the gather), in the mean over those in
which some thread takes part. The image is turned about its centre.
"""

import argparse
import math
import os
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

import numpy as np
import torch
from triton.runtime.interpreter import InterpreterBuilder

from pellucid.kernels.warp.triton import launch
from pellucid_bench.report import insert

ANGLES = 0, 15, 45, 90
SIZE = 64


class Loads:
    """Inside, the sectors of every warp's load of a block are counted."""

    def __init__(self):
        self.sectors = []

    def __enter__(self):
        self.original = InterpreterBuilder.create_masked_load

        def load(builder, pointers, mask, *rest):
            if pointers.data.size >= launch.LANES:
                for at, there in zip(pointers.data.reshape(-1, 32), mask.data.reshape(-1, 32), strict=True):
                    if there.any():
                        self.sectors.append(len(np.unique(at[there] // 32)))
            return self.original(builder, pointers, mask, *rest)

        InterpreterBuilder.create_masked_load = load
        return self

    def __exit__(self, *_):
        InterpreterBuilder.create_masked_load = self.original

    def mean(self):
        return float(np.mean(self.sectors))


def sectors(degrees):
    """(of the forward pass, of the gather) per warp and load, for an affine map that turns by so much."""
    angle, centre = math.radians(degrees), (SIZE - 1) / 2
    c, s = math.cos(angle), math.sin(angle)
    maps = torch.tensor([[c, s, centre * (1 - c - s), -s, c, centre * (1 + s - c)]])
    image, result = torch.rand(1, 1, SIZE, SIZE), torch.empty(1, 1, SIZE, SIZE)
    arguments = (image, maps, None, torch.zeros(1, 0), None, None, None, [SIZE, SIZE], [2, 0, 0, 1], -0.5)
    found = []
    for call in (
        lambda: launch.forward_warp(result, arguments),
        lambda: launch.backward_warp(image, arguments, [True, False, False, False]),
    ):
        with Loads() as loads:
            call()
        found.append(loads.mean())
    return tuple(found)


def markdown():
    lines = ["| sectors per warp and load, turned by | " + " | ".join(map(str, ANGLES)) + " degrees |", "|---" * 5 + "|"]
    used = launch._WARP_ROWS
    try:
        for rows in (1, 2, 4):
            launch._WARP_ROWS = rows
            forward, gather = zip(*map(sectors, ANGLES), strict=True)
            mark = " (used)" if rows == used else ""
            for name, found in (("forward", forward), ("gather", gather)):
                cells = " | ".join(f"{number:.1f}" for number in found)
                lines.append(f"| {name}, a warp of {32 // rows} x {rows}{mark} | {cells} |")
    finally:
        launch._WARP_ROWS = used
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, help="write the table into this page, between its sectors markers")
    arguments = parser.parse_args()
    text = markdown()
    print(text)
    if arguments.docs is not None:
        insert(arguments.docs, "sectors", text)


if __name__ == "__main__":
    main()
