"""Which passes only move pictures by whole pixels, told from their maps.

Owns: `shifts`, their maps as whole numbers, and `undone`, the inverses of those.
Must not: import Numba before a call, or look at pixels.
Read next: ``moves.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.kernels.several import Pictures
from pellucid.kernels.stages.chain import FIRST_MIX, as_read

__all__ = ["Shifts", "shifts", "undone"]

Shifts = Int64[np.ndarray[Any, Any], "#b 6"]
_NO_WINDOW = {kind: np.empty((1, 0), kind) for kind in (np.dtype(np.float32), np.dtype(np.float64))}


def shifts(
    image: Tensor | Pictures,
    pictures: Int64[np.ndarray[Any, Any], "#b 9"],
    mapping: Float[Tensor, "#b n"],
    window: Tensor | None,
    params: Float[Tensor, "#b m"],
    size: list[int],
    options: list[int],
) -> Shifts | None:
    """The maps of a pass without field, links and table, whose samples all are copies; None of others.

    Args:
        pictures: where they lie, as ``../../sources.py`` describes it.
    """
    offset = options[2] & FIRST_MIX  # and fill: of black they change nothing
    if not as_read(options[2] & ~offset) or (offset and params.numpy().any()) or options[3] != image.shape[1] or 0 in image.shape:
        return None
    from pellucid.kernels.warp.cpu.moves import whole_shifts

    maps = mapping.contiguous().numpy()
    found = np.empty((len(maps), 6), np.int64)
    windows = _NO_WINDOW[maps.dtype] if window is None else window.contiguous().numpy()
    return found if whole_shifts(maps, windows, options[1], pictures, size[0], size[1], found) else None


def undone(maps: Shifts) -> Shifts:
    """The maps the other way: what each pixel of the image gave its colour to."""
    a, b, c, d, e, f = maps.T
    back = np.empty_like(maps)
    back[:, 0], back[:, 1], back[:, 2], back[:, 3], back[:, 4], back[:, 5] = a, d, -(a * c + d * f), b, e, -(b * c + e * f)
    return back
