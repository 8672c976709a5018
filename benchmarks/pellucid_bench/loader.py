"""From a folder of JPEG files to normalised batches, end to end, beside torchvision and albumentations.

Owns: the folder, the subjects, and the images per second of each.
Must not: print.
Read next: ``report.py``.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pellucid import ColorJitter, Normalize, Pipeline, RandomHorizontalFlip, RandomResizedCrop
from pellucid.data import Indexed, Order, collate
from pellucid_bench.compare import Row
from pellucid_bench.measure import on_threads
from pellucid_bench.settings import MEAN, STD

__all__ = ["OURS", "loader_table", "make_folder", "measure_loader"]

_SIZE, _BATCH, _JITTER = 224, 32, 0.4
_NAMES = ("astronaut", "chelsea", "coffee", "rocket", "retina", "hubble_deep_field", "immunohistochemistry")
OURS = "pellucid"


def make_folder(root: Path, count: int, *, seed: int = 0) -> list[Path]:
    """JPEG files of natural sizes: cuts of scikit-image's photographs, 300 to 640 pixels a side, quality 90."""
    from PIL import Image
    from skimage import data

    random = np.random.default_rng(seed)
    sources = [Image.fromarray(getattr(data, name)()).convert("RGB") for name in _NAMES if _bundled(data, name)]
    paths = []
    for number in range(count):
        source = sources[number % len(sources)]
        width, height = (int(side) for side in random.integers(300, 641, 2))
        share = random.uniform(0.6, 1.0)
        cut = min(source.width, width / height * source.height) * share, min(source.height, height / width * source.width) * share
        left, top = random.uniform(0, source.width - cut[0]), random.uniform(0, source.height - cut[1])
        path = root / f"{number:04d}.jpg"
        source.resize((width, height), Image.Resampling.BICUBIC, box=(left, top, left + cut[0], top + cut[1])).save(
            path, quality=90
        )
        paths.append(path)
    return paths


def _bundled(data: Any, name: str) -> bool:
    try:
        getattr(data, name)()
    except (OSError, ModuleNotFoundError):  # not in the wheel
        return False
    return True


class _Files(Dataset[Any]):
    """Each file through a function."""

    def __init__(self, paths: list[Path], function: Callable[[Path], Any]) -> None:
        self.paths, self.function = paths, function

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> Any:
        return self.function(self.paths[i])


def _itself(value: Any) -> Any:
    return value


def _rgb(path: Path) -> Any:
    from PIL import Image

    with Image.open(path) as picture:
        return picture.convert("RGB")


def _decoded(path: Path) -> int:
    return int(np.array(_rgb(path)).shape[0])


def _ours(paths: list[Path], workers: int, *, draft: bool, backend: str = "pillow") -> DataLoader[Any]:
    if backend == "opencv":
        import cv2  # noqa: F401 - or the row is missing
    jitter = ColorJitter(_JITTER, _JITTER, saturation=_JITTER)
    augment = Pipeline([RandomResizedCrop(_SIZE), RandomHorizontalFlip(), jitter, Normalize(MEAN, STD)], seed=0)
    data = Indexed(_Files(paths, _itself))
    return DataLoader(
        data, _BATCH, sampler=Order(data), collate_fn=collate(augment, draft=draft, backend=backend), **_options(workers)
    )


def _options(workers: int) -> dict[str, Any]:
    return {"num_workers": workers, "persistent_workers": workers > 0}


def _looped(paths: list[Path], workers: int, function: Callable[[Path], Any]) -> DataLoader[Any]:
    return DataLoader(_Files(paths, function), _BATCH, shuffle=True, **_options(workers))


def _torchvision(paths: list[Path], workers: int, *, tensors: bool) -> DataLoader[Any]:
    from pellucid_bench.peers.torchvision_import import torchvision_v2

    v2 = torchvision_v2()
    chain = v2.Compose(
        [
            *([v2.PILToTensor()] if tensors else []),
            v2.RandomResizedCrop(_SIZE, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ColorJitter(_JITTER, _JITTER, _JITTER),
            *([] if tensors else [v2.PILToTensor()]),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )
    return _looped(paths, workers, partial(_chained, chain, _rgb))


def _albumentations(paths: list[Path], workers: int, *, area: bool) -> DataLoader[Any]:
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    import albumentations as A
    import cv2

    around = (1 - _JITTER, 1 + _JITTER)
    chain = A.Compose(
        [
            A.RandomResizedCrop((_SIZE, _SIZE), interpolation=cv2.INTER_AREA if area else cv2.INTER_LINEAR),
            A.HorizontalFlip(p=0.5),
            A.ColorJitter(brightness=around, contrast=around, saturation=around, hue=(0, 0), p=1.0),
            A.Normalize(MEAN, STD),
        ]
    )
    return _looped(paths, workers, partial(_array_chained, chain))


def _chained(chain: Any, read: Any, path: Path) -> Tensor:
    found: Tensor = chain(read(path))
    return found


def _array_chained(chain: Any, path: Path) -> Tensor:
    found = chain(image=np.array(_rgb(path)))["image"]
    return torch.from_numpy(np.ascontiguousarray(found.transpose(2, 0, 1)))


_SUBJECTS: dict[str, tuple[str, Callable[..., DataLoader[Any]]]] = {
    "decoding alone (Pillow)": ("", partial(_looped, function=_decoded)),
    OURS: ("antialiased, drafts", partial(_ours, draft=True)),
    f"{OURS}, decoded by OpenCV": ("antialiased, drafts", partial(_ours, draft=True, backend="opencv")),
    f"{OURS}, whole pictures": ("antialiased", partial(_ours, draft=False)),
    "torchvision v2, tensors": ("antialiased", partial(_torchvision, tensors=True)),
    "torchvision v2, PIL": ("antialiased", partial(_torchvision, tensors=False)),
    "albumentations": ("not antialiased", partial(_albumentations, area=False)),
    "albumentations, INTER_AREA": ("antialiased", partial(_albumentations, area=True)),
}


def measure_loader(
    *, images: int = 256, workers: tuple[int, ...] = (0, 2), rounds: int = 3, say: Callable[[str], None] = print
) -> list[Row]:
    """Images per second of every subject, the best of several epochs taken in turns; one epoch before that is not timed.

    Every process has one thread; without workers, two are measured, too.
    """
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = make_folder(Path(folder), images)
        for count, threads in [(w, n) for w in workers for n in ((1,) if w else (1, 2))]:
            loaders, missing = _loaders(paths, count)
            regime = {"workers": count, "threads": threads}
            with on_threads(threads):
                best = _timed(loaders, rounds, f"{_named(count, threads)}, ", say)
            rows += [
                {"subject": name, "status": "ok", **regime, "images_per_s": rate, "note": _SUBJECTS[name][0]}
                for name, rate in best.items()
            ]
            rows += [{"subject": name, "status": "missing", **regime, "note": why} for name, why in missing.items()]
    return rows


def _timed(loaders: dict[str, DataLoader[Any]], rounds: int, regime: str, say: Callable[[str], None]) -> dict[str, float]:
    best = dict.fromkeys(loaders, 0.0)
    for turn in range(rounds + 1):
        for name, loader in loaders.items():
            begin = time.perf_counter()
            seen = sum(len(batch) for batch in loader)
            rate = seen / (time.perf_counter() - begin)
            best[name] = max(best[name], rate if turn else 0.0)
            say(f"{regime}{name}: {rate:.0f} images/s{'' if turn else ' (warming up)'}")
    return best


def _named(workers: int, threads: int) -> str:
    return f"{workers} workers" if threads == 1 else f"{workers} workers, {threads} threads"


def _loaders(paths: list[Path], workers: int) -> tuple[dict[str, DataLoader[Any]], dict[str, str]]:
    loaders: dict[str, DataLoader[Any]] = {}
    missing: dict[str, str] = {}
    for name, (_, make) in _SUBJECTS.items():
        try:
            loaders[name] = make(paths, workers)
        except ImportError as error:
            missing[name] = str(error)
    return loaders, missing


def loader_table(rows: list[Row]) -> str:
    """Images per second, as a share of decoding alone, and how many times each peer we are."""
    regimes = sorted({(row["workers"], row["threads"]) for row in rows})
    rates = {(row["subject"], row["workers"], row["threads"]): row["images_per_s"] for row in rows if row["status"] == "ok"}
    heads = [part for regime in regimes for part in (f"{_named(*regime)}, images/s", "of decoding", f"{OURS} is")]
    lines = [f"| | resampling | {' | '.join(heads)} |", "|---|---|" + "---|" * len(heads)]
    for name, (how, _) in _SUBJECTS.items():
        cells = []
        for regime in regimes:
            rate = rates.get((name, *regime))
            if rate is None:
                cells += ["missing", "", ""]
                continue
            alone, ours = rates[next(iter(_SUBJECTS)), *regime], rates[OURS, *regime]
            cells += [f"{rate:.0f}", f"{rate / alone:.0%}", "" if name.startswith((OURS, "decoding")) else f"{ours / rate:.2f} x"]
        lines.append(f"| {name} | {how} | {' | '.join(cells)} |")
    return "\n".join(lines)
