"""How far a warp's gradient reaches: shifts found by descent, with different slopes.

Owns: the pictures, the descents and their table.
Must not: print.
Read next: ``register.py``.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.functional import anneal, resize, rgb_to_grayscale, warp_affine
from pellucid_bench.compare import Row

__all__ = ["DISTANCES", "measure_reach", "pictures", "reach_table", "sequences"]

DISTANCES = (2.0, 4.0, 8.0, 16.0)
TEXTURES = ("brick", "grass", "gravel")
_PHOTOGRAPHS = (
    *("astronaut", "camera", "cell", "chelsea", "clock_motion", "coffee", "coins", "hubble_deep_field", "ihc", "microaneurysms"),
    *("moon", "motorcycle_left", "motorcycle_right", "page", "retina", "rocket", "text"),
)
_SIDE, _WINDOW, _STEPS, _RATE, _FOUND = 160, 64, 200, 0.25, 0.25


def pictures(side: int = _SIDE, more: Sequence[Path] = ()) -> dict[str, Tensor]:
    """Photographs and textures of scikit-image's and scikit-learn's wheels, and more: grey, middle squares shrunk to this side."""
    import numpy as np
    import skimage.data
    import sklearn.datasets
    from PIL import Image

    folder = Path(skimage.data.__file__).parent
    files = {name: next(folder.glob(f"{name}.*g")) for name in (*_PHOTOGRAPHS, *TEXTURES)}
    files |= {name: Path(sklearn.datasets.__file__).parent / "images" / f"{name}.jpg" for name in ("china", "flower")}
    files |= {str(path): path for path in more}
    found = {}
    for name, file in files.items():
        with Image.open(file) as opened:
            values = torch.from_numpy(np.array(opened.convert("RGB")))
        grey = rgb_to_grayscale(values.permute(2, 0, 1).float() / 255.0)
        cut = min(grey.shape[-2:])
        top, left = (grey.shape[-2] - cut) // 2, (grey.shape[-1] - cut) // 2
        found[name] = resize(grey[:, top : top + cut, left : left + cut], (side, side))
    return found


def sequences() -> list[Path]:
    """The first pictures of planar sequences in HPatches layout under ``PELLUCID_DATA``."""
    folder = os.environ.get("PELLUCID_DATA")
    return sorted(Path(folder).glob("*/1.ppm")) if folder else []


def _window(image: Tensor, shift: Tensor, scale: float | Tensor = 0.0) -> Tensor:
    """The middle of each picture, moved by a shift (b, 2)."""
    corner = (_SIDE - _WINDOW) / 2
    turn = torch.eye(2).expand(len(shift), 2, 2)
    matrix = torch.cat((turn, (shift + corner)[..., None]), 2)
    return warp_affine(image, matrix, (_WINDOW, _WINDOW), inverse_map=True, border_mode="replicate", gradient_scale=scale)


def _grid(image: Tensor, shift: Tensor, mode: str = "bilinear") -> Tensor:
    theta = torch.cat((torch.eye(2).expand(len(shift), 2, 2) * (_WINDOW / _SIDE), (2 * shift / _SIDE)[..., None]), 2)
    grid = F.affine_grid(theta, [len(shift), 1, _WINDOW, _WINDOW], align_corners=False)
    return F.grid_sample(image, grid, mode=mode, padding_mode="border", align_corners=False)


def _linearised(image: Tensor, shift: Tensor, generator: torch.Generator, reach: float, count: int = 8) -> Tensor:
    """Linearised multi-sampling (Jiang and others, ICCV 2019), from the paper: a plane through what is read around every point."""
    with torch.no_grad():
        value = _grid(image, shift)
        apart = torch.randn((count, len(shift), 2, _WINDOW, _WINDOW), generator=generator) * reach
        y, x = torch.meshgrid(torch.arange(_WINDOW), torch.arange(_WINDOW), indexing="ij")
        corner = (_SIDE - _WINDOW) / 2
        place = torch.stack((x, y)).float() + corner + shift[:, :, None, None]
        near = ((place + apart + 0.5) * 2 / _SIDE - 1).flatten(0, 1).permute(0, 2, 3, 1)
        read = F.grid_sample(image.repeat(count, 1, 1, 1), near, padding_mode="border", align_corners=False)
        rise = read.unflatten(0, (count, -1))[:, :, 0] - value[:, 0]
        d = apart
        xx, xy, yy = (d[:, :, 0] ** 2).sum(0) + 1e-3, (d[:, :, 0] * d[:, :, 1]).sum(0), (d[:, :, 1] ** 2).sum(0) + 1e-3
        bx, by = (d[:, :, 0] * rise).sum(0), (d[:, :, 1] * rise).sum(0)
        det = xx * yy - xy * xy
        slope = torch.stack(((yy * bx - xy * by) / det, (xx * by - xy * bx) / det), 1)  # b 2 h w
    step = (slope * (shift - shift.detach())[:, :, None, None]).sum(1, keepdim=True)
    return value + step


def _kornia(image: Tensor, shift: Tensor) -> Tensor:
    import kornia.geometry.transform as KG

    place = torch.cat((torch.eye(2).expand(len(shift), 2, 2), -(shift + (_SIDE - _WINDOW) / 2)[..., None]), 2)
    return KG.warp_affine(image, place, (_WINDOW, _WINDOW), padding_mode="border", align_corners=True)  # pixel centres


def _methods() -> dict[str, tuple[Callable[..., Tensor], Sequence[Any]]]:
    """(picture, shift, what changes from step to step) -> the window; and that for every step."""
    random = torch.Generator().manual_seed(0)
    still = [None] * _STEPS

    def around(reach: float) -> Callable[..., Tensor]:
        return lambda image, shift, _: _linearised(image, shift, random, reach)

    found: dict[str, tuple[Callable[..., Tensor], Sequence[Any]]] = {
        "pellucid, s = 0": (lambda image, shift, _: _window(image, shift), still),
        "F.grid_sample": (lambda image, shift, _: _grid(image, shift), still),
        "F.grid_sample, bicubic": (lambda image, shift, _: _grid(image, shift, "bicubic"), still),
        "linearised multi-sampling, 8 points within 2 px": (around(2.0), still),
        "linearised multi-sampling, 8 points within 4 px": (around(4.0), still),
    }
    if find_spec("kornia") is not None:
        found["kornia warp_affine"] = (lambda image, shift, _: _kornia(image, shift), still)
    found["pellucid, s = 4"] = (_window, [torch.tensor(4.0)] * _STEPS)
    for start in (4.0, 8.0, 12.0):
        found[f"pellucid, anneal({start:g})"] = (_window, list(anneal(start, _STEPS)))
    return found


def _descend(method: Callable[..., Tensor], changes: Sequence[Any], image: Tensor, target: Tensor, start: Tensor) -> Tensor:
    shift = start.clone().requires_grad_()
    optimiser = torch.optim.Adam([shift], lr=_RATE)
    slowing = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.02 ** max(0.0, 2 * step / _STEPS - 1))
    for change in changes:
        loss = (method(image, shift, change) - target).square().mean((1, 2, 3)).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        slowing.step()
    return shift.detach()


def measure_reach(*, directions: int = 2, only: Sequence[str] = (), say: Callable[[str], None] = lambda _: None) -> list[Row]:
    """The share of shifts that each method finds to a quarter of a pixel.

    Args:
        directions: of shifts, for each picture and distance.
        only: names of methods; default all.
        say: is told of progress.
    """
    images = torch.stack(list(pictures(more=sequences()).values())).repeat_interleave(directions, 0)
    random = torch.Generator().manual_seed(1)
    turns = (torch.arange(len(images)) % directions + torch.rand(len(images), generator=random)) * (2 * math.pi / directions)
    towards = torch.stack((turns.cos(), turns.sin()), 1)
    target = _window(images, torch.zeros(len(images), 2))
    rows: list[Row] = []
    for name, (method, changes) in _methods().items():
        if only and name not in only:
            continue
        say(name)
        before, shares = time.process_time(), []
        for distance in DISTANCES:
            ends = _descend(method, changes, images, target, towards * distance)
            shares.append(float((ends.norm(dim=1) < _FOUND).float().mean()))
        steps = len(images) * _STEPS * len(DISTANCES)
        rows.append({"subject": name, "status": "ok", "found": shares, "us_per_step": 1e6 * (time.process_time() - before) / steps})
    return rows


def reach_table(rows: Sequence[Row]) -> str:
    """Shares in percent; CPU time of a step in units of the first method's."""
    unit = rows[0]["us_per_step"]
    lines = [f"| found from | {' | '.join(f'{d:g} px' for d in DISTANCES)} | CPU time |", "|---|" + "---|" * (len(DISTANCES) + 1)]
    for row in rows:
        shares = " | ".join(f"{100 * share:.0f} %" for share in row["found"])
        lines.append(f"| {row['subject']} | {shares} | {row['us_per_step'] / unit:.1f} |")
    return "\n".join(lines)
