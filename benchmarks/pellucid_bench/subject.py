"""Who is measured: one library's version of a case, with what surrounds the timed call.

Owns: `Subject`, `Case` and the names of regimes.
Must not: time, check or import a peer.
Read next: ``settings.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["BATCHED", "BATCHED_ONE_DRAW", "IMAGE_8BIT", "IMAGE_FLOAT", "Subject", "channels_last_8bit", "to_8bit_arrays"]

BATCHED = "batch, float32, a draw per sample"
BATCHED_ONE_DRAW = "batch, float32, one draw for all"
IMAGE_FLOAT = "image by image, float32, a draw each"
IMAGE_8BIT = "image by image, uint8 HWC arrays, a draw each"


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Subject:
    """One library's version of a case.

    Args:
        name: the library, and the variant where it has several.
        regime: what goes in and how parameters are drawn.
        forward: the timed call.
        prepare: from a (B, C, H, W) float32 batch in [0, 1] to what ``forward`` takes; not timed.
        tensor: from what ``forward`` returns to (B, C, H, W) float32; not timed, used by the checks.
        parameters: a call that also returns the drawn parameters as leaves, where the library can differentiate to them.
        matched: a call that returns this subject's result and Pellucid's under the same drawn parameters.
        tolerance: of ``matched``, as the mean absolute difference of images in [0, 1].
        differentiable: whether a backward pass is meant to exist at all.
    """

    name: str
    regime: str
    forward: Callable[[Any], Any]
    prepare: Callable[[Tensor], Any] = _same
    tensor: Callable[[Any], Tensor] = _same
    parameters: Callable[[Any], tuple[Tensor, list[Tensor]]] | None = None
    matched: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None
    tolerance: float = 1e-3
    differentiable: bool = True


def channels_last_8bit(images: Tensor) -> Tensor:
    """The batch as a decoder hands it over: (B, H, W, C) uint8 in memory, seen as (B, C, H, W)."""
    return (images * 255.0).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)


def to_8bit_arrays(images: Tensor) -> list[Any]:
    """The batch as a list of (H, W, C) uint8 arrays."""
    return [image.permute(1, 2, 0).contiguous().numpy() for image in (images * 255.0).round().to(torch.uint8)]
