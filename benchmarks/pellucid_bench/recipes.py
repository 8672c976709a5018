"""nnU-Net's operations on a volume and its labels, beside batchgeneratorsv2, MONAI and TorchIO.

Owns: the operations, each library's way of doing them, the table, and the memory of ours.
Must not: print, but for the child process that measures memory.
Read next: ``volumes.py``.

Every operation happens in every call, so that all libraries do the same work: image trilinear, labels nearest, one channel.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import pellucid
from pellucid import Pipeline
from pellucid_bench.compare import Row
from pellucid_bench.measure import Say, interleave, quiet
from pellucid_bench.memory import peak_of

__all__ = ["measure_recipe", "recipe_table"]

LIBRARIES = ("pellucid", "batchgeneratorsv2", "monai", "torchio")
TURN, SHARES, BENT, WINDOW, MIRROR = (
    "turns and zooms",
    "the same, labels by majority",
    "turns and zooms, and elastic",
    "the same, a window of half the size",
    "mirrors along three axes",
)
NOISE, BLUR, BRIGHT, CONTRAST = "noise", "blur", "brightness", "contrast, in the volume's range"
LOW, GAMMA, INVERTED = "low resolution", "gamma, mean and deviation kept", "gamma of the inverted volume"
OFTEN = {NOISE: 0.1, BLUR: 0.2, BRIGHT: 0.15, CONTRAST: 0.15, LOW: 0.25, INVERTED: 0.1, GAMMA: 0.3}
"""Its intensities, and how often each happens; a turn happens to one sample in five, a zoom as well, a mirror to every other."""
_SAMPLES = 16
"""Of which the mean is taken where work is drawn."""
RECIPE, PUBLISHED = "all of nnU-Net's, every time", "nnU-Net's, as often as published"
_KNOTS, _SHARE = 32.0, 0.3
"""Voxels between the knots of elastic fields, and how far of them a knot moves."""


def volume_and_labels(size: int) -> tuple[Tensor, Tensor]:
    """A standardised volume (1, D, H, W), smooth with noise, and labels of its levels."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randn(1, 1, *(max(2, size // 16),) * 3, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (size,) * 3, mode="trilinear", align_corners=True)[0]
    volume = smooth + 0.1 * torch.randn(smooth.shape, generator=generator)
    return (volume - volume.mean()) / volume.std(), (2.0 * smooth).clamp(-2, 2).round().to(torch.int16) + 2


def _pellucid(volume: Tensor, labels: Tensor) -> dict[str, Callable[[], Any]]:
    turn = pellucid.RandomAffine3(degrees=30, scale=(0.7, 1.4))
    bent = pellucid.RandomElastic3(_KNOTS, magnitude=(_SHARE, _SHARE))
    mirror = [pellucid.RandomFlip3(axis, p=1.0) for axis in ("x", "y", "z")]
    intensities = {
        NOISE: pellucid.RandomGaussianNoise(sigma=(0.0, 0.1**0.5), clip="none"),
        BLUR: pellucid.RandomGaussianBlur(7, sigma=(0.5, 1.0)),
        BRIGHT: pellucid.RandomBrightness((0.75, 1.25), clip="none"),
        CONTRAST: pellucid.RandomContrastInRange((0.75, 1.25)),
        LOW: pellucid.RandomLowResolution((0.5, 1.0)),
        INVERTED: pellucid.RandomGammaInRange((0.7, 1.5), invert=True),
        GAMMA: pellucid.RandomGammaInRange((0.7, 1.5)),
    }
    steps: dict[str, list[Any]] = {
        TURN: [turn],
        BENT: [turn, bent],
        MIRROR: mirror,
        **{name: [one] for name, one in intensities.items()},
    }
    steps[WINDOW] = [turn, bent, pellucid.RandomCrop3(volume.shape[-1] // 2)]
    steps[RECIPE] = [turn, *intensities.values(), *mirror]
    rare = [pellucid.RandomAffine3(degrees=30, p=0.2), pellucid.RandomAffine3(scale=(0.7, 1.4), p=0.2)]
    often = [replace(one, p=OFTEN[name]) for name, one in intensities.items()]  # type: ignore[type-var]
    steps[PUBLISHED] = [*rare, *often, *(pellucid.RandomFlip3(axis, p=0.5) for axis in ("x", "y", "z"))]
    batch = {"volume": volume[None], "labelmap": labels[None]}
    shares = Pipeline([turn], seed=0, canvas="image", interpolation={"labelmap": "majority"})
    calls = {name: partial(Pipeline(list(taken), seed=0, canvas="image"), batch) for name, taken in steps.items()}
    return {**calls, SHARES: partial(shares, batch)}


def _batchgenerators(volume: Tensor, labels: Tensor) -> dict[str, Callable[[], Any]]:
    from batchgeneratorsv2.transforms.intensity.brightness import MultiplicativeBrightnessTransform
    from batchgeneratorsv2.transforms.intensity.contrast import ContrastTransform
    from batchgeneratorsv2.transforms.intensity.gamma import GammaTransform
    from batchgeneratorsv2.transforms.intensity.gaussian_noise import GaussianNoiseTransform
    from batchgeneratorsv2.transforms.noise.gaussian_blur import GaussianBlurTransform
    from batchgeneratorsv2.transforms.spatial.low_resolution import SimulateLowResolutionTransform
    from batchgeneratorsv2.transforms.spatial.mirroring import MirrorTransform
    from batchgeneratorsv2.transforms.spatial.spatial import SpatialTransform
    from batchgeneratorsv2.transforms.utils.random import RandomTransform

    size, turn = volume.shape[-1], math.radians(30.0)

    def space(side: int, often: float = 1.0, **more: Any) -> Any:
        ranges: dict[str, Any] = {"p_rotation": often, "rotation": (-turn, turn), "p_scaling": often, "scaling": (0.7, 1.4)}
        more = {"mode_seg": "nearest", **more}
        return SpatialTransform((side,) * 3, 0, False, **ranges, p_synchronize_scaling_across_axes=1.0, **more)

    bends = {"p_elastic_deform": 1.0, "elastic_deform_scale": _KNOTS / size, "elastic_deform_magnitude": _SHARE / 2}
    each: dict[str, Any] = {"synchronize_channels": False, "p_per_channel": 1.0}
    gamma = partial(GammaTransform, (0.7, 1.5), p_retain_stats=1.0, **each)
    intensities = {
        NOISE: GaussianNoiseTransform((0.0, 0.1), 1.0, synchronize_channels=True),
        BLUR: GaussianBlurTransform((0.5, 1.0), synchronize_axes=False, benchmark=False, **each),
        BRIGHT: MultiplicativeBrightnessTransform((0.75, 1.25), **each),
        CONTRAST: ContrastTransform((0.75, 1.25), preserve_range=True, **each),
        LOW: SimulateLowResolutionTransform((0.5, 1.0), synchronize_axes=True, ignore_axes=(), allowed_channels=None, **each),
        INVERTED: gamma(p_invert_image=1.0),
        GAMMA: gamma(p_invert_image=0.0),
    }
    mirror = MirrorTransform((0, 1, 2))  # each axis every other time
    shares = space(size, mode_seg="bilinear")  # each label's share, and the greatest
    steps = {
        TURN: [space(size)],
        SHARES: [shares],
        BENT: [space(size, **bends)],
        WINDOW: [space(size // 2, **bends)],
        MIRROR: [mirror],
    }
    steps |= {name: [one] for name, one in intensities.items()}
    steps[RECIPE] = [space(size), *intensities.values(), mirror]
    steps[PUBLISHED] = [space(size, 0.2), *(RandomTransform(one, OFTEN[name]) for name, one in intensities.items()), mirror]

    def call(taken: list[Any]) -> Any:
        data = {"image": volume.clone(), "segmentation": labels.clone()}  # some write where they read
        for step in taken:
            data = step(**data)
        return data

    return {name: partial(call, taken) for name, taken in steps.items()}


def _monai(volume: Tensor, labels: Tensor) -> dict[str, Callable[[], Any]]:
    from monai import transforms as theirs

    size, turn = volume.shape[-1], math.radians(30.0)
    space: dict[str, Any] = {"keys": ("image", "label"), "prob": 1.0, "mode": ("bilinear", "nearest"), "padding_mode": "zeros"}
    ranges: dict[str, Any] = {"rotate_range": (turn,) * 3, "scale_range": ((-0.3, 0.4),) * 3}
    only: dict[str, Any] = {"keys": "image", "prob": 1.0}
    bent = partial(theirs.Rand3DElasticd, sigma_range=(5.0, 7.0), magnitude_range=(50.0, 150.0), **space, **ranges)
    mirror = [theirs.RandFlipd(("image", "label"), prob=1.0, spatial_axis=axis) for axis in range(3)]
    intensities = {
        NOISE: theirs.RandGaussianNoised(std=0.1**0.5, **only),
        BLUR: theirs.RandGaussianSmoothd(**dict.fromkeys(("sigma_x", "sigma_y", "sigma_z"), (0.5, 1.0)), **only),
        BRIGHT: theirs.RandScaleIntensityd(factors=0.25, **only),
        LOW: theirs.RandSimulateLowResolutiond(zoom_range=(0.5, 1.0), **only),
        INVERTED: theirs.RandAdjustContrastd(gamma=(0.7, 1.5), invert_image=True, retain_stats=True, **only),
        GAMMA: theirs.RandAdjustContrastd(gamma=(0.7, 1.5), retain_stats=True, **only),
    }
    affine = theirs.RandAffined(**space, **ranges)
    window = bent(spatial_size=(size // 2,) * 3)
    steps = {TURN: [affine], BENT: [bent()], WINDOW: [window], MIRROR: mirror, **{n: [one] for n, one in intensities.items()}}
    steps[RECIPE] = [affine, *intensities.values(), *mirror]
    return {name: partial(theirs.Compose(taken), {"image": volume, "label": labels}) for name, taken in steps.items()}


def _torchio(volume: Tensor, labels: Tensor) -> dict[str, Callable[[], Any]]:
    import torchio

    size = volume.shape[-1]
    subject = torchio.Subject(image=torchio.ScalarImage(tensor=volume), label=torchio.LabelMap(tensor=labels))
    turn = torchio.RandomAffine(scales=(0.7, 1.4), degrees=30, isotropic=True, default_pad_value=0)
    bent = torchio.RandomElasticDeformation(round(size / _KNOTS) + 3, _SHARE * _KNOTS / 2, locked_borders=2)
    mirror = torchio.RandomFlip((0, 1, 2), flip_probability=1.0)
    intensities = {
        NOISE: torchio.RandomNoise(0, (0, 0.1**0.5)),
        BLUR: torchio.RandomBlur((0.5, 1.0)),
        LOW: torchio.RandomAnisotropy((0, 1, 2), (1.0, 2.0)),
        GAMMA: torchio.RandomGamma((math.log(0.7), math.log(1.5))),
    }
    steps = {TURN: [turn], BENT: [turn, bent], MIRROR: [mirror], **{name: [one] for name, one in intensities.items()}}
    steps[RECIPE] = [turn, *intensities.values(), mirror]
    return {name: partial(torchio.Compose(taken), subject) for name, taken in steps.items()}


_MAKERS: Mapping[str, Callable[[Tensor, Tensor], dict[str, Callable[[], Any]]]] = {
    "pellucid": _pellucid,
    "batchgeneratorsv2": _batchgenerators,
    "monai": _monai,
    "torchio": _torchio,
}


def measure_recipe(*, size: int, budget: float, say: Say = quiet) -> list[Row]:
    """Time each operation by each library that is installed and has it, in turns.

    Args:
        size: depth, height and width.
        budget: seconds per operation and library.
    """
    volume, labels = volume_and_labels(size)
    rows: list[Row] = []
    ways: dict[str, dict[str, Callable[[], Any]]] = {}
    for library, make in _MAKERS.items():
        try:
            ways[library] = make(volume, labels)
        except ImportError as error:
            rows.append({"case": RECIPE, "subject": library, "status": "missing", "note": str(error)})
    for operation in (TURN, SHARES, BENT, WINDOW, MIRROR, *OFTEN, RECIPE):
        say(operation)
        calls = {library: found[operation] for library, found in ways.items() if operation in found}
        for library, timing in interleave(calls, budget=budget, warmup=1).items():
            times = {"median_ms": timing.median * 1e3, "q1_ms": timing.low * 1e3, "q3_ms": timing.high * 1e3}
            rows.append({"case": operation, "subject": library, "status": "ok", **times})
    say(PUBLISHED)
    taken: dict[str, list[float]] = {library: [] for library, found in ways.items() if PUBLISHED in found}
    for _ in range(_SAMPLES):
        for library, seconds in taken.items():
            begin = time.perf_counter()
            ways[library][PUBLISHED]()
            seconds.append(time.perf_counter() - begin)
    for library, seconds in taken.items():
        mean = sum(seconds) / _SAMPLES * 1e3
        rows.append({"case": PUBLISHED, "subject": library, "status": "ok", "median_ms": mean, "samples": _SAMPLES})
    say("memory")
    for operation in (BENT, RECIPE):
        found = _memory(operation, size)
        if found is not None:
            share = found / (4 * size**3)
            rows.append({"case": operation, "subject": "pellucid", "status": "memory", "volumes": share})
    return rows


def recipe_table(rows: list[Row]) -> str:
    """Milliseconds by operation and library, and how many times our time the fastest other library takes."""
    found = {(row["case"], row["subject"]): row["median_ms"] for row in rows if row["status"] == "ok"}
    present = [library for library in LIBRARIES if any(library == subject for _, subject in found)]
    lines = [f"| ms a sample | {' | '.join(present)} | fastest other, times ours |", "|---" * (len(present) + 2) + "|"]
    for operation in dict.fromkeys(case for case, _ in found):
        cells = [f"{found[operation, library]:.1f}" if (operation, library) in found else "" for library in present]
        others = [found[operation, library] for library in present[1:] if (operation, library) in found]
        share = f"{min(others) / found[operation, 'pellucid']:.1f}" if others else ""
        lines.append(f"| {operation} | {' | '.join(cells)} | {share} |")
    notes = [f"* {row['subject']}: missing, {row['note']}" for row in rows if row["status"] == "missing"]
    notes += [
        f"* peak memory beside the batch during {row['case']!r}, results included: {row['volumes']:.1f} times the volume"
        for row in rows
        if row["status"] == "memory"
    ]
    return "\n".join([*lines, "", *notes] if notes else lines)


def _memory(operation: str, size: int) -> int | None:
    """Bytes beside the batch at the worst moment of a call of ours, in a process of its own; None where that cannot be measured."""
    variables = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
    command = [sys.executable, "-W", "ignore", "-m", __name__, json.dumps([operation, size])]
    if not Path("/proc/self/clear_refs").exists():
        return None
    done = subprocess.run(command, capture_output=True, text=True, timeout=300.0, check=True, env=variables)
    return int(done.stdout.split()[-1])


def _child(operation: str, size: int) -> int:
    small, large = (_pellucid(*volume_and_labels(side))[operation] for side in (32, size))
    small()
    return peak_of(large)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(_child(*json.loads(sys.argv[1])))
