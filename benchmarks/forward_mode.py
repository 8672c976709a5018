"""What a column of a compiled pass's Jacobian costs, in forwards: by forward mode, by reverse mode, and through the reference.

Run: python benchmarks/forward_mode.py [RUNS]
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.func import jvp

from pellucid import Key, Pipeline, RandomGaussianBlur, Resize
from pellucid.features import extract_patches
from pellucid.functional import warp
from pellucid.kernels.resize import resize
from pellucid.kernels.warp import pack

BATCH, SIDE = 16, 128


def cases() -> dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]]:
    """By name: a function of (impl, *tensors), its tensors, their tangents."""
    generator = torch.Generator().manual_seed(0)
    # Each in memory of its own: torch copies tangents that lie elsewhere in the memory of a larger tensor.
    image, change = (torch.rand(BATCH, 3, SIDE, SIDE, generator=generator) for _ in range(2))
    turn = torch.tensor([[0.95, -0.29, 10.0], [0.29, 0.95, -12.0], [0.0, 0.0, 1.0]]).expand(BATCH, 3, 3).clone()
    by_turn = 0.01 * torch.randn(BATCH, 3, 3, generator=generator) * torch.tensor([1.0, 1.0, 0.0])[:, None]
    tilt, by_tilt = turn.clone(), by_turn.clone()
    tilt[:, 2, 0], by_tilt[:, 2, 0] = 1e-4, 1e-6

    def run(impl: str, pixels: torch.Tensor, mapping: torch.Tensor, **options: Any) -> torch.Tensor:
        return warp(pixels, mapping, size=(SIDE, SIDE), impl=impl, **options)

    def through(*steps: Any) -> Callable[..., torch.Tensor]:
        ways = {impl: Pipeline(steps, impl=impl) for impl in ("auto", "reference")}
        return lambda impl, x: ways[impl](x, key=Key(0))

    place = torch.tensor([[90 / SIDE, 0.0, 9.85], [0.0, 80 / SIDE, 11.8]]).expand(BATCH, 2, 3).clone()
    edges = torch.tensor([[10.0, 12.0, 99.0, 91.0]]).expand(BATCH, 4).clone()
    by_place, by_edges = (0.01 * torch.rand(one.shape, generator=generator) for one in (place, edges))

    def cropped(impl: str, mapping: torch.Tensor, window: torch.Tensor, pixels: torch.Tensor = image) -> torch.Tensor:
        return resize(pixels, pack(mapping, size=(SIDE, SIDE), window=window), impl=impl)

    frames = torch.tensor([[10.0, 2.0, 60.0], [-2.0, 10.0, 60.0]]).expand(BATCH, 32, 2, 3)
    return {
        "resize: image": (through(Resize((SIDE // 2, SIDE // 2))), (image,), (change,)),
        "blur: image": (through(RandomGaussianBlur(7, (1.0, 2.0), p=1.0)), (image,), (change,)),
        "patches: image": (lambda impl, x: extract_patches(x, frames, 16, impl=impl), (image,), (change,)),
        "crop: window": (cropped, (place, edges), (by_place, by_edges)),
        "crop: image and window": (cropped, (place, edges, image), (by_place, by_edges, change)),
        "image": (lambda impl, x: run(impl, x, turn), (image,), (change,)),
        "map": (lambda impl, m: run(impl, image, m), (turn,), (by_turn,)),
        "homography": (lambda impl, m: run(impl, image, m), (tilt,), (by_tilt,)),
        "image and map": (run, (image, turn), (change, by_turn)),
        "map, bicubic": (lambda impl, m: run(impl, image, m, interpolation="bicubic"), (turn,), (by_turn,)),
    }


def _seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def main() -> None:
    """Print the table; all ways by turns, the fastest of the runs."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    torch.set_num_threads(1)
    print(f"CPU time in forwards; {BATCH} pictures 3x{SIDE}x{SIDE}, one thread, the fastest of {runs} runs")
    for name, (function, tensors, tangents) in cases().items():

        def reverse(function: Any = function, tensors: Any = tensors) -> None:
            function("auto", *(tensor.clone().requires_grad_() for tensor in tensors)).sum().backward()

        def forward_mode(impl: str, function: Any = function, tensors: Any = tensors, tangents: Any = tangents) -> None:
            jvp(lambda *given: function(impl, *given), tensors, tangents)

        ways: dict[str, Callable[[], object]] = {
            "forward": lambda function=function, tensors=tensors: function("auto", *tensors),  # type: ignore[misc]
            "forward mode": lambda run=forward_mode: run("auto"),  # type: ignore[misc]
            "reverse mode": reverse,
            "reference": lambda run=forward_mode: run("reference"),  # type: ignore[misc]
        }
        best = {way: min(_seconds(call) for _ in range(2)) for way, call in ways.items()}
        for _ in range(runs):
            for way, call in ways.items():
                if way != "reference":
                    best[way] = min(best[way], _seconds(call))
        shown = ", ".join(f"{way} {seconds / best['forward']:.1f}" for way, seconds in best.items() if way != "forward")
        print(f"{name:22} {shown}", flush=True)


if __name__ == "__main__":
    main()
