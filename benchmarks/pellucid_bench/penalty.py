"""A step of R1 regularisation through a warp, beside the detour by `grid_sample` of StyleGAN2-ADA, written from its paper.

Owns: the subjects, the check that they agree, and the table.
Must not: print.
Read next: ``report.py``.

Karras, Aittala, Hellsten, Laine, Lehtinen, Aila: "Training generative adversarial networks with limited data", NeurIPS 2020:
`grid_sample` has no second derivative, but it is linear in the picture, so its backward's backward is `grid_sample` again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid import Key, Pipeline
from pellucid.policy import ADA
from pellucid.policy.adversarial import AdaGeometry
from pellucid_bench.compare import Row
from pellucid_bench.measure import Say, interleave, quiet

__all__ = ["SUBJECTS", "measure_penalty", "penalty_table", "subjects"]

SUBJECTS = ("pellucid", "detour by grid_sample", "grid_sample", "pellucid, all of ADA", "without augmentation")
_REFLECT = 2


class _Sample(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image: Tensor, grid: Tensor) -> Tensor:
        ctx.save_for_backward(image, grid)
        return F.grid_sample(image, grid, padding_mode="reflection", align_corners=False)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        image, grid = ctx.saved_tensors
        return _Back.apply(slopes[0], image, grid), None


class _Back(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, slope: Tensor, image: Tensor, grid: Tensor) -> Tensor:
        ctx.save_for_backward(grid)
        back: Tensor = torch.ops.aten.grid_sampler_2d_backward(slope, image, grid, 0, _REFLECT, False, (True, False))[0]
        return back

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        (grid,) = ctx.saved_tensors
        return _Sample.apply(slopes[0], grid), None, None


def subjects(images: Tensor, *, p: float = 0.6, seed: int = 0) -> dict[str, Callable[[Tensor], Tensor]]:
    """What a critic's pictures go through: the same geometry three times, then the whole of ADA, and nothing."""
    augment = Pipeline([AdaGeometry(p, p)])
    record = augment.draw(images, key=Key(seed))
    height, width = images.shape[2:]
    # From grid_sample's coordinates to pixel centres, and from there into the source.
    like = record.matrix
    pixels = torch.tensor([[width / 2, 0, width / 2 - 0.5], [0, height / 2, height / 2 - 0.5], [0, 0, 1]], dtype=like.dtype)
    theta = (torch.linalg.inv(pixels) @ torch.linalg.inv(like) @ pixels)[:, :2].to(images.dtype)

    def grid() -> Tensor:
        return F.affine_grid(theta, list(images.shape), align_corners=False)

    def plain(x: Tensor) -> Tensor:
        return F.grid_sample(x, grid(), padding_mode="reflection", align_corners=False)

    def detour(x: Tensor) -> Tensor:
        out: Tensor = _Sample.apply(x, grid())
        return out

    calls = (partial(augment.apply, record=record), detour, plain, ADA(p=p, seed=seed), lambda x: x)
    return dict(zip(SUBJECTS, calls, strict=True))


def penalty(augment: Callable[[Tensor], Tensor], critic: nn.Module, images: Tensor) -> list[Tensor]:
    """The gradient of R1 to the critic's parameters."""
    real = images.detach().requires_grad_()
    (slope,) = torch.autograd.grad(critic(augment(real)).sum(), real, create_graph=True)
    return list(torch.autograd.grad(slope.square().sum(), list(critic.parameters()), allow_unused=True))


def make_critic(channels: int, width: int = 16) -> nn.Module:
    """A small one, so that what is timed is the augmentation."""
    return nn.Sequential(nn.Conv2d(channels, width, 4, 4), nn.Tanh(), nn.Conv2d(width, 1, 4, 4))


def measure_penalty(*, batch: int, size: int, budget: float, say: Say = quiet) -> list[Row]:
    """Time a step of R1 for every subject, in turns, after the first two have given the same gradients.

    Args:
        batch, size: pictures and their height and width.
        budget: seconds per subject.

    Errors:
        RuntimeError where the detour's gradients are not ours.
    """
    images = torch.rand(batch, 3, size, size, generator=torch.Generator().manual_seed(0))
    critic = make_critic(3)
    calls = {name: partial(penalty, augment, critic, images) for name, augment in subjects(images).items()}
    rows: list[Row] = []
    for name in SUBJECTS:
        say(name)
        try:
            calls[name]()
        except RuntimeError as error:
            del calls[name]
            rows.append({"subject": name, "status": "raises", "note": str(error).splitlines()[0]})
    for ours, theirs in zip(calls[SUBJECTS[0]](), calls[SUBJECTS[1]](), strict=True):
        if ours is not None and (ours - theirs).norm() > 1e-3 * theirs.norm():
            raise RuntimeError("the gradients of R1 differ")
    for name, timing in interleave(calls, budget=budget).items():
        times = {"median_ms": timing.median * 1e3, "q1_ms": timing.low * 1e3, "q3_ms": timing.high * 1e3, "rounds": timing.rounds}
        rows.append({"subject": name, "status": "ok", **times})
    return sorted(rows, key=lambda row: SUBJECTS.index(row["subject"]))


def penalty_table(rows: list[Row]) -> str:
    """Medians and quartiles in milliseconds."""
    lines = ["| augmentation in a step of R1 | ms (quartiles) | times ours |", "|---|---|---|"]
    ours = next(row["median_ms"] for row in rows if row["subject"] == SUBJECTS[0])
    for row in rows:
        if row["status"] == "ok":
            times = f"{row['median_ms']:.1f} ({row['q1_ms']:.1f} to {row['q3_ms']:.1f}) | {row['median_ms'] / ours:.2f}"
        else:
            times = f"raises: {row['note']} | "
        lines.append(f"| {row['subject']} | {times} |")
    return "\n".join(lines)
