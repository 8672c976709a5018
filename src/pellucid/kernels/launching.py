"""Launch Triton kernels on contiguous samples: each is cut into programs by its size alone, so that sums keep their order.

Owns: `cut`, `NUMBERS` and what else launchers share; `fixed`, a kernel's compile-time constants as one value, which every function
that a kernel calls takes as ``S``.
Must not: synchronise with the device, or be imported where Triton is not.
Read next: ``color/triton/points.py``.
"""

from contextlib import nullcontext
from functools import lru_cache
from inspect import signature
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["LANES", "NUMBERS", "Fixed", "cut", "fixed", "kernel", "on", "options", "stride"]

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
    """(blocks in a sample of ``count`` elements, blocks that a summing program adds up, number of summing programs)."""
    blocks = triton.cdiv(count, each)
    steps = min(_STEPS, blocks)
    return blocks, steps, triton.cdiv(blocks, steps)


def options(dtype: torch.dtype, pixels: int, **constants: Any) -> dict[str, Any]:
    """Launch options for blocks of so many pixels, one per thread; unfused: values must fall on the reference's side of a jump."""
    kind = tl.float64 if dtype == torch.float64 else tl.float32
    return {"S": fixed(**constants, P=pixels, F=kind), "num_warps": max(pixels // LANES, 1), "enable_fp_fusion": False}


def kernel(function: Any) -> Any:
    """A Triton kernel made of a function whose last argument is ``fixed``; only another value of that is compiled anew.

    By itself Triton would compile anew for a size, a stride or a batch that is 1 or a multiple of 16, and for addresses that 16
    divides. A thread's pixels lie in different rows, so there is nothing to load together.
    """
    return triton.jit(function, do_not_specialize=[*signature(function).parameters][:-1])


class Fixed:
    """Named constants. A kernel is compiled for each that is written differently; equal ones are the same object.

    * Colours. C, OC: channels of image and result; GROUPS: how many programs share them; K, N: how many each reads and writes.
      FLAGS: the stages; SLOTS: where the numbers of some begin. UNIT: what 1 in the image is worth.
    * Programs. BW, WW, P: the tile of one, as in `program`; STEPS: how many tiles one sums. F, INDEX: dtypes of numbers, and of
      offsets within a sample. NEAR: what is adjacent in memory, as ``launch.py`` says.
    * Where they read. PROJECTIVE: whether the map is; FIELD: whether a field displaces; WINDOW: whether a window limits the reads.
      LINKS, KINDS: canvases of the chain; SOFT: whether one fades out; GROUNDS: where their fills begin among the colours, or -1;
      PLANES: numbers of a pixel that go back along the chain. RAW: every pixel is usable, and one whose coordinates are not finite
      reads nothing, since `settle` puts them outside.
    * How. TAPS, MODE, CUBIC: the interpolation; EDGE: the border rule behind the window. SPAN: how an antialiased pixel has its
      weights, or 0; SHARP: resizes that do not widen their kernels.
    * Backward. TO_MAP, TO_PARAMS, TO_SOURCE, TO_FIELD: what is wanted; EPS, REACH, SIDE: rounding, reach and squares of the gather;
      AT: the link of the knots.
    """

    def __init__(self, values: tuple[tuple[str, Any], ...]) -> None:
        self._text = "_".join(f"{name}{value}" for name, value in values)
        interpreted = triton.knobs.runtime.interpret
        vars(self).update((name, value if interpreted else tl.constexpr(value)) for name, value in values)

    def __repr__(self) -> str:
        return self._text


@lru_cache(maxsize=256, typed=True)
def fixed(**values: Any) -> Fixed:
    """The constants with these names and values; equal ones are the same object."""
    return Fixed(tuple(values.items()))
