"""Alignment beside others: photographs under known maps, and real sequences where there are any.

Owns: the pairs and their table.
Must not: print.
Read next: ``aligners.py``.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.functional import get_perspective_transform, warp
from pellucid_bench.aligners import GAIN, bspline_methods, methods
from pellucid_bench.compare import Row
from pellucid_bench.reach import pictures

__all__ = ["SHIFTS", "measure_register", "register_table"]

SHIFTS = (5.0, 10.0, 20.0, 40.0, 60.0, 80.0)
"""How far each corner of a picture of 512 pixels is moved, in a random direction."""
_SMALL, _LARGE, _BENT = 128, 512, 192
_TURNS = {
    "turns to 10, scales to 1.1, shifts to 8 px": (10.0, 1.1, 8.0),
    "turns to 20, scales to 1.2, shifts to 12 px": (20.0, 1.2, 12.0),
}
_NOISE, _OFFSET = 0.01, 0.05
_SLICES = ("cell", "ihc", "microaneurysms", "retina")
"""What scikit-image's wheel has of medical pictures; the rest are photographs."""
_BEND = 4.0
"""Standard deviation of a deformation's control points, in pixels; they lie 32 pixels apart."""


def measure_register(*, draws: int = 1, photographs: int = 10, say: Callable[[str], None] = lambda _: None) -> list[Row]:
    """Corner errors of every method on every set of pairs, and end-point errors under deformations.

    Args:
        draws: maps per picture of 128 pixels.
        photographs: how many of the pictures at 512 pixels.
        say: is told of progress.
    """
    return [*_turned_pictures(draws, say), *_moved_corners(photographs, say), *_real_sequences(say), *_bent_pictures(say)]


def _turned_pictures(draws: int, say: Callable[[str], None]) -> list[Row]:
    rows: list[Row] = []
    small = list(pictures(220).values())
    for label, (degrees, scale, shift) in _TURNS.items():
        random = torch.Generator().manual_seed(0)
        pairs = [_pair(image, _similarity(random, degrees, scale, shift), _SMALL, random) for _ in range(draws) for image in small]
        rows += _measured(f"{_SMALL} px, {label}", pairs, "similarity", say)
    return rows


def _moved_corners(photographs: int, say: Callable[[str], None]) -> list[Row]:
    rows: list[Row] = []
    large = list(pictures(680).values())[:photographs]
    for shift in SHIFTS:
        random = torch.Generator().manual_seed(0)
        pairs = [_pair(image, _bent(random, shift), _LARGE, random) for image in large]
        found = _measured(f"{_LARGE} px, corners moved by {shift:g} px", pairs, "homography", say)
        rows += [{**row, "shift": shift} for row in found]
    return rows


def _real_sequences(say: Callable[[str], None]) -> list[Row]:
    pairs = _sequences()
    return _measured("real sequences, corners given to 20 px", pairs, "homography", say) if pairs else []


def register_table(rows: Sequence[Row]) -> str:
    """Share within a pixel, median error, and seconds of CPU time a pair; of OpenCV's filters the best one of each set."""
    lines = ["| pairs | method | within 1 px | median, px | CPU s a pair |", "|---|---|---|---|---|"]
    cases = dict.fromkeys(row["case"] for row in rows)
    reached: dict[str, float] = {}
    for case in cases:
        here = [row for row in rows if row["case"] == case]
        filters = [row for row in here if "filter" in row["subject"]]
        best = max(filters, key=lambda row: (row["within"], -row["median"]), default=None)
        for row in (row for row in here if row not in filters or row is best):
            numbers = f"{100 * row['within']:.0f} % | {row['median']:.3f} | {row['seconds']:.2f}"
            lines.append(f"| {row['case']} ({row['pairs']}) | {row['subject']} | {numbers} |")
            shift = row.get("shift")
            if shift is not None and row["within"] >= 0.9:
                name = row["subject"].partition(", filter")[0]
                reached[name] = max(shift, reached.get(name, 0.0))
    text = ", ".join(f"{name} {shift:g} px" for name, shift in reached.items())
    return "\n".join([*lines, *(["", f"Largest movement of the corners of 512 px that 90 % survive: {text}."] if reached else [])])


def _measured(case: str, pairs: list[tuple[Tensor, Tensor, Tensor, Tensor]], model: str, say: Callable[[str], None]) -> list[Row]:
    rows: list[Row] = []
    for name, method in methods(model).items():
        say(f"{case}: {name}")
        errors: list[float] = []
        method(*pairs[0][:3], model)  # what compiles at first use
        before = time.process_time()
        for fixed, moving, start, truth in pairs:
            found = method(fixed, moving, start, model)
            errors.append(math.inf if found is None else _corner_error(found, truth, fixed))
        seconds = (time.process_time() - before) / len(pairs)
        rows.append(_row(case, name, errors, seconds))
    return rows


def _row(case: str, name: str, errors: list[float], seconds: float) -> Row:
    within, median = sum(e < 1 for e in errors) / len(errors), sorted(errors)[len(errors) // 2]
    return {
        "case": case,
        "subject": name,
        "status": "ok",
        "pairs": len(errors),
        "within": within,
        "median": median,
        "seconds": seconds,
    }


def _bent_pictures(say: Callable[[str], None]) -> list[Row]:
    """Mean end-point errors of B-splines on deformed pictures, brighter and noisy, 16 pixels from the border on."""
    rows: list[Row] = []
    side, inset = _BENT, 16
    kinds: dict[str, list[Tensor]] = {"photographs": [], "slices": []}
    for name, image in pictures(side + 2 * inset).items():
        kinds["slices" if name in _SLICES else "photographs"].append(image)
    for kind, images in ((kind, images) for kind, images in kinds.items() if images):
        random = torch.Generator().manual_seed(0)
        pairs = []
        for image in images:
            control = _BEND * torch.randn((1, 2, 8, 8), generator=random)
            field = F.interpolate(control, (side + 1, side + 1), mode="bicubic", align_corners=True)[..., :-1, :-1]
            cut = torch.tensor([[1.0, 0, inset], [0, 1, inset], [0, 0, 1]])
            options: dict[str, Any] = {"size": (side, side), "interpolation": "bicubic", "padding_mode": "reflection"}
            moving, fixed = warp(image, cut, **options), warp(image[None], cut, displacement=field, **options)[0]
            fixed, moving = (p + _NOISE * torch.randn(p.shape, generator=random) for p in (GAIN * fixed + _OFFSET, moving))
            pairs.append((fixed, moving, field[0]))
        inner = (slice(None), slice(inset, -inset), slice(inset, -inset))
        case = f"{kind} of {side} px, bent by {_BEND:g} px every 27 px: end points"
        for name, method in bspline_methods().items():
            say(f"{case}: {name}")
            method(*pairs[0][:2], 16.0)
            before = time.process_time()
            errors = [float((method(a, b, 16.0) - truth)[inner].norm(dim=0).mean()) for a, b, truth in pairs]
            rows.append(_row(case, name, errors, (time.process_time() - before) / len(pairs)))
    return rows


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
    fixed, moving = (part + _NOISE * torch.randn(part.shape, generator=random) for part in (GAIN * fixed + _OFFSET, moving))
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
