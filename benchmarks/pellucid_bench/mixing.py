"""What mixes pictures of a batch, beside torchvision, kornia and albumentations, where these have it.

Owns: the subjects and their table.
Must not: print.
Read next: ``policies.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import pellucid
from pellucid import Pipeline
from pellucid_bench.compare import Row
from pellucid_bench.measure import Say, interleave, quiet
from pellucid_bench.settings import photographs

__all__ = ["measure_mixing", "mixing_table"]

_CLASSES = 10
OURS: dict[str, Callable[[], Any]] = {
    "MixUp": lambda: pellucid.MixUp(num_classes=_CLASSES),
    "CutMix": lambda: pellucid.CutMix(num_classes=_CLASSES),
    "Mosaic": lambda: pellucid.Mosaic(num_classes=_CLASSES),
    "GridShuffle": lambda: pellucid.GridShuffle(4, p=1.0),
}
_LIBRARIES = ("torchvision", "kornia", "albumentations")


def _torchvision(name: str, images: Tensor, labels: Tensor) -> Callable[[], Any] | None:
    from pellucid_bench.peers.torchvision_import import torchvision_v2

    make = getattr(torchvision_v2(), name, None)
    return None if make is None else partial(make(num_classes=_CLASSES), images, labels)


def _kornia(name: str, images: Tensor, labels: Tensor) -> Callable[[], Any] | None:
    import kornia.augmentation as K

    if name in ("MixUp", "CutMix"):
        mixed = {"MixUp": K.RandomMixUpV2, "CutMix": K.RandomCutMixV2}[name](p=1.0, data_keys=["input", "class"])
        return partial(mixed, images, labels)
    if name == "Mosaic":
        return partial(K.RandomMosaic(output_size=images.shape[-2:], p=1.0, data_keys=["input"]), images)
    return partial(K.RandomJigsaw(grid=(4, 4), p=1.0), images)


def _albumentations(name: str, images: Tensor, labels: Tensor) -> Callable[[], Any] | None:
    import albumentations as A

    del labels
    pictures = list(images.movedim(1, -1).contiguous().numpy())
    if name == "Mosaic":
        size = (images.shape[-2], images.shape[-1])
        mosaic = A.Compose([A.Mosaic(grid_yx=(2, 2), target_size=size, cell_shape=size, p=1.0)])
        others = [[{"image": pictures[i ^ k]} for k in (1, 2, 3)] for i in range(len(pictures))]
        return lambda: [mosaic(image=one, mosaic_metadata=rest) for one, rest in zip(pictures, others, strict=True)]
    if name == "GridShuffle":
        shuffled = A.Compose([A.RandomGridShuffle((4, 4), p=1.0)])
        return lambda: [shuffled(image=one) for one in pictures]
    return None


_PEERS = dict(zip(_LIBRARIES, (_torchvision, _kornia, _albumentations), strict=True))


def measure_mixing(*, batch: int, size: int, budget: float, say: Say = quiet) -> list[Row]:
    """Time every way of mixing on the same photographs, as float32 and as bytes, in turns with the libraries that have it.

    Args:
        batch, size: photographs and their height and width; the batch a multiple of 4.
        budget: seconds per subject.

    Returns:
        A row per transform, dtype and library; ``missing`` ones where a library is not installed, has no such transform or does
        not take these numbers.
    """
    numbers, labels, rows = photographs(batch, size), torch.arange(batch) % _CLASSES, []
    for dtype, images in (("float32", numbers), ("uint8", (numbers * 255.0).round().to(torch.uint8))):
        for name, make in OURS.items():
            say(f"{name}, {dtype}")
            calls: dict[str, Callable[[], Any]] = {
                "pellucid": partial(
                    Pipeline([make()], seed=0), {"image": images, "labels": labels} if name != "GridShuffle" else images
                )
            }
            case: Row = {"case": name, "dtype": dtype}
            for library, peer in _PEERS.items():
                try:
                    call = peer(name, images, labels)
                    if call is not None:
                        call()
                        calls[library] = call
                    note = "has none"
                except Exception as error:  # what a library says to numbers that it does not take has no common class
                    call, note = None, f"{type(error).__name__}: {error}"[:80]
                if call is None:
                    rows.append({"subject": library, **case, "status": "missing", "note": note})
            for subject, timing in interleave(calls, budget=budget).items():
                spread = {"median_ms": timing.median * 1e3, "q1_ms": timing.low * 1e3, "q3_ms": timing.high * 1e3}
                rows.append({"subject": subject, **case, "status": "ok", **spread, "rounds": timing.rounds})
    return rows


def mixing_table(rows: list[Row]) -> str:
    """Medians and quartiles in milliseconds."""
    times = {(row["case"], row["dtype"], row["subject"]): row for row in rows if row["status"] == "ok"}
    lines = [f"| transform | Pellucid, ms (quartiles) | {' | '.join(_LIBRARIES)} |", "|---|---|" + "---|" * len(_LIBRARIES)]
    for name, dtype in dict.fromkeys((row["case"], row["dtype"]) for row in rows):
        cells = [times.get((name, dtype, subject)) for subject in ("pellucid", *_LIBRARIES)]
        texts = ["" if c is None else f"{c['median_ms']:.1f} ({c['q1_ms']:.1f} to {c['q3_ms']:.1f})" for c in cells]
        lines.append(f"| {name}, {dtype} | {' | '.join(texts)} |")
    return "\n".join(lines)
