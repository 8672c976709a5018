"""``pellucid doctor``: facts for a bug report, and a self test of the installation.

Owns: the facts that are printed, and a self test of a few seconds.
Must not: fail where a package is missing; it prints "missing".
Read next: ``../core/compilers/__init__.py``.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["doctor"]

_NEEDED = ("torch", "numpy", "numba", "jaxtyping", "typer", "rich", "pillow", "tomli-w")
_OPTIONAL = {
    "demo": ("scikit-image", "matplotlib"),
    "train": ("safetensors", "opencv-python-headless"),
    "ray": ("ray",),
    "onnx": ("onnx", "onnxscript"),
    "beside": ("triton", "torchvision", "scipy", "scikit-learn"),
}
_SETTINGS = ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "TRITON_INTERPRET", "PELLUCID_DATA")
_ZEROS = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
"""Philox 4x32-10 of a zero counter and a zero key: the known answer from its authors (Random123, kat_vectors)."""


def doctor(
    quick: Annotated[bool, typer.Option("--quick", help="Versions, backends and caches only, without the self test.")] = False,
    device: Annotated[
        str, typer.Option(help="Also launch the kernels of this device, such as cuda, and print each one's check.")
    ] = "",
    hashes: Annotated[Path | None, typer.Option(help="SHA256SUMS of a release: compare the package's object code with it.")] = None,
) -> None:
    """Print versions, backends, threads and caches, and run a self test, for bug reports. Exit code 1 if a test fails."""
    for name, fact in _facts():
        typer.echo(f"{name:<12} {fact}")
    failed = 0
    for name in [] if hashes is None else _strange(hashes):
        failed += 1
        typer.echo(f"{'FAILED':<12} compiled/{name}: not as in {hashes}")
    for name, fault, seconds in () if quick else _tests():
        failed += bool(fault)
        typer.echo(f"{'FAILED' if fault else 'ok':<12} {name} ({seconds:.1f} s)" + (f": {fault}" if fault else ""))
    for variant, found in _launched(device).items() if device and not quick else ():
        failed += found != "agrees"
        typer.echo(f"{'ok' if found == 'agrees' else 'FAILED':<12} {variant}" + ("" if found == "agrees" else f": {found}"))
    if failed:
        raise typer.Exit(1)


def _facts() -> Iterator[tuple[str, str]]:
    import torch

    from pellucid._version import __version__
    from pellucid.core.compilers import numba_works, triton_works

    yield "pellucid", f"{__version__} in {Path(__file__).parents[1]}"
    yield "python", f"{platform.python_version()} ({sys.executable})"
    yield "system", f"{platform.platform()}, {platform.machine()}"
    yield "needed", ", ".join(f"{package} {_version(package)}" for package in _NEEDED)
    for extra, packages in _OPTIONAL.items():
        yield extra, ", ".join(f"{package} {_version(package)}" for package in packages)
    compiled = numba_works()
    yield "cpu", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads of torch; compiled kernels: {_yes(compiled)}"
    if torch.cuda.is_available():
        yield "cuda", f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}; Triton kernels: {_yes(triton_works())}"
    else:
        yield "cuda", "no device"
    yield "cache", _cache(compiled)
    yield "set", ", ".join(f"{name}={os.environ[name]}" for name in _SETTINGS if name in os.environ) or "none of our variables"


def _strange(hashes: Path) -> list[str]:
    """The shipped object files whose hash differs from a release's list, or is missing there."""
    import hashlib

    from pellucid.core.compilers.kept import COMPILED

    listed = {tuple(line.split(maxsplit=1)) for line in hashes.read_text().splitlines()}
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(COMPILED.glob("*.nbc"))}
    return [name for name, one in found.items() if (one, f"pellucid/compiled/{name}") not in listed]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _yes(works: bool) -> str:
    return "yes" if works else "no, the reference computes"


def _cache(compiled: bool) -> str:
    """The folder where Numba keeps compiled kernels."""
    if not compiled:
        return "none: nothing is compiled"
    from numba import config

    folder = Path(config.CACHE_DIR) if config.CACHE_DIR else Path(__file__).parents[1] / "__pycache__"
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    return str(folder) if os.access(nearest, os.W_OK) else f"{folder} cannot be written to; Numba's own choice in the home folder"


def _tests() -> Iterator[tuple[str, str, float]]:
    """Yield (name, fault or an empty text, seconds) for each part of the self test."""
    from pellucid.cli.waiting import waiting

    for name, test in (
        ("draws are the documented ones", _draws),
        ("compiled passes agree with the reference", _agreement),
        ("gradients agree with finite differences", _gradients),
        ("a replay is bit-identical, and inverse undoes a pipeline", _replay),
    ):
        start = time.perf_counter()
        try:
            with waiting(f"Testing: {name}"):
                fault = test()
        except Exception as error:  # any error belongs in the report
            fault = f"{type(error).__name__}: {error}".splitlines()[0]
        yield name, fault, time.perf_counter() - start


def _draws() -> str:
    import torch

    from pellucid.random.philox import philox4x32, round_keys

    none = torch.zeros((2, 1), dtype=torch.int64)
    words = philox4x32(none, none, round_keys(none[0], none[1])).flatten().tolist()
    return "" if words == _ZEROS else f"the hash of zeros is {words}"


def _agreement() -> str:
    import torch

    from pellucid import ColorJitter, Key, Pipeline, RandomAffine, RandomHorizontalFlip

    transforms = [
        RandomAffine(degrees=20, scale=(0.8, 1.2)),
        RandomHorizontalFlip(),
        ColorJitter(0.3, 0.3, saturation=0.3, hue=0.1),
    ]
    images = torch.rand((2, 3, 48, 64), generator=torch.Generator().manual_seed(0))
    key = Key(seed=0)
    results = []
    for impl in ("auto", "reference"):
        leaf = images.clone().requires_grad_()
        out = Pipeline(transforms, impl=impl)(leaf, key=key)
        (slope,) = torch.autograd.grad(out.square().sum(), leaf)
        results.append((out.detach(), slope))
    error = max(float((mine - reference).abs().max()) for mine, reference in zip(*results, strict=True))
    return "" if error < 1e-3 else f"they differ by {error:.1e}"


def _gradients() -> str:
    import torch

    from pellucid import ColorJitter, Key, Pipeline, RandomAffine

    pipeline = Pipeline([RandomAffine(degrees=20), ColorJitter(0.3, 0.3)], impl="reference")
    generator = torch.Generator().manual_seed(1)
    images, along = (torch.rand((1, 3, 12, 12), generator=generator, dtype=torch.float64) for _ in range(2))
    record = pipeline.draw(images, key=Key(seed=0))

    def loss(x: torch.Tensor) -> torch.Tensor:
        return pipeline.apply(x, record).square().sum()

    leaf = images.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(leaf), leaf)
    step = 1e-6
    difference = (loss(images + step * along) - loss(images - step * along)) / (2 * step)
    error = float(((slope * along).sum() - difference).abs() / difference.abs())
    return "" if error < 1e-6 else f"relative error {error:.1e}"


def _replay() -> str:
    import torch

    from pellucid import Key, Pipeline, RandomAffine, RandomHorizontalFlip

    pipeline = Pipeline([RandomAffine(degrees=20), RandomHorizontalFlip()])
    images = torch.rand((2, 3, 32, 40), generator=torch.Generator().manual_seed(2))
    points = torch.rand((2, 5, 2), generator=torch.Generator().manual_seed(3)) * 30
    out, record = pipeline({"image": images, "keypoints": points}, key=Key(seed=0), return_record=True)
    if not torch.equal(pipeline.apply(images, record), out["image"]):
        return "a replay differs"
    error = float((pipeline.inverse({"keypoints": out["keypoints"]}, record)["keypoints"] - points).abs().max())
    return "" if error < 1e-3 else f"the inverse misses by {error:.1e} pixels"


def _launched(device: str) -> dict[str, str]:
    """Launch a device's kernels on float, half and byte pictures, with gradients; return what each one's first check found."""
    import torch

    from pellucid import (
        ColorJitter,
        Pipeline,
        RandomAffine,
        RandomElastic,
        RandomGamma,
        RandomGaussianBlur,
        RandomGaussianNoise,
        RandomResizedCrop,
    )
    from pellucid.errors import invalid
    from pellucid.kernels.first_launch import FOUND

    try:
        place = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise invalid("device", expected="a device that torch reaches", got=f"{device}: {str(error).splitlines()[0]}") from error
    images = torch.rand((2, 3, 61, 77), generator=torch.Generator().manual_seed(0)).to(place)
    for transforms in (
        [RandomAffine(30, scale=(0.7, 1.3)), ColorJitter(0.4, 0.4, saturation=0.4, hue=0.1)],
        [RandomResizedCrop(32)],
        [RandomElastic()],
        [RandomGaussianBlur(5), RandomGamma(0.5), RandomGaussianNoise(sigma=0.1)],
    ):
        augment = Pipeline(transforms, seed=0)
        augment((images * 255).to(torch.uint8))
        for dtype in (torch.float32, torch.float16):
            augment(images.to(dtype).requires_grad_()).float().square().sum().backward()
    return FOUND or {"no Triton kernel runs here: the reference or the CPU's kernels compute": "agrees"}
