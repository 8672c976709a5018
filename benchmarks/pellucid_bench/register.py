"""Alignment beside others: photographs under known maps, and real sequences where there are any.

Owns: the pairs, the methods and their table.
Must not: print.
Read next: ``reach.py``.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.functional import get_perspective_transform, warp
from pellucid.registration import align
from pellucid_bench.compare import Row
from pellucid_bench.reach import pictures

__all__ = ["SHIFTS", "measure_register", "register_table"]

SHIFTS = (5.0, 10.0, 20.0, 40.0)
"""How far each corner of a picture of 512 pixels is moved, in a random direction."""
_SMALL, _LARGE = 128, 512
_TURNS = {
    "turns to 10, scales to 1.1, shifts to 8 px": (10.0, 1.1, 8.0),
    "turns to 20, scales to 1.2, shifts to 12 px": (20.0, 1.2, 12.0),
}
_NOISE, _GAIN, _OFFSET = 0.01, 1.2, 0.05

Method = Callable[[Tensor, Tensor, Tensor, str], Tensor | None]
"""(fixed, moving, start, model) -> moving from fixed; None where it gave up."""


def measure_register(*, draws: int = 1, photographs: int = 10, say: Callable[[str], None] = lambda _: None) -> list[Row]:
    """Corner errors of every method on every set of pairs.

    Args:
        draws: maps per picture of 128 pixels.
        photographs: how many of the pictures at 512 pixels.
        say: is told of progress.
    """
    rows: list[Row] = []
    small = list(pictures(220).values())
    for label, (degrees, scale, shift) in _TURNS.items():
        random = torch.Generator().manual_seed(0)
        pairs = [_pair(image, _similarity(random, degrees, scale, shift), _SMALL, random) for _ in range(draws) for image in small]
        rows += _measured(f"{_SMALL} px, {label}", pairs, "similarity", say)
    large = list(pictures(680).values())[:photographs]
    for shift in SHIFTS:
        random = torch.Generator().manual_seed(0)
        pairs = [_pair(image, _bent(random, shift), _LARGE, random) for image in large]
        rows += _measured(f"{_LARGE} px, corners moved by {shift:g} px", pairs, "homography", say)
    real = _sequences()
    if real:
        rows += _measured("real sequences, corners given to 20 px", real, "homography", say)
    return rows


def register_table(rows: Sequence[Row]) -> str:
    """Share within a pixel, median corner error, and seconds of CPU time a pair."""
    lines = ["| pairs | method | within 1 px | median, px | CPU s a pair |", "|---|---|---|---|---|"]
    for row in rows:
        numbers = f"{100 * row['within']:.0f} % | {row['median']:.3f} | {row['seconds']:.2f}"
        lines.append(f"| {row['case']} ({row['pairs']}) | {row['subject']} | {numbers} |")
    return "\n".join(lines)


def _measured(case: str, pairs: list[tuple[Tensor, Tensor, Tensor, Tensor]], model: str, say: Callable[[str], None]) -> list[Row]:
    rows: list[Row] = []
    for name, method in _methods().items():
        say(f"{case}: {name}")
        errors: list[float] = []
        before = time.process_time()
        for fixed, moving, start, truth in pairs:
            found = method(fixed, moving, start, model)
            errors.append(math.inf if found is None else _corner_error(found, truth, fixed))
        seconds = (time.process_time() - before) / len(pairs)
        within, median = sum(e < 1 for e in errors) / len(errors), sorted(errors)[len(errors) // 2]
        rows.append(
            {
                "case": case,
                "subject": name,
                "status": "ok",
                "pairs": len(pairs),
                "within": within,
                "median": median,
                "seconds": seconds,
            }
        )
    return rows


def _methods() -> dict[str, Method]:
    found: dict[str, Method] = {"pellucid align": _ours}
    try:
        import cv2
    except ImportError:
        return found
    filters = (1, 5, 11)
    for size in filters:
        found[f"OpenCV findTransformECC, filter {size}"] = partial(_ecc, cv2, size)
    found["OpenCV SIFT + MAGSAC"] = lambda *given: _sift(cv2, *given[:2])
    return found


def _ours(fixed: Tensor, moving: Tensor, start: Tensor, model: str) -> Tensor | None:
    return align(fixed, moving, model=model, start=start).matrix[0]


def _ecc(cv2: Any, size: int, fixed: Tensor, moving: Tensor, start: Tensor, model: str) -> Tensor | None:
    motion = cv2.MOTION_HOMOGRAPHY if model == "homography" else cv2.MOTION_AFFINE
    begin = start.numpy().astype(np.float32)[: 3 if model == "homography" else 2].copy()
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 200, 1e-7)
    try:
        _, matrix = cv2.findTransformECC(fixed[0].numpy(), moving[0].numpy(), begin, motion, criteria, None, size)
    except cv2.error:
        return None
    return torch.from_numpy(np.vstack([matrix, [0, 0, 1]]) if len(matrix) == 2 else matrix).float()


def _sift(cv2: Any, fixed: Tensor, moving: Tensor) -> Tensor | None:
    sides = [(part[0].clamp(0, 1) * 255).to(torch.uint8).numpy() for part in (fixed / _GAIN, moving)]
    (a, da), (b, db) = (cv2.SIFT_create(4000).detectAndCompute(side, None) for side in sides)
    if da is None or db is None or min(len(da), len(db)) < 2:
        return None
    found = cv2.BFMatcher().knnMatch(da, db, 2)
    good = [pair[0] for pair in found if len(pair) == 2 and pair[0].distance < 0.8 * pair[1].distance]
    if len(good) < 4:
        return None
    places = [np.array([a[m.queryIdx].pt for m in good], np.float32), np.array([b[m.trainIdx].pt for m in good], np.float32)]
    matrix, _ = cv2.findHomography(*places, cv2.USAC_MAGSAC, 2.0, maxIters=5000, confidence=0.999)
    return None if matrix is None else torch.from_numpy(matrix).float()


def _corner_error(found: Tensor, truth: Tensor, fixed: Tensor) -> float:
    height, width = fixed.shape[-2] - 1.0, fixed.shape[-1] - 1.0
    corners = torch.tensor([[0, width, width, 0], [0, 0, height, height], [1, 1, 1, 1]], dtype=torch.float64)
    a, b = (matrix.double() @ corners for matrix in (found, truth))
    error = float((a[:2] / a[2] - b[:2] / b[2]).norm(dim=0).mean())
    return error if math.isfinite(error) else math.inf


def _pair(image: Tensor, matrix: Tensor, side: int, random: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(fixed, moving, start, moving from fixed): a window of the picture, and the same through the map, brighter and noisy."""
    inset = (image.shape[-1] - side) // 2
    cut = torch.tensor([[1.0, 0, inset], [0, 1, inset], [0, 0, 1]])
    moving, fixed = (
        warp(image, m, size=(side, side), interpolation="bicubic", padding_mode="reflection") for m in (cut, cut @ matrix)
    )
    fixed, moving = (part + _NOISE * torch.randn(part.shape, generator=random) for part in (_GAIN * fixed + _OFFSET, moving))
    return fixed, moving, torch.eye(3), matrix


def _similarity(random: torch.Generator, degrees: float, scale: float, shift: float) -> Tensor:
    a, s, x, y = (2 * torch.rand(4, generator=random) - 1).tolist()
    factor, angle, middle = scale**s, math.radians(degrees * a), (_SMALL - 1) / 2
    c, d = factor * math.cos(angle), factor * math.sin(angle)
    about = torch.tensor([[1.0, 0, middle], [0, 1, middle], [0, 0, 1]])
    return about @ torch.tensor([[c, d, shift * x], [-d, c, shift * y], [0, 0, 1]]) @ torch.linalg.inv(about)


def _bent(random: torch.Generator, shift: float) -> Tensor:
    last = _LARGE - 1.0
    corners = torch.tensor([[0, 0], [last, 0], [last, last], [0, last]])
    turn = 2 * math.pi * torch.rand(4, generator=random)
    return get_perspective_transform(corners, corners + shift * torch.stack((turn.cos(), turn.sin()), 1)).float().reshape(3, 3)


def _sequences() -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Planar sequences in HPatches layout under ``PELLUCID_DATA``: pictures 2 to 6 onto the first, from corners off by 20 px."""
    from pellucid.features.data.photographs import read_gray

    folder, found = os.environ.get("PELLUCID_DATA"), []
    for first in sorted(Path(folder).glob("*/1.ppm")) if folder else []:
        fixed = read_gray(first)
        height, width = fixed.shape[-2] - 1.0, fixed.shape[-1] - 1.0
        corners = torch.tensor([[0, 0], [width, 0], [width, height], [0, height]])
        random = torch.Generator().manual_seed(0)
        for number in range(2, 7):
            truth = torch.from_numpy(np.loadtxt(first.parent / f"H_1_{number}")).float()
            ends = torch.cat((corners, torch.ones(4, 1)), 1) @ truth.T
            turn = 2 * math.pi * torch.rand(4, generator=random)
            given = ends[:, :2] / ends[:, 2:] + 20 * torch.stack((turn.cos(), turn.sin()), 1)
            start = get_perspective_transform(corners, given).float().reshape(3, 3)
            found.append((fixed, read_gray(first.parent / f"{number}.ppm"), start, truth / truth[2, 2]))
    return found
