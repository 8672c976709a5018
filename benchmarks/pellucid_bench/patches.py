"""Patches beside kornia's: the same images, the same frames, the same patch size.

Owns: the frames of the comparison, the check that both sides do the same, the timing.
Must not: format tables (``report.py`` has the rows' words) or set torch's threads.
Read next: ``measure.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pellucid.features import extract_patches, frames_from_xy
from pellucid_bench.compare import Row
from pellucid_bench.measure import Say, Timing, interleave, quiet
from pellucid_bench.settings import photographs

__all__ = ["FOOTPRINTS", "NEEDED", "measure_patches", "patches_table", "random_frames", "speedups"]

FOOTPRINTS = (8.0, 128.0)
"""Sides of the patches in the image, in pixels: log-uniform between these."""
NEEDED = 3.0
"""How many times kornia's speed the compiled patches must have."""

Extract = Callable[[Tensor, Tensor], Tensor]


def random_frames(batch: int, count: int, size: int, footprints: tuple[float, float] = FOOTPRINTS) -> Tensor:
    """(batch, count, 2, 3): centres all over the image, any orientation, a tilt of up to 1.6, log-uniform sides."""
    generator = torch.Generator().manual_seed(0)
    u = torch.rand(batch, count, 6, generator=generator)
    low, high = footprints
    frames = frames_from_xy((size - 1) * u[..., :2], 0.5 * low * (high / low) ** u[..., 2], 360.0 * u[..., 3])
    tilt = torch.exp(0.25 * (2 * u[..., 4] - 1))
    return frames * torch.stack((tilt, 1 / tilt, torch.ones_like(tilt)), -1)[..., None, :]


def _subjects(patch: int, impl: str) -> tuple[dict[str, Extract], str | None]:
    subjects: dict[str, Extract] = {
        "pellucid": lambda image, frames: extract_patches(image, frames, patch, impl=impl),
        "pellucid (reference)": lambda image, frames: extract_patches(image, frames, patch, impl="reference"),
    }
    try:
        from kornia.feature import extract_patches_from_pyramid
    except ImportError as error:
        return subjects, str(error)
    subjects["kornia extract_patches_from_pyramid"] = lambda image, frames: extract_patches_from_pyramid(image, frames, patch)
    return subjects, None


def _disagreement(subjects: dict[str, Extract], image: Tensor, patch: int) -> dict[str, float]:
    """Largest differences to ours where nobody blurs: samples at most a pixel apart, well inside."""
    frames = random_frames(image.shape[0], 64, image.shape[-1], (0.25 * patch, 0.6 * patch))
    middle = (image.shape[-1] - 1) / 2
    frames[..., 2] = middle + 0.5 * (frames[..., 2] - middle)
    ours = subjects["pellucid"](image, frames)
    return {name: (extract(image, frames) - ours).abs().max().item() for name, extract in subjects.items()}


def measure_patches(
    *, batch: int, size: int, count: int, patch: int, channels: tuple[int, ...], budget: float, impl: str, say: Say = quiet
) -> list[Row]:
    """Time every subject, forward and with a backward pass to image and frames.

    Args:
        batch, size: images and their height and width.
        count: frames per image.
        patch: the patches' side in samples.
        channels: a case for each.
        budget: seconds per subject and mode.
        impl: ours.

    Returns:
        One row per case, mode and subject; ``refused`` rows for peers that do something else, ``missing`` ones for absent peers.
    """
    subjects, missing = _subjects(patch, impl)
    rows: list[Row] = [] if missing is None else [{"subject": "kornia", "status": "missing", "note": missing}]
    for number in channels:
        image = photographs(batch, size)[:, :1].expand(-1, number, -1, -1).contiguous()
        frames = random_frames(batch, count, size)
        wrong = {name: difference for name, difference in _disagreement(subjects, image, patch).items() if not difference < 1e-3}
        rows += [
            {"subject": name, "status": "refused", "note": f"differs by {difference:.1e}"} for name, difference in wrong.items()
        ]
        able = {name: extract for name, extract in subjects.items() if name not in wrong}
        for mode, call in (("forward", _forward), ("image+frames", _both)):
            say(f"{batch}x{number}x{size}x{size}, {mode}")
            timings = interleave({name: call(extract, image, frames) for name, extract in able.items()}, budget=budget)
            rows += [_row(name, number, mode, timing) for name, timing in timings.items()]
    return rows


def _forward(extract: Extract, image: Tensor, frames: Tensor) -> Callable[[], Any]:
    return lambda: extract(image, frames)


def _both(extract: Extract, image: Tensor, frames: Tensor) -> Callable[[], Any]:
    leaves = image.clone().requires_grad_(), frames.clone().requires_grad_()
    with torch.no_grad():
        generator = torch.Generator().manual_seed(1)
        upstream = torch.randn(extract(*leaves).shape, generator=generator)
    return lambda: torch.autograd.grad(extract(*leaves), leaves, upstream)


def _row(name: str, channels: int, mode: str, timing: Timing) -> Row:
    times = {"median_ms": timing.median * 1e3, "q1_ms": timing.low * 1e3, "q3_ms": timing.high * 1e3, "rounds": timing.rounds}
    return {"subject": name, "status": "ok", "channels": channels, "mode": mode, **times}


def speedups(rows: list[Row]) -> dict[tuple[int, str], float]:
    """(channels, mode) -> kornia's median over ours; empty without kornia."""
    timed = {(row["channels"], row["mode"], row["subject"].split()[0]): row["median_ms"] for row in rows if _main(row)}
    return {
        key[:2]: timed[*key[:2], "kornia"] / time
        for key, time in timed.items()
        if key[2] == "pellucid" and (*key[:2], "kornia") in timed
    }


def _main(row: Row) -> bool:
    return row["status"] == "ok" and row["subject"] != "pellucid (reference)"


def patches_table(rows: list[Row]) -> str:
    """Medians and quartiles in milliseconds, and how many times faster ours is."""
    ours = {
        (row["channels"], row["mode"]): row["median_ms"] for row in rows if row["status"] == "ok" and row["subject"] == "pellucid"
    }
    lines = ["| channels | | | median ms (quartiles) | Pellucid is |", "|---|---|---|---|---|"]
    for row in rows:
        if row["status"] != "ok":
            continue
        span = f"{row['median_ms']:.1f} ({row['q1_ms']:.1f} to {row['q3_ms']:.1f})"
        ratio = "" if row["subject"] == "pellucid" else f"{row['median_ms'] / ours[row['channels'], row['mode']]:.1f} x faster"
        name = f"**{row['subject']}**" if row["subject"] == "pellucid" else row["subject"]
        mode = "forward" if row["mode"] == "forward" else "forward + backward to image and frames"
        lines.append(f"| {row['channels']} | {mode} | {name} | {span} | {ratio} |")
    odd = [f"* {row['subject']}: {row['status']}, {row['note']}" for row in rows if row["status"] != "ok"]
    return "\n".join(lines) + ("\n\n" + "\n".join(odd) if odd else "")
