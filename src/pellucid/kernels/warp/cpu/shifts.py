"""Recognise passes that only move pictures by whole pixels, by their maps.

Owns: `shifts`, their maps as whole numbers, and `undone`, the inverses of those.
Must not: import Numba before a call, or look at pixels.
Read next: ``moves.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from pellucid.kernels.stages.chain import FIRST_MIX, as_read

__all__ = ["Shifts", "may_shift", "shifts", "undone", "whole"]

Shifts = Int64[np.ndarray[Any, Any], "#b 6"]
_NO_WINDOW = {kind: np.empty((1, 0), kind) for kind in (np.dtype(np.float32), np.dtype(np.float64))}


def shifts(
    shape: Sequence[int],
    pictures: Int64[np.ndarray[Any, Any], "#b 9"],
    maps: Float[np.ndarray[Any, Any], "#b n"],
    windows: np.ndarray[Any, Any] | None,
    params: Float[np.ndarray[Any, Any], "#b m"],
    size: list[int],
    options: list[int],
) -> Shifts | None:
    """The maps of a pass, without field, links and table, whose samples all are copies; None for other passes.

    Args:
        shape: of the pictures.
        pictures: where they lie, as ``../../sources.py`` describes it.
    """
    offset = options[2] & FIRST_MIX  # offset and fill, which change nothing if they are black
    return whole(pictures, maps, windows, options[1], size) if may_shift(shape, options) and not (offset and params.any()) else None


def may_shift(shape: Sequence[int], options: list[int]) -> bool:
    """Whether passes with these options may be copies: no colour changes."""
    return as_read(options[2] & ~FIRST_MIX) and options[3] == shape[1] and 0 not in shape


def whole(
    pictures: Int64[np.ndarray[Any, Any], "#b 9"],
    maps: Float[np.ndarray[Any, Any], "#b n"],
    windows: np.ndarray[Any, Any] | None,
    mode: int,
    size: Sequence[int],
    tell: Callable[..., bool] | None = None,
) -> Shifts | None:
    """As `shifts`, for a pass that changes no colour; ``tell``: the compiled function, if it is at hand."""
    if tell is None:
        from pellucid.kernels.warp.cpu.moves import whole_shifts

        tell = whole_shifts
    found = np.empty((len(maps), 6), np.int64)
    windows = _NO_WINDOW[maps.dtype] if windows is None else windows
    return found if tell(maps, windows, mode, pictures, size[0], size[1], found) else None


def undone(maps: Shifts) -> Shifts:
    """The inverse maps: which pixel of the result each pixel of the image went to."""
    back = [(a, d, -(a * c + d * f), b, e, -(b * c + e * f)) for a, b, c, d, e, f in maps.tolist()]
    return np.array(back, np.int64).reshape(-1, 6)
