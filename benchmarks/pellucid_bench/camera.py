"""``pellucid study camera``: lenses from pictures of a chessboard, by `fit_camera` and by OpenCV's calibration.

Owns: the synthetic views (rendered by formula, nothing is resampled), both fits, the table and the picture.
Must not: fit by itself.
Read next: ``studies.py``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from pellucid.registration import fit_camera
from pellucid_bench.plot import pyplot

__all__ = ["TRUTHS", "as_markdown", "draw", "run_study", "view"]

Row: TypeAlias = dict[str, Any]
Array: TypeAlias = NDArray[Any]

HEIGHT, WIDTH, FOCAL = 240, 320, 260.0
SUPER = 4
COLUMNS, ROWS, SQUARE = 11, 8, 1.0  # of squares
CENTER = (3.0, -2.0)
GAIN, GAMMA, NOISE = 0.9, 0.8, 0.01
UNIT = math.hypot(HEIGHT - 1, WIDTH - 1) / 2


def _brown(k1: float, k2: float) -> Callable[[Array], Array]:
    return lambda square: 1.0 + square * (k1 + square * k2)


def _fisheye(degrees: float) -> Callable[[Array], Array]:
    angle = math.radians(degrees)

    def factor(square: Array) -> Array:
        r = np.sqrt(np.maximum(square, 1e-12))
        return np.asarray(np.tan(r * angle) / (r * math.tan(angle)))

    return factor


TRUTHS: dict[str, Callable[[Array], Array]] = {
    "k1 = 0.15, k2 = 0.05": _brown(0.15, 0.05),
    "k1 = -0.12, k2 = 0.03": _brown(-0.12, 0.03),
    "fisheye, 30 degrees": _fisheye(30),
    "fisheye, 45 degrees": _fisheye(45),
}
"""Square of the radius (1 at a corner) to what the place is multiplied by."""


def _field(factor: Callable[[Array], Array], x: Array, y: Array) -> tuple[Array, Array]:
    """Ideal pixels of the camera's pixels."""
    left, top = (WIDTH - 1) / 2 + CENTER[0], (HEIGHT - 1) / 2 + CENTER[1]
    u, v = (x - left) / UNIT, (y - top) / UNIT
    many = UNIT * factor(u * u + v * v)
    return left + u * many, top + v * many


def view(random: np.random.Generator, factor: Callable[[Array], Array]) -> tuple[Array, Array]:
    """A chessboard in a random pose: as a pinhole sees it, and as the camera does; averages of 16 rays a pixel."""
    turn = random.uniform(-0.45, 0.45, 3)
    cx, cy, cz = np.cos(turn)
    sx, sy, sz = np.sin(turn)
    rotation = (
        np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
        @ np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
        @ np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    )
    place = np.array([random.uniform(-1.6, 1.6), random.uniform(-1.2, 1.2), random.uniform(10.5, 13.0)])
    pinhole = np.array([[FOCAL, 0, (WIDTH - 1) / 2 + CENTER[0]], [0, FOCAL, (HEIGHT - 1) / 2 + CENTER[1]], [0, 0, 1]])
    board = np.linalg.inv(pinhole @ np.stack([rotation[:, 0], rotation[:, 1], place], 1))
    shades = random.uniform(0.25, 0.75, 2)  # of the wall, which is waves

    def shown(x: Array, y: Array) -> Array:
        ends = board @ np.stack((x.ravel(), y.ravel(), np.ones(x.size)))
        a, b = (ends[:2] / ends[2]).reshape(2, *x.shape)
        a, b = a / SQUARE + COLUMNS / 2, b / SQUARE + ROWS / 2
        dark = (np.floor(a) + np.floor(b)) % 2 == 0
        inside, paper = _within(a, b, 0.0), _within(a, b, 1.0)
        wall = 0.5 + 0.15 * np.sin(0.9 * a + shades[0]) * np.cos(1.3 * b + shades[1])
        return np.where(inside & dark, 0.1, np.where(paper, 0.9, wall))

    step = (np.arange(SUPER) + 0.5) / SUPER - 0.5
    y, x = np.meshgrid((np.arange(HEIGHT)[:, None] + step).ravel(), (np.arange(WIDTH)[:, None] + step).ravel(), indexing="ij")
    ideal, seen = (shown(*at).reshape(HEIGHT, SUPER, WIDTH, SUPER).mean((1, 3)) for at in ((x, y), _field(factor, x, y)))
    noise = NOISE * random.standard_normal(seen.shape)
    return ideal, np.clip((GAIN * seen) ** GAMMA + noise, 0.0, 1.0)


def _within(a: Array, b: Array, margin: float) -> Array:
    return np.asarray((a > -margin) & (a < COLUMNS + margin) & (b > -margin) & (b < ROWS + margin))


def run_study(*, seeds: int, quick: bool, say: Callable[[str], None]) -> list[Row]:
    """Fit every lens by both, for each seed of poses and noise."""
    rows: list[Row] = []
    for seed in range(seeds):
        for name, factor in TRUTHS.items():
            random = np.random.default_rng(seed)
            views = [view(random, factor) for _ in range(2 if quick else 10)]
            for method, fit in (
                ("fit_camera", _ours),
                ("OpenCV", _opencv(fisheye=False)),
                ("OpenCV, fisheye", _opencv(fisheye=True)),
            ):
                began, used = time.perf_counter(), time.process_time()
                found = fit(views)
                seconds = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - used}
                if found is not None:
                    rows.append({"seed": seed, "truth": name, "method": method, **_errors(factor, found), **seconds})
                    say(f"seed {seed}, {name}, {method}: {rows[-1]['rms']:.4f} px")
    return rows


def _errors(factor: Callable[[Array], Array], found: Array) -> Row:
    """Of the field in pixels, where the ideal pictures show something; as it is, and but for a homography."""
    y, x = np.meshgrid(np.arange(HEIGHT, dtype=float), np.arange(WIDTH, dtype=float), indexing="ij")
    true = np.stack(_field(factor, x, y), -1)
    inside = (true[..., 0] >= 0) & (true[..., 0] <= WIDTH - 1) & (true[..., 1] >= 0) & (true[..., 1] <= HEIGHT - 1)
    apart = np.linalg.norm(found - true, axis=-1)[inside]
    free = np.linalg.norm(_moved(found[inside], true[inside]) - true[inside], axis=-1)
    row = {"rms": float(np.sqrt((apart**2).mean())), "max": float(apart.max())}
    return row | {"rms_free": float(np.sqrt((free**2).mean())), "max_free": float(free.max())}


def _moved(points: Array, onto: Array) -> Array:
    """Through the homography that brings them nearest, by linear least squares twice reweighted."""
    middle, scale = np.array([WIDTH / 2, HEIGHT / 2]), WIDTH / 2
    a, b = (points - middle) / scale, (onto - middle) / scale
    weight, h = np.ones(len(a)), np.array([1.0, 0, 0, 0, 1, 0, 0, 0])
    for _ in range(3):
        zero, one = np.zeros(len(a)), np.ones(len(a))
        first = np.stack([a[:, 0], a[:, 1], one, zero, zero, zero, -b[:, 0] * a[:, 0], -b[:, 0] * a[:, 1]], 1)
        second = np.stack([zero, zero, zero, a[:, 0], a[:, 1], one, -b[:, 1] * a[:, 0], -b[:, 1] * a[:, 1]], 1)
        left, right = np.concatenate((first, second)), np.concatenate((b[:, 0], b[:, 1]))
        both = np.concatenate((weight, weight))
        h = np.linalg.lstsq(left * both[:, None], right * both, rcond=None)[0]
        weight = 1.0 / (1.0 + a @ h[6:])
    w = 1.0 + a @ h[6:]
    there = np.stack((a @ h[:2] + h[2], a @ h[3:5] + h[5]), 1) / w[:, None]
    return there * scale + middle


def _ours(views: Sequence[tuple[Array, Array]]) -> Array:
    ideal, seen = (torch.from_numpy(np.stack(part))[:, None].float() for part in zip(*views, strict=True))
    found = fit_camera(ideal, seen)
    y, x = torch.meshgrid(torch.arange(HEIGHT).double(), torch.arange(WIDTH).double(), indexing="ij")
    return found.ideal_points(torch.stack((x, y), -1)).numpy()


def _opencv(*, fisheye: bool) -> Callable[[Sequence[tuple[Array, Array]]], Array | None]:
    """OpenCV's calibration, which is told the board and finds poses, camera and lens; None where it is not installed."""

    def fit(views: Sequence[tuple[Array, Array]]) -> Array | None:
        try:
            import cv2
        except ImportError:
            return None
        inner = (COLUMNS - 1, ROWS - 1)
        grid = np.zeros((1, inner[0] * inner[1], 3))
        grid[0, :, :2] = np.mgrid[: inner[0], : inner[1]].T.reshape(-1, 2)
        boards, corners = [], []
        for _, seen in views:
            good, found = cv2.findChessboardCornersSB((255 * seen).round().astype(np.uint8), inner)
            if good:
                boards.append(grid.copy() if fisheye else grid[0].astype(np.float32))
                corners.append(found.reshape(1, -1, 2).astype(np.float64) if fisheye else found.reshape(-1, 2))
        if len(boards) < 2:
            return None
        size, points = (WIDTH, HEIGHT), np.mgrid[:WIDTH, :HEIGHT].T.reshape(-1, 1, 2).astype(np.float64)
        if fisheye:
            flags = cv2.CALIB_RECOMPUTE_EXTRINSIC | cv2.CALIB_FIX_SKEW
            try:
                _, camera, lens, *_ = cv2.fisheye.calibrate(boards, corners, size, np.eye(3), np.zeros(4), flags=flags)
            except cv2.error:
                return None
            rays = cv2.fisheye.undistortPoints(points, camera, lens)
        else:
            _, camera, lens, *_ = cv2.calibrateCamera(boards, corners, size, None, None)
            criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 200, 1e-12)
            rays = cv2.undistortPoints(points, camera, lens, criteria=criteria)
        middle = np.array([(WIDTH - 1) / 2 + CENTER[0], (HEIGHT - 1) / 2 + CENTER[1]])
        return np.asarray(rays.reshape(HEIGHT, WIDTH, 2) * FOCAL + middle)

    return fit


def as_markdown(rows: Sequence[Row]) -> str:
    """A table: means over seeds, and the worst."""
    lines = [
        "| lens | fit | field error, px: root mean square | largest | but for a homography: root mean square | largest | CPU s |",
        "|---|---|---|---|---|---|---|",
    ]
    for truth in TRUTHS:
        for method in dict.fromkeys(row["method"] for row in rows):
            mine = [row for row in rows if (row["truth"], row["method"]) == (truth, method)]
            if mine:
                cells = [f"{mean(r['rms'] for r in mine):.3f}", f"{max(r['max'] for r in mine):.3f}"]
                cells += [f"{mean(r['rms_free'] for r in mine):.3f}", f"{max(r['max_free'] for r in mine):.3f}"]
                lines.append(f"| {truth} | {method} | {' | '.join(cells)} | {mean(r['cpu_seconds'] for r in mine):.1f} |")
    return "\n".join(lines) + "\n"


def draw(rows: Sequence[Row], path: Path) -> None:
    """The error of every fit, on a scale of powers."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(7, 3.5))
    for at, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
        mine = [row for row in rows if row["method"] == method]
        places = [list(TRUTHS).index(row["truth"]) + 0.2 * (at - 1) for row in mine]
        axis.plot(places, [row["rms_free"] for row in mine], "o", label=method)
    axis.set_xticks(range(len(TRUTHS)), list(TRUTHS), fontsize=7)
    axis.set(yscale="log", ylabel="field error but for a homography, px")
    axis.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)
