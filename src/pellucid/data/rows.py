"""Numbers of annotations, read from files that may hold anything.

Owns: what counts as a number, and rows of targets.
Must not: know a form of annotations.
Read next: ``annotations.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.errors import invalid
from pellucid.types import Size

__all__ = ["check_size", "numbers", "rows", "short"]

_MOST = 1e9
"""Beyond any picture, and far within what float64 counts."""


def numbers(name: str, value: object, expected: str) -> list[float]:
    """A list of finite numbers; ``expected`` says of which, for everything else."""
    right = isinstance(value, list) and all(type(one) in (int, float) and abs(one) < _MOST for one in value)
    if not right:
        raise invalid(name, expected=expected, got=f"{value!r:.80}")
    return [float(one) for one in value]  # type: ignore[attr-defined]  # a list, as checked


def rows(parts: Sequence[Any], width: int) -> Tensor:
    """Rows of targets, (n, width), one part after the other."""
    return torch.from_numpy(np.concatenate([np.reshape(part, (-1, width)) for part in parts]) if parts else np.zeros((0, width)))


def short(value: float) -> float:
    """A number with as many digits as a file needs."""
    return round(float(value), 3)


def check_size(name: str, said: tuple[object, object], size: Size) -> None:
    """Raise where the (height, width) that an annotation says is not its picture's; None and 0 say nothing."""
    if all(one in (None, 0) or (type(one) in (int, float) and one == here) for one, here in zip(said, size, strict=True)):
        return
    turned = " Its size before its orientation (EXIF) is applied?" if said == size[::-1] else ""
    fix = f"{turned.strip() or 'Is it of another picture?'} Boxes would be of another frame."
    expected = f"the size of its picture, {size[0]} high and {size[1]} wide"
    raise invalid(name, expected=expected, got=f"{said[0]!r} high and {said[1]!r} wide", fix=fix)
