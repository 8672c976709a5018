"""Launching Triton's kernels on contiguous samples: each is cut into programs by its size alone, so that sums keep their order.

Owns: `cut`, what else launchers share, and `NUMBERS`.
Must not: synchronise with the device, or be imported where Triton is not.
Read next: ``color/triton/points.py``.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["LANES", "NUMBERS", "cut", "on", "options", "stride"]

LANES = 64 if torch.version.hip else 32
"""Threads of a warp."""
NUMBERS = (
    *("count", "blocks", "chunks", "channels", "height", "width", "tiles_x", "tiles"),
    *("word_step", "mean_step", "sigma_step", "order_step", "factor_step", "param_step", "kernel_step"),
)
"""Arguments that Triton must not look at: it would compile anew for a size, a stride or a batch that is 1 or a multiple of 16."""
_STEPS = 8


def on(tensor: Tensor) -> Any:
    """The device that kernels on a tensor run on, as a context."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


def stride(rows: Tensor | None) -> int:
    """Elements from one sample's row to the next; 0 where all share one."""
    return 0 if rows is None or rows.shape[0] == 1 else rows.numel() // rows.shape[0]


def cut(count: int, each: int) -> tuple[int, int, int]:
    """(blocks of a sample of so many elements, how many of them a program of sums adds up, such programs)."""
    blocks = triton.cdiv(count, each)
    steps = min(_STEPS, blocks)
    return blocks, steps, triton.cdiv(blocks, steps)


def options(dtype: torch.dtype, pixels: int) -> dict[str, Any]:
    """Of kernels whose blocks have so many pixels, one for each thread; a value must fall on the reference's side of a jump."""
    kind = tl.float64 if dtype == torch.float64 else tl.float32
    return {"P": pixels, "F": kind, "num_warps": max(pixels // LANES, 1), "enable_fp_fusion": False}
