"""The augmentation of dataset condensation, written from its paper with `grid_sample`: the subject that ours is measured beside.

Owns: one draw per class and step, for real and learned pictures alike.
Must not: use our transforms.
Read next: ``distill.py``.

Zhao and Bilen, "Dataset condensation with differentiable siamese augmentation", ICML 2021, section 3.2 and appendix: pictures are
normalised, so that 0 is the mean of the data.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["siamese"]


def siamese(real: Tensor, learned: Tensor, step: int, *, classes: int, seed: int) -> tuple[Tensor, Tensor]:
    """Real and learned pictures, the mean of the data at 0.5 and its deviation 0.5; every class has equally many rows."""
    shown, made = [], []
    for one, pair in enumerate(zip(real.chunk(classes), learned.chunk(classes), strict=True)):
        draw = torch.Generator().manual_seed((seed * 100_003 + step) * classes + one)
        seen = augmented(2 * torch.cat(pair) - 1, draw) / 2 + 0.5
        shown.append(seen[: len(pair[0])])
        made.append(seen[len(pair[0]) :])
    return torch.cat(shown), torch.cat(made)


def augmented(x: Tensor, draw: torch.Generator) -> Tensor:
    """One of the six operations with one draw, for all rows of pictures whose mean is 0."""
    u, v, w = torch.rand(3, generator=draw).tolist()
    match int(torch.randint(6, (), generator=draw)):
        case 0:
            return _colour(x, u, v, w)
        case 1:
            return _shifted(x, u, v)
        case 2:
            return _cut(x, u, v)
        case 3:
            return x.flip(3) if u < 0.5 else x
        case 4:  # each axis by 1 / 1.2 to 1.2
            across, down = (1 / 1.2 + (1.2 - 1 / 1.2) * one for one in (u, v))
            return _sampled(x, [[across, 0.0, 0.0], [0.0, down, 0.0]])
        case _:  # by up to 15 degrees
            angle = math.radians(15) * (2 * u - 1)
            return _sampled(x, [[math.cos(angle), math.sin(-angle), 0.0], [math.sin(angle), math.cos(angle), 0.0]])


def _colour(x: Tensor, u: float, v: float, w: float) -> Tensor:
    x = x + (u - 0.5)
    grey = x.mean(1, keepdim=True)
    x = grey + 2 * v * (x - grey)
    mean = x.mean((1, 2, 3), keepdim=True)
    return mean + (0.5 + w) * (x - mean)


def _shifted(x: Tensor, u: float, v: float) -> Tensor:
    height, width = x.shape[2:]
    down, right = (int(length / 8 + 0.5) for length in (height, width))
    padded = F.pad(x, (right, right, down, down))
    top, left = int(u * (2 * down + 1)), int(v * (2 * right + 1))
    return padded[:, :, top : top + height, left : left + width]


def _cut(x: Tensor, u: float, v: float) -> Tensor:
    height, width = x.shape[2:]
    top, left = int(u * (height + 1)) - height // 4, int(v * (width + 1)) - width // 4
    keep = torch.ones(height, width)
    keep[max(top, 0) : max(top + height // 2, 0), max(left, 0) : max(left + width // 2, 0)] = 0
    return x * keep


def _sampled(x: Tensor, matrix: list[list[float]]) -> Tensor:
    theta = torch.tensor(matrix, dtype=x.dtype).expand(len(x), 2, 3)
    return F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), padding_mode="zeros", align_corners=False)
