"""Volumes through an affine map in space and a B-spline field, beside ``affine_grid`` with ``grid_sample``, SciPy and MONAI.

Owns: the subjects, the check that they agree, and the table.
Must not: print.
Read next: ``report.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.functional import warp3
from pellucid_bench.compare import Row
from pellucid_bench.measure import Say, interleave, quiet

__all__ = ["measure_volumes", "volumes_table"]

AFFINE, ELASTIC, LABELS = "affine", "affine and elastic", "labels, nearest"
KNOTS = 16.0
"""Voxels between knots."""


def turned(size: int) -> Tensor:
    """Ten degrees about the depth, and a shift, in voxels: (4, 4)."""
    cos, sin, middle = math.cos(math.radians(10.0)), math.sin(math.radians(10.0)), (size - 1) / 2
    x, y = middle - cos * middle + sin * middle + 1.5, middle - sin * middle - cos * middle
    return torch.tensor([[cos, -sin, 0.0, x], [sin, cos, 0.0, y], [0.0, 0.0, 1.0, 0.7], [0.0, 0.0, 0.0, 1.0]])


def _grid(volume: Tensor, matrix: Tensor) -> Tensor:
    size = volume.shape[-1]
    unit = torch.diag(torch.tensor([size / 2] * 3 + [1.0]))  # from grid_sample's coordinates to voxels
    unit[:3, 3] = (size - 1) / 2
    theta = (torch.linalg.inv(unit) @ matrix @ unit)[None, :3].expand(len(volume), -1, -1)
    return F.affine_grid(theta, list(volume.shape), align_corners=False)


def _by_grid(volume: Tensor, matrix: Tensor) -> Tensor:
    return F.grid_sample(volume, _grid(volume, matrix), align_corners=False)


def _scipy(volume: Tensor, matrix: Tensor) -> Callable[[], Any]:
    from scipy.ndimage import affine_transform

    linear, offset = matrix[:3, :3].flip(0, 1).numpy(), matrix[:3, 3].flip(0).numpy()  # z, y, x
    arrays = volume.flatten(0, 1).numpy()
    return lambda: [affine_transform(one, linear, offset, order=1) for one in arrays]


def _monai() -> Callable[[Tensor], Tensor]:
    from monai.transforms import Rand3DElastic

    turn = math.radians(10.0)
    bent = Rand3DElastic((5.0, 7.0), (50.0, 150.0), prob=1.0, rotate_range=(turn, 0.0, 0.0), padding_mode="zeros")
    return lambda x: torch.stack([torch.as_tensor(bent(one)) for one in x])


def measure_volumes(*, batch: int, size: int, budget: float, say: Say = quiet) -> list[Row]:
    """Time volumes of one channel forward, and forward and backward to the volume, in turns.

    Args:
        batch, size: volumes and their depth, height and width.
        budget: seconds per subject and way.

    Errors:
        RuntimeError where ``grid_sample`` gives other volumes than ours.
    """
    generator = torch.Generator().manual_seed(0)
    volume, matrix = torch.rand(batch, 1, size, size, size, generator=generator), turned(size)
    cells = max(1, round((size - 1) / KNOTS))
    reach = 0.4 * (size - 1) / cells  # within which nothing folds
    control = reach * (2.0 * torch.rand(batch, 3, *(cells + 3,) * 3, generator=generator) - 1.0)
    if (warp3(volume, matrix) - _by_grid(volume, matrix)).abs().max() > 1e-3:
        raise RuntimeError("affine_grid and grid_sample give another volume")
    ways: dict[tuple[str, str], Callable[[Tensor], Tensor]] = {
        (AFFINE, "pellucid"): partial(warp3, src_from_dst=matrix),
        (AFFINE, "affine_grid + grid_sample"): partial(_by_grid, matrix=matrix),
        (ELASTIC, "pellucid"): partial(warp3, src_from_dst=matrix, control=control),
    }
    rows: list[Row] = []
    say("scipy, monai")
    labels, grid = (8.0 * volume).floor(), _grid(volume, matrix)
    alone: dict[tuple[str, str], Callable[[], Any]] = {
        (LABELS, "pellucid"): partial(warp3, labels, matrix, interpolation="nearest"),
        (LABELS, "pellucid, uint8"): partial(warp3, labels.to(torch.uint8), matrix, interpolation="nearest"),
        (LABELS, "grid_sample, grid given"): partial(F.grid_sample, labels, grid, mode="nearest", align_corners=False),
    }
    try:
        alone[AFFINE, "scipy"] = _scipy(volume, matrix)
        ways[ELASTIC, "monai"] = _monai()
    except ImportError as error:
        rows.append({"case": ELASTIC, "subject": "monai", "status": "missing", "note": str(error)})
    near, ours = (alone[LABELS, way]() for way in ("grid_sample, grid given", "pellucid"))
    if (near != ours).float().mean() > 1e-3:  # places half-way between two voxels round either way
        raise RuntimeError("grid_sample gives other labels")
    leaf = volume.clone().requires_grad_()
    weights = torch.ones_like(volume)

    def back(way: Callable[[Tensor], Tensor]) -> Any:
        return torch.autograd.grad(way(leaf), leaf, weights)

    forward: dict[tuple[str, str], Callable[[], Any]] = {key: partial(way, volume) for key, way in ways.items()}
    forward.update(alone)
    both: dict[tuple[str, str], Callable[[], Any]] = {key: partial(back, way) for key, way in ways.items()}
    for mode, calls in (("forward", forward), ("backward", both)):
        say(mode)
        named = {f"{case}|{subject}": call for (case, subject), call in calls.items()}
        for name, timing in interleave(named, budget=budget).items():
            case, subject = name.split("|")
            times = {"median_ms": timing.median * 1e3, "q1_ms": timing.low * 1e3, "q3_ms": timing.high * 1e3}
            nanoseconds = timing.median * 1e9 / volume.numel()
            rows.append({"case": case, "subject": subject, "mode": mode, "status": "ok", **times, "ns_per_voxel": nanoseconds})
    return rows


def volumes_table(rows: list[Row]) -> str:
    """Nanoseconds per voxel, and how many times our time the others take."""
    found = {(row["case"], row["subject"], row["mode"]): row["ns_per_voxel"] for row in rows if row["status"] == "ok"}
    lines = ["| | | forward, ns per voxel | and backward to the volume | forward, times ours |", "|---|---|---|---|---|"]
    for case, subject in dict.fromkeys(key[:2] for key in found):
        cells = [f"{found[case, subject, mode]:.0f}" if (case, subject, mode) in found else "" for mode in ("forward", "backward")]
        share = found[case, subject, "forward"] / found[case, "pellucid", "forward"]
        lines.append(f"| {case} | {subject} | {' | '.join(cells)} | {share:.2f} |")
    lines += [f"| {row['case']} | {row['subject']} | missing: {row['note']} | | |" for row in rows if row["status"] == "missing"]
    return "\n".join(lines)
