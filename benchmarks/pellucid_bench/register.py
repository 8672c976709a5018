"""Alignment beside others: photographs under known maps, and real sequences where there are any.

Owns: the pairs, the file that a measurement goes on from, the table, and what was asked of it.
Must not: print.
Read next: ``aligners.py``.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from scipy.ndimage import affine_transform, gaussian_filter, map_coordinates
from scipy.spatial.transform import Rotation
from torch import Tensor

from pellucid.core.files import whole
from pellucid.functional import get_perspective_transform, warp
from pellucid.registration.maps import corner_distance, spline_field, splines
from pellucid_bench.aligners import GAIN, OURS, methods
from pellucid_bench.compare import Row
from pellucid_bench.reach import pictures, sequences
from pellucid_bench.report import report, write_json

__all__ = ["PARTS", "SHIFTS", "Pair", "corner_error", "measure_register", "moved_corners", "register_table", "window"]

PARTS = ("turns", "corners", "light", "sequences", "bends", "volumes")
SHIFTS = (5.0, 10.0, 20.0, 40.0, 60.0, 80.0, 90.0, 100.0, 120.0)
"""How far each corner of a picture of 512 pixels is moved, in a random direction."""
_FAR = 40.0
"""What takes long is measured up to this shift."""
_SMALL, _LIT, _LARGE, _BENT, _INSET = 128, 256, 512, 192, 16
_TURNS = {
    "turns to 10, scales to 1.1, shifts to 8 px": (10.0, 1.1, 8.0),
    "turns to 20, scales to 1.2, shifts to 12 px": (20.0, 1.2, 12.0),
}
_LIGHT: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "even": lambda x, _: torch.ones_like(x),
    "from one side": lambda x, _: 0.7 + 0.5 * x,
    "less of it in the corners": lambda x, y: 1 - 0.35 * (x**2 + y**2),
    "a shadow with an edge": lambda x, _: torch.where(x > 0.1, 1.0, 0.4),
}
"""By how much the fixed picture is lit at (x, y), both from -1 to 1."""
_EQUAL = ", equally bright"
_NOISE, _OFFSET = 0.01, 0.05
_PAIRS = 5
"""Of each volume under each kind of map."""
_SLICES = ("cell", "ihc", "microaneurysms", "retina")
"""What scikit-image's wheel has of medical pictures; the rest are photographs."""
_BEND = 4.0
"""Standard deviation of a deformation's control points, in pixels; they lie 32 pixels apart."""


class Pair(NamedTuple):
    """A fixed and a moving picture, where to begin, and the truth: moving pixel from fixed pixel, or displacements."""

    fixed: Tensor
    moving: Tensor
    start: Tensor
    truth: Tensor


class Case(NamedTuple):
    """Pairs that one model is looked for in.

    Args:
        name: as the table has it.
        model: as of ``aligners.methods``.
        pairs: makes them.
        shift: of the corners, where that is what the pairs differ by.
    """

    name: str
    model: str
    pairs: Callable[[], list[Pair]]
    shift: float | None = None


def measure_register(
    *,
    draws: int = 1,
    photographs: int = 10,
    slow: int = 4,
    only: Sequence[str] = (),
    subjects: Sequence[str] = (),
    path: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Corner errors of every method on every set of pairs, and end-point errors under deformations; one method after the other.

    Args:
        draws: maps per picture of 128 pixels.
        photographs: how many of the pictures at 512 pixels.
        slow: how many pairs of a set kornia and SimpleITK get beyond 128 pixels, evenly spread, and up to shifts of 40 pixels.
        only: of `PARTS`; default all.
        subjects: how the names of those methods begin that are measured; default all.
        path: a report: rows of the same settings are kept, and every new one is written at once.
        say: is told of progress.
    """
    settings = {"draws": draws, "photographs": photographs, "slow": slow}
    before = json.loads(path.read_text()) if path is not None and path.exists() else {}
    rows: list[Row] = before["rows"] if before.get("settings") == settings else []
    cases = [case for part in PARTS if not only or part in only for case in _cases(part, draws, photographs)]
    named = dict.fromkeys(name for case in cases for name in methods(case.model))
    for name in (name for name in named if not subjects or name.startswith(tuple(subjects))):
        for case in (case for case in cases if name in methods(case.model)):
            far = case.shift is not None and case.shift > _FAR and not _quick(case, name)
            if far or any((row["case"], row["subject"]) == (case.name, name) for row in rows):
                continue
            say(f"{case.name}: {name}")
            rows.append(_measured(case, name, slow))
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with whole(path) as draft:
                    write_json(draft, report("register", settings, rows))
    every = [case for part in PARTS for case in _cases(part, draws, photographs)]
    order = [case.name for case in every]
    names = list(dict.fromkeys([name for case in every for name in methods(case.model)] + [row["subject"] for row in rows]))
    return sorted(rows, key=lambda row: (order.index(row["case"]), names.index(row["subject"])))


def _cases(part: str, draws: int, photographs: int) -> list[Case]:
    if part == "turns":
        return [
            Case(f"{_SMALL} px, {label}{note}", "similarity", partial(_turned, draws, most, brighter))
            for note, brighter in (("", True), (_EQUAL, False))
            for label, most in _TURNS.items()
        ]
    if part == "corners":
        name = f"{_LARGE} px, corners moved by {{:g}} px"
        return [Case(name.format(shift), "homography", partial(_moved, photographs, shift), shift) for shift in SHIFTS]
    if part == "light":
        name = f"{_LIT} px, corners moved by 20 px, light: {{}}"
        return [Case(name.format(kind), "light", partial(_lit, photographs, kind)) for kind in _LIGHT]
    if part == "sequences":
        return [Case("real sequences, corners given to 20 px", "homography", _sequences)] if sequences() else []
    if part == "volumes":
        name = "{}, {} maps of volumes, turns to 8, shifts to 2 voxels"
        made = [(scan, model) for scan in _volumes() for model in ("rigid", "affine")]
        return [Case(name.format(scan, model), f"{model} volumes", partial(_moved_volumes, scan, model)) for scan, model in made]
    name = f"{{}} of {_BENT} px, bent by {_BEND:g} px every 27 px: end points"
    solid = Case("smooth noise of 48^3 voxels, bent by 2 voxels every 16: end points", "bspline volumes", _bent_volumes)
    flat = [kind for kind in ("slices", "photographs") if _named(kind)]
    return [solid, *(Case(name.format(kind), "bspline", partial(_bent_pictures, kind)) for kind in flat)]


def _quick(case: Case, name: str) -> bool:
    return name.startswith((OURS, "OpenCV")) or case.model == "similarity" or "volumes" in case.model


def _measured(case: Case, name: str, slow: int) -> Row:
    method, pairs = methods(case.model)[name], case.pairs()
    quick = _quick(case, name)
    count = len(pairs) if quick else min(slow, len(pairs))
    picks = [i * len(pairs) // count for i in range(count)]
    if quick:
        method(*pairs[0][:3], case.model)  # what compiles at first use
    before = time.process_time()
    errors = [_error(method(*pairs[i][:3], case.model), pairs[i]) for i in picks]
    seconds = (time.process_time() - before) / count
    about = {"case": case.name, "subject": name, "status": "ok", "of": len(pairs), "shift": case.shift}
    return {**about, "pairs": picks, "errors": [error if math.isfinite(error) else None for error in errors], "seconds": seconds}


def register_table(rows: Sequence[Row]) -> str:
    """Share within a pixel, median error, CPU time a pair, and what was asked; of OpenCV's filters the best one of each set.

    Who has fewer pairs than there are stands beside what ours makes of the same ones.
    """
    lines = ["| pairs | method | how many pairs | within 1 px | median, px | CPU s a pair |", "|---|---|---|---|---|---|"]
    for case in dict.fromkeys(row["case"] for row in rows):
        here = {row["subject"]: row for row in rows if row["case"] == case}
        filters = [row for row in here.values() if "filter" in row["subject"]]
        best = max(filters, key=lambda row: (_within(row), -_median(row)), default=None)
        for row in (row for row in here.values() if row not in filters or row is best):
            count = f"{len(row['pairs'])}"
            if len(row["pairs"]) < row["of"]:
                count += f" of {row['of']}"
                same = here.get(OURS)
                if same is not None and set(row["pairs"]) <= set(same["pairs"]):
                    ours = {**same, "errors": [same["errors"][same["pairs"].index(i)] for i in row["pairs"]]}
                    count += f"; `align` on them: {100 * _within(ours):.0f} %, {_median(ours):.3f} px"
            numbers = f"{100 * _within(row):.0f} % | {_median(row):.3f} | {row['seconds']:.2f}"
            lines.append(f"| {case} | {row['subject']} | {count} | {numbers} |")
    return "\n".join([*lines, "", *_asked(rows)])


def _asked(rows: Sequence[Row]) -> list[str]:
    """What alignment is held to, beside what it reached."""
    ours = {row["case"]: row for row in rows if row["subject"] == OURS}
    told: list[tuple[str, str, bool]] = []
    for label, share, most in zip(_TURNS, (0.95, 0.85), (0.02, math.inf), strict=True):
        row = ours.get(f"{_SMALL} px, {label}")
        if row is not None:
            wanted = f"{label}: {100 * share:.0f} % within a pixel" + (f", median {most} px" if most < 1 else "")
            reached = f"{100 * _within(row):.0f} %, {_median(row):.3f} px"
            told.append((wanted, reached, _within(row) >= share and _median(row) <= most))
    moved = [row for row in rows if row["shift"] is not None]
    subjects = dict.fromkeys(row["subject"] for row in moved)
    reach = {name: _reach([row for row in moved if row["subject"] == name]) for name in subjects}
    ecc = max((shift for name, shift in reach.items() if "ECC" in name), default=None)
    if OURS in reach and ecc is not None:
        wanted = f"corners of {_LARGE} px: the largest movement that 90 % survive at least 1.5 times ECC's {ecc:g} px"
        told.append((wanted, f"{reach[OURS]:g} px", reach[OURS] >= 1.5 * ecc))
    if OURS in reach:
        slowest = max(row["seconds"] for row in moved if row["subject"] == OURS)
        told.append((f"at most 1 s a pair of {_LARGE} px", f"{slowest:.2f} s of CPU time", slowest <= 1))
    row = next((row for case, row in ours.items() if case.startswith("real sequences")), None)
    if row is not None:
        told.append(("real sequences: median 2 px at most", f"{_median(row):.2f} px", _median(row) <= 2))
    return [f"* Asked, {wanted}: {reached}, {'met' if met else '**missed**'}." for wanted, reached, met in told]


def _within(row: Row) -> float:
    return sum(error is not None and error < 1 for error in row["errors"]) / len(row["errors"])


def _median(row: Row) -> float:
    return sorted(math.inf if error is None else float(error) for error in row["errors"])[len(row["errors"]) // 2]


def _reach(rows: Sequence[Row]) -> float:
    """The largest movement that nine in ten survive, as they do every smaller one."""
    reached = 0.0
    for row in sorted(rows, key=lambda row: row["shift"]):
        if _within(row) < 0.9:
            break
        reached = row["shift"]
    return reached


def _turned(draws: int, most: tuple[float, float, float], brighter: bool) -> list[Pair]:
    random, images = torch.Generator().manual_seed(0), _pictures(220).values()
    return [window(image, _similarity(random, *most), _SMALL, random, brighter) for _ in range(draws) for image in images]


def _moved(photographs: int, shift: float) -> list[Pair]:
    random, images = torch.Generator().manual_seed(0), list(_pictures(680).values())[:photographs]
    return [window(image, moved_corners(random, shift, _LARGE), _LARGE, random) for image in images]


def _lit(photographs: int, kind: str) -> list[Pair]:
    """Pictures as bright as one another but for the light on the fixed one."""
    random, images = torch.Generator().manual_seed(0), list(_pictures(340).values())[:photographs]
    pairs = [window(image, moved_corners(random, 20.0, _LIT), _LIT, random, brighter=False) for image in images]
    y, x = torch.meshgrid(*[torch.linspace(-1, 1, _LIT)] * 2, indexing="ij")
    return [pair._replace(fixed=pair.fixed * _LIGHT[kind](x, y)) for pair in pairs]


def _named(kind: str) -> list[Tensor]:
    return [image for name, image in _pictures(_BENT + 2 * _INSET).items() if (name in _SLICES) == (kind == "slices")]


def _bent_pictures(kind: str) -> list[Pair]:
    """Deformed pictures, brighter and noisy."""
    random, pairs = torch.Generator().manual_seed(0), []
    cut = torch.tensor([[1.0, 0, _INSET], [0, 1, _INSET], [0, 0, 1]])
    options: dict[str, Any] = {"size": (_BENT, _BENT), "interpolation": "bicubic", "padding_mode": "reflection"}
    for image in _named(kind):
        control = _BEND * torch.randn((1, 2, 8, 8), generator=random)
        field = F.interpolate(control, (_BENT + 1, _BENT + 1), mode="bicubic", align_corners=True)[..., :-1, :-1]
        moving, fixed = warp(image, cut, **options), warp(image[None], cut, displacement=field, **options)[0]
        fixed, moving = (part + _NOISE * torch.randn(part.shape, generator=random) for part in (GAIN * fixed + _OFFSET, moving))
        pairs.append(Pair(fixed, moving, torch.eye(3), field[0]))
    return pairs


@cache
def _volumes() -> dict[str, np.ndarray]:
    """Scans of nibabel's wheel, where it is installed, and smooth noise."""
    noise = gaussian_filter(np.random.default_rng(0).standard_normal((48, 48, 48)), 2.5, mode="wrap")
    found = {"smooth noise": 0.5 + 0.15 * noise / noise.std()}
    if find_spec("nibabel"):
        nibabel = import_module("nibabel")
        for name, file in (("an anatomical scan", "anatomical.nii"), ("a brain", "example4d.nii.gz")):
            values = np.asarray(nibabel.load(Path(str(nibabel.__file__)).parent / "tests" / "data" / file).dataobj, np.float64)
            values = values.reshape(*values.shape[:3], -1)[..., 0].T
            found[name] = values / np.percentile(values, 99.5)
    return found


def _moved_volumes(name: str, model: str) -> list[Pair]:
    """A volume, and what cubic splines make of it, brighter; both noisy."""
    whole, random, pairs = _volumes()[name], np.random.default_rng(1), []
    middle, flip = (np.array(whole.shape[::-1]) - 1) / 2, np.eye(4)[[2, 1, 0, 3]]
    for _ in range(_PAIRS):
        truth = np.eye(4)
        truth[:3, :3] = Rotation.from_euler("xyz", random.uniform(-8, 8, 3), degrees=True).as_matrix()
        truth[:3, :3] *= random.uniform(0.95, 1.05, 3) if model == "affine" else 1.0
        truth[:3, 3] = middle - truth[:3, :3] @ middle + random.uniform(-2, 2, 3)
        fixed = GAIN * affine_transform(whole, flip @ truth @ flip, order=3, mode="mirror") + _OFFSET
        still, moved = (
            torch.from_numpy(part + _NOISE * random.standard_normal(part.shape)).float()[None] for part in (fixed, whole)
        )
        pairs.append(Pair(still, moved, torch.eye(4), torch.from_numpy(truth).float()))
    return pairs


def _bent_volumes() -> list[Pair]:
    """Smooth noise, and what cubic splines make of it, deformed and brighter; both noisy."""
    whole, random, pairs = _volumes()["smooth noise"], np.random.default_rng(2), []
    at = np.stack(np.meshgrid(*(np.arange(float(side)) for side in whole.shape), indexing="ij"))
    counts = [splines(side, 16.0, torch.zeros(())).shape[1] for side in whole.shape]  # 6 each for 48 voxels
    for _ in range(3):
        control = torch.from_numpy(2.0 * random.standard_normal((1, 3, *counts)))
        field = spline_field(control, whole.shape, 16.0)[0]
        fixed = GAIN * map_coordinates(whole, at + field.flip(0).numpy(), order=3, mode="mirror") + _OFFSET
        still, moved = (
            torch.from_numpy(part + _NOISE * random.standard_normal(part.shape)).float()[None] for part in (fixed, whole)
        )
        pairs.append(Pair(still, moved, torch.eye(4), field.float()))
    return pairs


@cache
def _pictures(side: int) -> dict[str, Tensor]:
    return pictures(side)


def _error(found: Tensor | None, pair: Pair) -> float:
    """In pixels: of the corners under a map, or of displacements, in the mean of all end points but those near the border."""
    if found is None:
        return math.inf
    if pair.truth.dim() == 2:
        return corner_error(found, pair.truth, pair.fixed)
    inner = (slice(None), *[slice(min(_INSET, side // 6), -min(_INSET, side // 6)) for side in found.shape[1:]])
    return float((found - pair.truth)[inner].norm(dim=0).mean())


def corner_error(found: Tensor, truth: Tensor, fixed: Tensor) -> float:
    error = float(corner_distance(found[None].double(), truth[None].double(), tuple(fixed.shape[1:])))
    return error if math.isfinite(error) else math.inf


def window(image: Tensor, matrix: Tensor, side: int, random: torch.Generator, brighter: bool = True) -> Pair:
    """A window of the picture, and the same through the map; noisy, and the first one brighter."""
    inset = (image.shape[-1] - side) // 2
    cut = torch.tensor([[1.0, 0, inset], [0, 1, inset], [0, 0, 1]])
    moving, fixed = (
        warp(image, m, size=(side, side), interpolation="bicubic", padding_mode="reflection") for m in (cut, cut @ matrix)
    )
    fixed = GAIN * fixed + _OFFSET if brighter else fixed
    fixed, moving = (part + _NOISE * torch.randn(part.shape, generator=random) for part in (fixed, moving))
    return Pair(fixed, moving, torch.eye(3), matrix)


def _similarity(random: torch.Generator, degrees: float, scale: float, shift: float) -> Tensor:
    a, s, x, y = (2 * torch.rand(4, generator=random) - 1).tolist()
    factor, angle, middle = scale**s, math.radians(degrees * a), (_SMALL - 1) / 2
    c, d = factor * math.cos(angle), factor * math.sin(angle)
    about = torch.tensor([[1.0, 0, middle], [0, 1, middle], [0, 0, 1]])
    return about @ torch.tensor([[c, d, shift * x], [-d, c, shift * y], [0, 0, 1]]) @ torch.linalg.inv(about)


def moved_corners(random: torch.Generator, shift: float, side: int) -> Tensor:
    last = side - 1.0
    corners = torch.tensor([[0, 0], [last, 0], [last, last], [0, last]])
    turn = 2 * math.pi * torch.rand(4, generator=random)
    return get_perspective_transform(corners, corners + shift * torch.stack((turn.cos(), turn.sin()), 1)).float().reshape(3, 3)


def _sequences() -> list[Pair]:
    """Pictures 2 to 6 onto the first, from corners off by 20 px."""
    from pellucid.features.data.photographs import read_gray

    found = []
    for first in sequences():
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
            found.append(Pair(fixed, read_gray(first.parent / f"{number}.ppm"), start, truth / truth[2, 2]))
    return found
