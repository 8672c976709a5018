"""Twelve pipelines people write, on pictures larger than what comes out, beside the libraries they come from.

Owns: the pipelines, said once for every library; the inputs; the times; their table.
Must not: print.
Read next: ``report.py``.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

import pellucid as pl
from pellucid_bench.compare import Row
from pellucid_bench.measure import Say, interleave, quiet
from pellucid_bench.settings import MEAN, STD, photographs

__all__ = ["PIPELINES", "SIZES", "behind", "libraries", "measure_real", "real_table"]

Step = tuple[Any, ...]
"""What it is called in the tables of libraries below, and its numbers."""

_END: list[Step] = [("normalize",)]
PIPELINES: dict[str, list[Step]] = {
    "classification, training": [("crop", 224, (0.08, 1.0)), ("flip",), ("jitter", 0.4, 0.4, 0.4, 0.0, 1.0), *_END],
    "classification, evaluation": [("resize", 256), ("center", 224), *_END],
    "classification, turned": [("crop", 224, (0.35, 1.0)), ("affine", 15, 0.1, (0.9, 1.1), 5), ("flip",), *_END],
    "detection, letterbox": [("letterbox", 416), ("flip",), ("jitter", 0.4, 0.4, 0.7, 0.015, 1.0), *_END],
    "detection, affine": [("affine", 5, 0.1, (0.5, 1.5), 2), ("flip",), ("jitter", 0.2, 0.2, 0.2, 0.0, 1.0), *_END],
    "segmentation, crop": [("crop", 320, (0.25, 1.0)), ("flip",), ("jitter", 0.3, 0.3, 0.3, 0.0, 0.5), *_END],
    "segmentation, turn": [("cut", 384), ("rotate", 20), ("flip",), *_END],
    "SimCLR": [("crop", 224, (0.2, 1.0)), ("flip",), ("jitter", 0.8, 0.8, 0.8, 0.2, 0.8), ("gray", 0.2), ("blur", 23, 0.5), *_END],
    "DINO, local view": [("crop", 96, (0.05, 0.4)), ("flip",), ("jitter", 0.4, 0.4, 0.2, 0.1, 0.8), ("gray", 0.2), *_END],
    "pose, geometry": [("affine", 30, 0.1, (0.7, 1.3), 0), ("perspective", 0.3), ("flip",), ("resize", 256), *_END],
    "aerial": [("cut", 256), ("flip",), ("flip up",), ("rotate", 180), ("jitter", 0.2, 0.2, 0.2, 0.0, 1.0), *_END],
    "robustness": [("crop", 224, (0.25, 1.0)), ("flip",), ("blur", 5, 0.3), ("noise", 0.05), ("erase", 0.25), *_END],
}
SIZES = {"480x640": (480, 640), "1080x1920": (1080, 1920)}
_SHRINKING = {"crop", "resize", "letterbox"}
_LOW_PASS = {"pellucid", "torchvision", "albumentations INTER_AREA"}
"""Who antialiases where a picture shrinks: they are compared with one another, and the others with ours without it."""
_HEADS = (
    "pellucid, batch",
    "pellucid, one by one",
    "torchvision, one by one",
    "albumentations INTER_AREA, one by one",
    "pellucid antialias=False, batch",
    "pellucid antialias=False, one by one",
    "albumentations, one by one",
    "kornia, batch",
)


def _ours(*, antialias: bool = True) -> Mapping[str, Callable[..., Any]]:
    return {
        "crop": lambda size, scale: pl.RandomResizedCrop(size, scale=scale, antialias=antialias),
        "cut": pl.RandomCrop,
        "center": pl.CenterCrop,
        "resize": partial(pl.Resize, antialias=antialias),
        "letterbox": partial(pl.Letterbox, antialias=antialias),
        "flip": pl.RandomHorizontalFlip,
        "flip up": pl.RandomVerticalFlip,
        "jitter": lambda b, c, s, h, p: pl.ColorJitter(b, c, saturation=s, hue=h, p=p),
        "gray": lambda p: pl.RandomGrayscale(p=p),
        "blur": lambda size, p: pl.RandomGaussianBlur(size, sigma=(0.1, 2.0), p=p),
        "affine": lambda d, t, scale, shear: pl.RandomAffine(d, translate=(t, t), scale=scale, shear=shear),
        "rotate": pl.RandomRotation,
        "perspective": lambda d: pl.RandomPerspective(d, p=1.0),
        "erase": lambda p: pl.RandomErasing(p=p),
        "noise": lambda std: pl.RandomGaussianNoise(sigma=(std, std), p=1.0),
        "normalize": lambda: pl.Normalize(MEAN, STD),
    }


def _torchvision(v2: Any) -> Mapping[str, Callable[..., Any]]:
    linear = v2.InterpolationMode.BILINEAR
    return {
        "crop": lambda size, scale: v2.RandomResizedCrop(size, scale=scale, antialias=True),
        "cut": v2.RandomCrop,
        "center": v2.CenterCrop,
        "resize": lambda size: v2.Resize(size, antialias=True),
        "letterbox": lambda size: v2.Compose([v2.Resize(None, max_size=size, antialias=True), _Padded(v2, size)]),
        "flip": v2.RandomHorizontalFlip,
        "flip up": v2.RandomVerticalFlip,
        "jitter": lambda b, c, s, h, p: v2.RandomApply([v2.ColorJitter(b, c, s, h)], p=p),
        "gray": v2.RandomGrayscale,
        "blur": lambda size, p: v2.RandomApply([v2.GaussianBlur(size, (0.1, 2.0))], p=p),
        "affine": lambda d, t, scale, shear: v2.RandomAffine(d, (t, t), scale, shear, interpolation=linear),
        "rotate": lambda d: v2.RandomRotation(d, interpolation=linear),
        "perspective": lambda d: v2.RandomPerspective(d, p=1.0),
        "erase": lambda p: v2.RandomErasing(p=p),
        "noise": lambda std: v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.GaussianNoise(sigma=std)]),
        "normalize": lambda: v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]),
    }


class _Padded:
    """Equal borders up to a square."""

    def __init__(self, v2: Any, size: int) -> None:
        self.pad, self.size = v2.functional.pad, size

    def __call__(self, image: Tensor) -> Tensor:
        down, across = (self.size - side for side in image.shape[-2:])
        padded: Tensor = self.pad(image, [across // 2, down // 2, across - across // 2, down - down // 2])
        return padded


def _albumentations(A: Any, *, area: bool) -> Mapping[str, Callable[..., Any]]:
    shrinking = {"interpolation": 3 if area else 1}  # cv2.INTER_AREA, cv2.INTER_LINEAR

    def around(value: float) -> tuple[float, float]:
        return max(0.0, 1 - value), 1 + value

    def jitter(b: float, c: float, s: float, h: float, p: float) -> Any:
        return A.ColorJitter(brightness=around(b), contrast=around(c), saturation=around(s), hue=(-h, h), p=p)

    def affine(d: float, t: float, scale: tuple[float, float], shear: float) -> Any:
        move = {"x": (-t, t), "y": (-t, t)}
        slant = {"x": (-shear, shear), "y": (0, 0)}
        return A.Affine(scale=scale, translate_percent=move, rotate=(-d, d), shear=slant, keep_ratio=True, p=1.0)

    return {
        "crop": lambda size, scale: A.RandomResizedCrop((size, size), scale=scale, **shrinking),
        "cut": lambda size: A.RandomCrop(size, size),
        "center": lambda size: A.CenterCrop(size, size),
        "resize": lambda size: A.SmallestMaxSize(size, **shrinking),
        "letterbox": lambda size: A.Compose([A.LongestMaxSize(size, **shrinking), A.PadIfNeeded(size, size)]),
        "flip": lambda: A.HorizontalFlip(p=0.5),
        "flip up": lambda: A.VerticalFlip(p=0.5),
        "jitter": jitter,
        "gray": lambda p: A.ToGray(p=p),
        "blur": lambda size, p: A.GaussianBlur(blur_limit=(size, size), sigma_limit=(0.1, 2.0), p=p),
        "affine": affine,
        "rotate": lambda d: A.Rotate(limit=d, border_mode=0, p=1.0),
        "perspective": lambda d: A.Perspective(scale=(0.05, d / 4), p=1.0),
        "erase": lambda p: A.Erasing(p=p),
        "noise": lambda std: A.GaussNoise(std_range=(std, std), p=1.0),
        "normalize": lambda: A.Normalize(MEAN, STD),
    }


def _kornia(K: Any) -> Mapping[str, Callable[..., Any]]:
    return {
        "crop": lambda size, scale: K.RandomResizedCrop((size, size), scale=scale),
        "cut": lambda size: K.RandomCrop((size, size)),
        "center": lambda size: K.CenterCrop((size, size)),
        "resize": lambda size: K.SmallestMaxSize(size),
        "flip": lambda: K.RandomHorizontalFlip(p=0.5),
        "flip up": lambda: K.RandomVerticalFlip(p=0.5),
        "jitter": lambda b, c, s, h, p: K.ColorJitter(b, c, s, h, p=p),
        "gray": lambda p: K.RandomGrayscale(p=p),
        "blur": lambda size, p: K.RandomGaussianBlur((size, size), (0.1, 2.0), p=p),
        "affine": lambda d, t, scale, shear: K.RandomAffine(d, (t, t), scale, shear, p=1.0),
        "rotate": lambda d: K.RandomRotation(d, p=1.0),
        "perspective": lambda d: K.RandomPerspective(d, p=1.0),
        "erase": lambda p: K.RandomErasing(p=p),
        "noise": lambda std: K.RandomGaussianNoise(std=std, p=1.0),
        "normalize": lambda: K.Normalize(torch.tensor(MEAN), torch.tensor(STD)),
    }


def _chain(table: Mapping[str, Callable[..., Any]], steps: Sequence[Step]) -> list[Any] | None:
    """A library's own transforms, or None where it has none for a step."""
    if any(name not in table for name, *_ in steps):
        return None
    return [table[name](*numbers) for name, *numbers in steps]


def _calls(steps: Sequence[Step], images: Tensor, libraries: Mapping[str, Any]) -> dict[tuple[str, str], Callable[[], Any]]:
    """By (library, regime): the call that augments these pictures."""
    calls: dict[tuple[str, str], Callable[[], Any]] = {}
    singles = list(images)
    for antialias in (True, False) if _shrinks(steps) else (True,):
        pipeline = pl.Pipeline(_chain(_ours(antialias=antialias), steps) or (), seed=0)
        name = "pellucid" if antialias else "pellucid antialias=False"
        calls[name, "batch"] = partial(pipeline, images)
        calls[name, "one by one"] = partial(_one_by_one, pipeline, singles)
    if "torchvision" in libraries and (chain := _chain(_torchvision(libraries["torchvision"]), steps)):
        compose = libraries["torchvision"].Compose(chain)
        calls["torchvision", "one by one"] = lambda: [compose(image) for image in singles]
    arrays = [image.permute(1, 2, 0).contiguous().numpy() for image in images]
    for area in (False, True) if "albumentations" in libraries else ():
        chain = _chain(_albumentations(libraries["albumentations"], area=area), steps)
        whole = libraries["albumentations"].Compose(chain, seed=0)
        calls["albumentations INTER_AREA" if area else "albumentations", "one by one"] = partial(_each, whole, arrays)
    if "kornia" in libraries and images.is_floating_point() and (chain := _chain(_kornia(libraries["kornia"]), steps)):
        sequence = libraries["kornia"].AugmentationSequential(*chain, data_keys=["input"])
        calls["kornia", "batch"] = partial(sequence, images)
    return calls


def _shrinks(steps: Sequence[Step]) -> bool:
    return any(name in _SHRINKING for name, *_ in steps)


def _one_by_one(pipeline: pl.Pipeline, images: Sequence[Tensor]) -> list[Any]:
    return [pipeline(image) for image in images]


def _each(compose: Any, arrays: Sequence[Any]) -> list[Any]:
    return [compose(image=array)["image"] for array in arrays]


def libraries() -> tuple[dict[str, Any], dict[str, str]]:
    """The peers' modules that can be imported, and why the others cannot."""
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # it would ask the network on import
    found: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, module in (("torchvision", ""), ("albumentations", "albumentations"), ("kornia", "kornia.augmentation")):
        try:
            if module:
                found[name] = importlib.import_module(module)
            else:
                from pellucid_bench.peers.torchvision_import import torchvision_v2

                found[name] = torchvision_v2()
        except ImportError as error:
            missing[name] = str(error).partition("\n")[0][:80]
    return found, missing


def measure_real(*, batch: int = 8, budget: float = 0.5, only: Sequence[str] = (), say: Say = quiet) -> list[Row]:
    """One row per pipeline, size of picture, dtype, library and regime: CPU time, medians over draws.

    Args:
        batch: pictures per call at 480x640; at 1080x1920 a quarter of it.
        budget: seconds for each.
        only: names of pipelines; default all.
        say: told what is measured.
    """
    present, missing = libraries()
    rows: list[Row] = [{"subject": name, "status": "missing", "note": why} for name, why in missing.items()]
    for place, size in SIZES.items():
        count = batch if place == "480x640" else max(1, batch // 4)
        pictures = photographs(count, size)
        for dtype, images in (("float32", pictures), ("uint8", (pictures * 255).round().to(torch.uint8))):
            for name, steps in PIPELINES.items():
                if only and name not in only:
                    continue
                say(f"{name}, {count} of {place}, {dtype}")
                calls = _calls(steps, images, present)
                what = {"pipeline": name, "size": place, "dtype": dtype, "batch": count}
                working: dict[str, Callable[[], Any]] = {}
                for (library, regime), call in calls.items():
                    try:
                        call()
                    except Exception as error:  # a peer's own limits
                        note = f"{type(error).__name__}: {str(error)[:80]}"
                        rows.append({**what, "subject": library, "regime": regime, "status": "refused", "note": note})
                    else:
                        working[f"{library}|{regime}"] = call
                for key, timing in interleave(working, budget=budget, rounds=20, warmup=1, clock=time.process_time).items():
                    library, _, regime = key.partition("|")
                    numbers = {"median_ms": timing.median * 1e3, "q1_ms": timing.low * 1e3, "q3_ms": timing.high * 1e3}
                    rows.append({**what, "subject": library, "regime": regime, "status": "ok", **numbers, "rounds": timing.rounds})
    return rows


def _groups(rows: list[Row]) -> dict[tuple[str, str, str], dict[str, Row]]:
    groups: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        if "pipeline" in row:
            key = row["pipeline"], row["size"], row["dtype"]
            groups.setdefault(key, {})[f"{row['subject']}, {row['regime']}"] = row
    return groups


def _ratios(group: Mapping[str, Row]) -> tuple[float | None, float | None]:
    """How many times our fastest regime goes into the fastest peer's time: of those that antialias, and of those that do not.

    Where nothing shrinks, all are compared with one another, and there is one ratio.
    """
    name = next(iter(group.values()))["pipeline"]
    if not _shrinks(PIPELINES[name]):
        return _ratio(list(group.values())), None
    low = [row for row in group.values() if row["subject"] in _LOW_PASS]
    return _ratio(low), _ratio([row for row in group.values() if row["subject"] not in _LOW_PASS])


def _ratio(rows: Sequence[Row]) -> float | None:
    times: dict[bool, list[float]] = {True: [], False: []}
    for row in rows:
        if row["status"] == "ok":
            times[row["subject"].startswith("pellucid")].append(row["median_ms"])
    return min(times[False]) / min(times[True]) if times[True] and times[False] else None


def behind(rows: list[Row]) -> list[tuple[str, str, str, str]]:
    """Where the fastest peer that does the same work is faster than we are in either regime, and which work that is."""
    found = []
    for key, group in _groups(rows).items():
        for ratio, how in zip(_ratios(group), ("", "not antialiased"), strict=True):
            if ratio is not None and ratio < 1:
                found.append((*key, how))
    return found


def real_table(rows: list[Row]) -> str:
    """Milliseconds per picture, and how many times ours goes into the time of the fastest peer that does the same work."""
    lines = [
        "The first four columns antialias if a crop or a resize shrinks; the others do not. A ratio compares equal work.",
        "",
    ]
    for size in SIZES:
        for dtype in ("float32", "uint8"):
            heads = [*_HEADS, "fastest peer / ours", "not antialiased"]
            lines += [f"**{size}, {dtype}**, ms per picture", "", f"| | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
            for (name, *where), group in _groups(rows).items():
                if where == [size, dtype]:
                    cells = [_cell(group.get(head)) for head in _HEADS]
                    cells += ["" if ratio is None else f"{ratio:.2f}" for ratio in _ratios(group)]
                    lines.append(f"| {name} | {' | '.join(cells)} |")
            lines.append("")
    late = behind(rows)
    total = sum(ratio is not None for group in _groups(rows).values() for ratio in _ratios(group))
    lines.append(f"Behind the fastest peer in {len(late)} of {total}{':' if late else '.'}")
    lines += [f"* {', '.join(filter(None, one))}" for one in late]
    lines += [f"* {row['subject']} is missing: {row['note']}" for row in rows if row["status"] == "missing"]
    return "\n".join(lines)


def _cell(row: Row | None) -> str:
    if row is None:
        return "-"
    return f"{row['median_ms'] / row['batch']:.2f}" if row["status"] == "ok" else "refused"
