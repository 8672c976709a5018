"""Lists of operations on bytes, a list for each picture, in one call.

Owns: `Operations`, `apply`, split over threads, and `MOST`.
Must not: be asked for gradients: bytes have none.
Read next: ``layout.py``, ``sweep.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor

from pellucid.kernels.bytewise.layout import Room
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.pixels import in_planes
from pellucid.kernels.threads import run_split, scratch
from pellucid.kernels.warp.cpu.layout import Call
from pellucid.kernels.warp.layout import MODES

__all__ = ["MOST", "Operations", "apply"]

MOST = 1 << 20
"""A picture of more pixels does not stay in the cache between two operations."""
_BYTES = 1 << 17  # of a picture, the fewest worth handing to another thread
_LINES = 8  # rows whose pixels are placed together


class Operations(NamedTuple):
    """A list of operations for each row of a batch, which run one after the other; each returns bytes.

    Args:
        steps: (n, 2): the kind of each, as ``layout.py`` has them, and where its numbers begin.
        starts: (rows + 1,): each row's first operation, and at the end how many there are.
        numbers: (rows, n), in the precision of drawn values.
        shares: (b, 1 + k), by which a picture and the results of its k rows are mixed; without columns a picture has one row, whose
            result is returned.
    """

    steps: NDArray[np.int64]
    starts: NDArray[np.int64]
    numbers: NDArray[np.float64]
    shares: NDArray[np.float32]


def apply(image: UInt8[Tensor, "b c h w"], operations: Operations) -> UInt8[Tensor, "b c h w"]:
    """Apply each picture's operations, with the bytes that one pass per operation gives, rounded after each.

    All rows of a picture read that picture; pictures between two operations stay in a thread's own memory.
    """
    from pellucid.kernels.bytewise.sweep import sweep

    batch, channels, height, width = image.shape
    out = in_large_pages(torch.empty(image.shape, dtype=torch.uint8, device=image.device))
    if not out.numel():
        return out
    images, into = (each.view(batch, channels, height * width).numpy() for each in (in_planes(image), out))
    rows, call = operations.shares.shape[1] - 1, _call(channels, height, width)
    picture = np.array(((call.base, 0, 0, 0, call.stride_c, call.stride_y, call.stride_x, height, width),), np.int64)

    def task(start: int, stop: int) -> None:
        sweep(images, call, picture, *operations, _room(channels, height, width, rows), into, start, stop)

    run_split(task, batch, _BYTES // (channels * height * width * max(rows, 1)) + 1)
    return out


def _call(channels: int, height: int, width: int) -> Call:
    """Describe one picture to the copying warp."""
    sizes: dict[str, Any] = {
        "channels": channels,
        "out_channels": channels,
        "out_height": height,
        "out_width": width,
        "block": width,
    }
    steps: dict[str, Any] = dict.fromkeys(("map_step", "window_step", "param_step", "field_step"), 0)
    others: dict[str, Any] = {"taps": 1, "mode": MODES["zeros"], "projective": False, "still": False, "cubic": 0.0}
    others |= {"strip": 1, "blocks": 1, "unit": np.float32(1 / 255)}
    return Call(0, 0, height * width, width, 1, height, width, **sizes, **steps, **others)


def _room(channels: int, height: int, width: int, rows: int) -> tuple[Room, Any]:
    """A thread's memory, and that of so many results to be mixed."""
    pixels, floats = height * width, scratch("lines", 6 * 256 + 32 + width + max(11 * width, 3 * 1024), np.float32)
    own = Room(
        scratch("bytes", 2 * channels * pixels, np.uint8).reshape(2, channels, pixels),
        scratch("plane", 4 * (height + 2) * (width + 2), np.float32),
        *(floats[: 6 * 256].reshape(6, 256), floats[6 * 256 :][:16], floats[6 * 256 + 16 :][:16]),
        *(floats[6 * 256 + 32 :][:width], floats[6 * 256 + 32 + width :]),
        scratch("places", _LINES * width, np.int32),
        scratch("tables", channels * 256, np.uint8).reshape(channels, 256),
        scratch("counts", channels * 256, np.int64).reshape(channels, 256),
        scratch("parts", 4 * 256, np.int64).reshape(4, 256),
    )
    return own, scratch("made", max(rows, 0) * channels * pixels, np.uint8).reshape(max(rows, 0), channels, pixels)
