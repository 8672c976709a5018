"""How well a turned, shrinking warp is antialiased, and what it costs, beside the warps of others.

Owns: the photographs, the maps, integration by scipy, the subjects, their table.
Must not: print.
Read next: ``report.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.kernels import warp as kernel
from pellucid_bench.compare import Row
from pellucid_bench.measure import Say, interleave, quiet

__all__ = ["MAPS", "antialias_table", "measure_antialias"]

NAMES = ("astronaut", "brick", "camera", "chelsea", "coffee", "grass", "gravel", "rocket")
SIZE, POINTS, STEP = 48, 16, 1e-4

Subject = Callable[[Tensor, Tensor, int], Tensor]
"""(image (1, 1, H, W), output pixel to input pixel (3, 3), side of the result) -> (1, 1, side, side)."""


def _map(across: float, down: float, degrees: float, bend: tuple[float, float] = (0.0, 0.0), side: int = SIZE) -> Tensor:
    """About the middle of a result that lies at the origin."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    middle = (side - 1) / 2
    to_middle = torch.tensor([[1.0, 0.0, -middle], [0.0, 1.0, -middle], [0.0, 0.0, 1.0]], dtype=torch.float64)
    linear = torch.tensor([[c * across, -s * down, 0.0], [s * across, c * down, 0.0], [*bend, 1.0]], dtype=torch.float64)
    return linear @ to_middle


MAPS: dict[str, tuple[Tensor, int]] = {
    "zoom 1/4 at 30 degrees": (_map(4.0, 4.0, 30.0), 4),
    "1/6 x 1 at 35 degrees": (_map(6.0, 1.0, 35.0), 6),
    "perspective": (_map(3.2, 2.6, 12.0, (0.006, 0.004)), 5),
    "zoom 1/1.35 at 20 degrees": (_map(1.35, 1.35, 20.0), 2),
    "1/2.4 x 1/1.5 at -40 degrees": (_map(2.4, 1.5, -40.0), 3),
}
"""Names, maps and bounds of the input pixels per output pixel. The first three have slopes measured, too."""


def _photographs(count: int) -> list[Tensor]:
    from skimage import data

    pictures = [getattr(data, name)() for name in NAMES[:count]]
    grey = [picture @ np.array([0.299, 0.587, 0.114]) if picture.ndim == 3 else picture for picture in pictures]
    return [torch.tensor(picture, dtype=torch.float64)[None, None] / 255 for picture in grey]


def _integral(image: Tensor, src_from_dst: Tensor, side: int, *, weights: str = "box") -> Tensor:
    """POINTS x POINTS points of every output pixel; ``tent``: over twice its steps, weighted, of the picture as a cubic spline."""
    from scipy import ndimage

    v, u = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    width, order = (1.0, 1) if weights == "box" else (2.0, 3)
    picture = ndimage.spline_filter(image[0, 0].numpy(), order=3) if order == 3 else image[0, 0].numpy()
    total, whole = np.zeros((side, side)), 0.0
    for right, below in (
        (width * ((i + 0.5) / POINTS - 0.5), width * ((j + 0.5) / POINTS - 0.5)) for i in range(POINTS) for j in range(POINTS)
    ):
        weight = 1.0 if weights == "box" else (1.0 - abs(right)) * (1.0 - abs(below))
        x, y, w = np.einsum("rk,khw->rhw", src_from_dst.numpy(), np.stack((u + right, v + below, np.ones_like(u, dtype=float))))
        total += weight * ndimage.map_coordinates(picture, (y / w, x / w), order=order, prefilter=False)
        whole += weight
    return torch.from_numpy(total / whole)[None, None]


def _ours(image: Tensor, src_from_dst: Tensor, side: int, *, bound: int | None) -> Tensor:
    affine = bool((src_from_dst[2, :2] == 0).all())
    footprint = None if bound is None else (bound, bound)
    rows = src_from_dst[None, :2] if affine else src_from_dst[None]
    return kernel.warp(image, kernel.pack(rows, size=(side, side), footprint=footprint))


def _grid_sample(image: Tensor, src_from_dst: Tensor, side: int) -> Tensor:
    height, width = image.shape[-2:]
    v, u = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    x, y, w = torch.einsum("rk,khw->rhw", src_from_dst.to(image.dtype), torch.stack((u, v, torch.ones_like(u))).to(image.dtype))
    grid = torch.stack(((2 * x / w + 1) / width - 1, (2 * y / w + 1) / height - 1), -1)[None]
    return F.grid_sample(image, grid.expand(image.shape[0], -1, -1, -1), align_corners=False)


def _opencv(image: Tensor, src_from_dst: Tensor, side: int, *, how: str) -> Tensor:
    cv2 = import_module("cv2")
    flags = getattr(cv2, how) | cv2.WARP_INVERSE_MAP
    read = [
        cv2.warpPerspective(picture.permute(1, 2, 0).float().numpy(), src_from_dst.numpy(), (side, side), flags=flags)
        for picture in image
    ]
    return torch.from_numpy(np.stack([picture if picture.ndim == 3 else picture[..., None] for picture in read])).permute(
        0, 3, 1, 2
    )


def _pillow(image: Tensor, src_from_dst: Tensor, side: int) -> Tensor:
    from PIL import Image

    centre = torch.tensor([[1.0, 0.0, -0.5], [0.0, 1.0, -0.5], [0.0, 0.0, 1.0]], dtype=torch.float64)
    matrix = torch.linalg.inv(centre) @ src_from_dst @ centre
    numbers = (matrix / matrix[2, 2]).flatten()[:8].tolist()
    planes = [
        [
            Image.fromarray(plane.float().numpy()).transform(
                (side, side), Image.Transform.PERSPECTIVE, numbers, Image.Resampling.BILINEAR
            )
            for plane in picture
        ]
        for picture in image
    ]
    return torch.from_numpy(np.stack([[np.asarray(plane) for plane in picture] for picture in planes]))


def _subjects(bound: int) -> dict[str, Subject]:
    subjects: dict[str, Subject] = {
        "pellucid": partial(_ours, bound=bound),
        "pellucid, not antialiased": partial(_ours, bound=None),
        "torch grid_sample (torchvision, kornia)": _grid_sample,
    }
    if find_spec("cv2") is not None:
        subjects |= {f"OpenCV {how}": partial(_opencv, how=how) for how in ("INTER_LINEAR", "INTER_AREA")}
    if find_spec("PIL") is not None:
        subjects["Pillow transform, BILINEAR"] = _pillow
    return subjects


def measure_antialias(*, count: int = len(NAMES), budget: float = 1.0, batch: int = 8, say: Say = quiet) -> list[Row]:
    """Rows of quality (PSNR in dB, and how far slopes along x are off), and of time.

    Args:
        count: how many photographs.
        budget: seconds of timing per subject.
        batch: images per batch of 3 x 480 x 640, to 224 x 224.
        say: told what is measured.

    An image is compared with the integral of its pixel's own box, ours with the integral of its tent. A slope is the
    difference quotient of every output pixel by the map's shift along x; its error is relative, root mean square over pixels and
    photographs. OpenCV rounds positions to 1/32 pixel and has none.
    """
    rows: list[Row] = []
    for case, (about, bound) in MAPS.items():
        say(case)
        squares: dict[str, list[tuple[float, float, float]]] = {}
        for image in _photographs(count):
            src_from_dst = _centred(about, image)
            wanted = {weights: _pair(partial(_integral, weights=weights), image, src_from_dst) for weights in ("box", "tent")}
            for name, subject in _subjects(bound).items():
                (truth, true_slope), (found, slope) = (
                    wanted["tent" if name == "pellucid" else "box"],
                    _pair(subject, image, src_from_dst),
                )
                parts = ((found - truth).square().mean(), (slope - true_slope).square().mean(), true_slope.square().mean())
                squares.setdefault(name, []).append((parts[0].item(), parts[1].item(), parts[2].item()))
        for name, errors in squares.items():
            decibels = [-10.0 * math.log10(error) for error, _, _ in errors]
            noise = math.sqrt(sum(error for _, error, _ in errors) / sum(whole for _, _, whole in errors))
            quality = {"mean_db": sum(decibels) / len(decibels), "least_db": min(decibels), "slope_error": noise}
            rows.append({"subject": name, "case": case, "status": "ok", **quality})
    say("time")
    return rows + _timed(budget, batch)


def _centred(about: Tensor, image: Tensor) -> Tensor:
    """The map with its middle in the image's, off the pixels."""
    height, width = image.shape[-2:]
    shift = torch.eye(3, dtype=torch.float64)
    shift[0, 2], shift[1, 2] = width / 2 + 0.13, height / 2 - 0.21
    return shift @ about


def _pair(subject: Subject, image: Tensor, src_from_dst: Tensor) -> tuple[Tensor, Tensor]:
    """What a subject gives, and its slope by a shift along x."""
    shift = torch.eye(3, dtype=torch.float64)
    shift[0, 2] = STEP
    before, after = (subject(image, m @ src_from_dst, SIZE).double() for m in (torch.linalg.inv(shift), shift))
    return subject(image, src_from_dst, SIZE).double(), (after - before) / (2.0 * STEP)


def _timed(budget: float, batch: int) -> list[Row]:
    """A zoom of 1/1.8 at 10 degrees."""
    image = torch.rand(batch, 3, 480, 640, generator=torch.Generator().manual_seed(0))
    leaf, src_from_dst = image.clone().requires_grad_(), _centred(_map(1.8, 1.8, 10.0, side=224), image).float()
    forward: dict[str, Callable[[], Tensor]] = {
        name: partial(subject, image, src_from_dst if not name.startswith(("OpenCV", "Pillow")) else src_from_dst.double(), 224)
        for name, subject in _subjects(2).items()
    }

    def both(subject: Subject) -> None:
        result = subject(leaf, src_from_dst, 224)
        torch.autograd.grad(result, leaf, torch.ones_like(result))

    backward = {name: partial(both, subject) for name, subject in _subjects(2).items() if not name.startswith(("OpenCV", "Pillow"))}
    rows: list[Row] = []
    calls: Mapping[str, Mapping[str, Callable[[], object]]] = {"forward": forward, "forward + backward": backward}
    for case, subjects in calls.items():
        for name, timing in interleave(subjects, budget=budget).items():
            span = {"median_ms": timing.median * 1e3, "q1_ms": timing.low * 1e3, "q3_ms": timing.high * 1e3}
            rows.append({"subject": name, "case": case, "status": "ok", **span, "rounds": timing.rounds})
    return rows


def antialias_table(rows: list[Row]) -> str:
    """PSNR, mean and least of the photographs, and the slopes' error, by map; then times."""
    names = list(dict.fromkeys(row["subject"] for row in rows))
    found = {(row["subject"], row["case"]): row for row in rows}
    lines = ["| PSNR in dB, mean (least); error of the slope | " + " | ".join(MAPS) + " |", "|---|" + "---|" * len(MAPS)]
    for name in names:
        cells = []
        for case in MAPS:
            row = found[name, case]
            noise = "" if name.startswith("OpenCV") else f"; {row['slope_error']:.2f}"
            cells.append(f"{row['mean_db']:.1f} ({row['least_db']:.1f}){noise}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", "| ms (quartiles) | forward | forward + backward |", "|---|---|---|"]
    for name in names:
        cells = []
        for case in ("forward", "forward + backward"):
            timed = found.get((name, case))
            cells.append("" if timed is None else f"{timed['median_ms']:.1f} ({timed['q1_ms']:.1f} to {timed['q3_ms']:.1f})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
