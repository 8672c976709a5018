"""Evidence for a map that a descent found: how many places have details that match best there, and how well these fix the map.

Owns: the evidence. The loss is none, as wrong maps also make large bright and dark areas fit; nor are its residual relative to the
    noise, or details that the descent does not see (``docs/adr/0024-alignment.md`` has the numbers).
Must not: judge; ``verdicts.py`` does.
Read next: ``verdicts.py``.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.functional import warp
from pellucid.registration.losses import blurred
from pellucid.registration.maps import basis
from pellucid.registration.newton import Pair
from pellucid.types import Size

__all__ = ["Evidence", "evidence_of"]

_DETAILS: Final = (1.0, 4.0)
"""Pixels: details are the difference of a blur by the first and a blur by the second; both are smaller for small pictures."""
_MOVED: Final = (3.0, 6.0)
"""Pixels by which the picture is moved for comparison: at the right map, details match less after such a move."""
_LEAST, _TIE = 0.3, 0.02
"""The least correlation of a place's details, and by how much it may be higher after a move: edges match themselves shifted."""
_ABOVE_NOISE = 6.0
"""Details count only if their variance is so many times the noise's."""
_PLACES = 5
"""Number of places side by side along the shorter side; windows in between overlap them by half."""


class Evidence(NamedTuple):
    """The evidence for each pair of a batch.

    Args:
        agreeing: of the places with details above the noise in either picture, the share that match best where the map puts them.
        leverage: the map's largest uncertainty in the overlap, in pixels, if each agreeing place has an uncertainty of one pixel.
    """

    agreeing: Float[Tensor, "b"]
    leverage: Float[Tensor, "b"]


def evidence_of(pair: Pair, matrix: Float[Tensor, "b 3 3"], field: Float[Tensor, "b 2 h w"] | None, model: str) -> Evidence:
    """Compare details at every place of the overlap, under the map and with the picture moved in eight directions.

    Args:
        pair: the full pictures.
        matrix, field: the map, moving pixel from fixed pixel.
        model: the matrix's model, on which the leverage depends.
    """
    size = pair.size
    unit, side = min(1.0, min(size) / 128), max(4, min(size) // _PLACES)
    weight = pair.covered(matrix, field)
    inside = (weight > 0.5).to(weight)
    out = warp(pair.moving, matrix, size=size, displacement=field, padding_mode="border")

    def details(picture: Tensor, share: Tensor) -> Tensor:
        fine, coarse = (blurred(picture * share, s * unit) / blurred(share, s * unit).clamp_min(1e-6) for s in _DETAILS)
        return fine - coarse

    def mean(values: Tensor) -> Float[Tensor, "b 1 m n"]:
        return F.avg_pool2d(values.mean(1, keepdim=True), side, max(1, side // 2))

    point = F.pad(torch.ones_like(out[:1, :1, :1, :1]), (32, 32, 32, 32))
    kept = details(point, torch.ones_like(point)).square().sum()  # share of independent noise's variance in details
    shown, wanted = (details(picture, weight) * inside for picture in (out, pair.fixed))
    power, wanted_power, full = mean(shown * shown), mean(wanted * wanted), mean(inside)
    there = full > 0.5
    # Details in only one of the pictures count against the map.
    loud = [there & (p > _ABOVE_NOISE * kept * full * _noise(q)) for p, q in ((power, pair.moving), (wanted_power, pair.fixed))]
    counting = loud[0] | loud[1]
    agreed = mean(shown * wanted) / (power * wanted_power).sqrt().clamp_min(1e-12)
    rival = torch.full_like(agreed, -1.0)
    for y, x in _around(unit):
        moved = shown.roll((y, x), (2, 3))
        rival = torch.maximum(rival, mean(moved * wanted) / (mean(moved * moved) * wanted_power).sqrt().clamp_min(1e-12))
    agreeing = counting & (agreed >= rival - _TIE) & (agreed >= _LEAST)
    share = agreeing.sum((1, 2, 3)) / counting.sum((1, 2, 3)).clamp_min(1)
    return Evidence(share.to(agreed), _leverage(agreeing[:, 0], there[:, 0], side, size, model))


def _around(unit: float) -> list[tuple[int, int]]:
    """Return moves in eight directions, by at least a pixel."""
    eighths = [(math.sin(math.pi * i / 4), math.cos(math.pi * i / 4)) for i in range(8)]
    lengths = [max(1.0, length * unit) for length in _MOVED]
    return [(round(length * y), round(length * x)) for length in lengths for y, x in eighths]


def _noise(picture: Tensor) -> Float[Tensor, "b 1 1 1"]:
    """Estimate the variance of independent noise from second differences that are not exactly 0.

    Source:
        Immerkaer, Fast noise variance estimation, CVIU 1996, with a median instead of the mean, which edges raise.
    """
    line = torch.tensor([1.0, -2.0, 1.0], dtype=picture.dtype, device=picture.device)
    found = F.conv2d(picture.flatten(0, 1)[:, None], (line[:, None] * line)[None, None]).abs().unflatten(0, picture.shape[:2])
    found = torch.where(found > 0, found, torch.nan).flatten(2).nanmedian(2).values
    return torch.nan_to_num(found / (6 * 0.6745), 0.0).square().mean(1)[:, None, None, None]


def _leverage(
    agreeing: Bool[Tensor, "b m n"], there: Bool[Tensor, "b m n"], side: int, size: Size, model: str
) -> Float[Tensor, "b"]:
    """Return the map's largest standard deviation at the overlap's places, given one of a pixel at each agreeing place."""
    half, step = max(size) / 2, max(1, side // 2)
    like = torch.ones(1, dtype=torch.float64, device=agreeing.device)
    y, x = (
        (like.new_tensor(range(count)) * step + (side - length) / 2) / half
        for count, length in zip(agreeing.shape[1:], size, strict=True)
    )
    places = torch.stack((*torch.meshgrid(x, y, indexing="xy"), like.expand(len(y), len(x))), -1).flatten(0, 1)  # n 3
    changed = torch.einsum("kij,nj->nik", basis(model, like).unflatten(1, (3, 3)), places)  # n 3 k
    slopes = changed[:, :2] - places[:, :2, None] * changed[:, 2:]
    normal = torch.einsum("bn,nik,nil->bkl", agreeing.flatten(1).to(like), slopes, slopes)
    normal = normal + 1e-6 * torch.eye(normal.shape[-1], dtype=like.dtype, device=like.device)
    variance = torch.einsum("nik,bkl,nil->bn", slopes, torch.linalg.inv(normal), slopes)
    return torch.where(there.flatten(1), variance, 0.0).amax(1).sqrt()
