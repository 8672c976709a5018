"""The common training pipeline beside the peers: ``python benchmarks/crops.py [--batch 32] [--threads 2] [--budget 2]``.

RandomResizedCrop (scale 0.3 to 1, antialiased where the library can) + RandomHorizontalFlip + ColorJitter (no hue) + Normalize,
from landscape pictures of 8/7 times the crop's height. Forward, and forward + backward to the image where the library has one.

Owns: the pipelines and the table.
Must not: time; ``pellucid_bench.measure`` does, all in turns in one process.
Read next: ``../docs/adr/0012-compiled-resize.md``.
"""

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pellucid import ColorJitter, Normalize, Pipeline, RandomHorizontalFlip, RandomResizedCrop
from pellucid_bench.measure import Timing, interleave
from pellucid_bench.settings import MEAN, STD, photographs
from pellucid_bench.subject import channels_last_8bit, to_8bit_arrays

AREA, JITTER = (0.3, 1.0), 0.2


def ours(size: int, impl: str, dtype: torch.dtype | None = None) -> Pipeline:
    jitter = ColorJitter(JITTER, JITTER, saturation=JITTER)
    crop = RandomResizedCrop((size, size), scale=AREA)
    return Pipeline([crop, RandomHorizontalFlip(), jitter, Normalize(MEAN, STD)], impl=impl, dtype=dtype, seed=0)


def torchvision(size: int) -> Any:
    from pellucid_bench.peers.torchvision_import import torchvision_v2

    v2 = torchvision_v2()
    jitter = v2.ColorJitter(JITTER, JITTER, JITTER)
    crop = v2.RandomResizedCrop(size, AREA, antialias=True)
    return v2.Compose([crop, v2.RandomHorizontalFlip(), jitter, v2.Normalize(MEAN, STD)])


def kornia(size: int) -> Any:
    import kornia.augmentation as K

    from pellucid_bench.peers.kornia import normalize

    jitter = K.ColorJitter(JITTER, JITTER, JITTER, 0.0, p=1.0)
    crop = K.RandomResizedCrop((size, size), scale=AREA)
    return K.AugmentationSequential(crop, K.RandomHorizontalFlip(), jitter, normalize(), data_keys=["input"])


def albumentations(size: int) -> Callable[[list[Any]], list[Any]]:
    import pellucid_bench.peers.albumentations  # noqa: F401  sets what the import must find
    import albumentations as A  # isort: skip

    around = (1 - JITTER, 1 + JITTER)
    jitter = A.ColorJitter(brightness=around, contrast=around, saturation=around, hue=(0, 0), p=1.0)
    pipeline = A.Compose([A.RandomResizedCrop((size, size), AREA), A.HorizontalFlip(), jitter, A.Normalize(MEAN, STD)], seed=0)
    return lambda arrays: [pipeline(image=array)["image"] for array in arrays]


def calls_for(batch: int, size: int) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """The timed calls by name, and why each library that is missing is missing."""
    images = photographs(batch, (8 * size // 7, 10 * size // 7))
    leaf, upstream = images.clone().requires_grad_(), torch.randn(batch, 3, size, size)
    bytes_in, arrays = channels_last_8bit(images), to_8bit_arrays(images)
    calls: dict[str, Callable[[], Any]] = {}
    missing: dict[str, str] = {}

    def add(name: str, pipeline: Callable[[Tensor], Tensor]) -> None:
        calls[name] = lambda: pipeline(images)
        calls[f"{name}, forward + backward"] = lambda: torch.autograd.grad(pipeline(leaf), leaf, upstream)

    compiled, from_bytes = ours(size, "auto"), ours(size, "auto", torch.float32)
    add("pellucid", compiled)
    calls["pellucid, uint8 in"] = lambda: from_bytes(bytes_in)
    add("pellucid, impl='reference'", ours(size, "reference"))
    for name, make in (("torchvision v2, one draw", torchvision), ("kornia, not antialiased", kornia)):
        try:
            add(name, make(size))
        except ImportError as error:
            missing[name] = str(error)
    try:
        looped = albumentations(size)
        calls["albumentations, uint8 loop, not antialiased"] = lambda: looped(arrays)
    except ImportError as error:
        missing["albumentations"] = str(error)
    return calls, missing


def table(timings: dict[str, Timing], missing: dict[str, str]) -> str:
    lines = ["| what | median ms | quartiles | times pellucid |", "|---|---|---|---|"]
    for name, timing in timings.items():
        own = timings["pellucid, forward + backward" if name.endswith("backward") else "pellucid"].median
        span = f"{1e3 * timing.low:.1f} to {1e3 * timing.high:.1f}"
        lines.append(f"| {name} | {1e3 * timing.median:.1f} | {span} | {timing.median / own:.2f} |")
    return "\n".join([*lines, *(f"| {name} | not installed: {why} | | |" for name, why in missing.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--budget", type=float, default=2.0, help="seconds per row")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    calls, missing = calls_for(arguments.batch, arguments.size)
    print(f"{arguments.batch} pictures to {arguments.size} x {arguments.size}, {arguments.threads} threads\n")
    print(table(interleave(calls, budget=arguments.budget), missing))


if __name__ == "__main__":
    main()
