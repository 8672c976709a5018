"""What is fixed while a kernel is compiled: one value, which every function that a kernel calls takes as ``S``.

Owns: `Fixed`, `fixed`, and the decorator of kernels that are compiled once for all sizes.
Must not: be imported where Triton is not.
Read next: ``launch.py``, which fills it in; ``forward.py``.
"""

from __future__ import annotations

from functools import lru_cache
from inspect import signature
from typing import Any

import triton
import triton.language as tl

__all__ = ["Fixed", "fixed", "kernel"]


def kernel(function: Any) -> Any:
    """A function of pointers, numbers and, last, what is ``fixed`` as a kernel of Triton's that is compiled for the last alone.

    By itself Triton would compile anew for a size, a stride or a batch that is 1 or a multiple of 16, and for memory that 16 bytes
    divide. A thread's pixels lie in different rows, so there is nothing to load together.
    """
    return triton.jit(function, do_not_specialize=[*signature(function).parameters][:-1])


class Fixed:
    """Named constants. A kernel is compiled for each that is written differently; equal ones are the same object.

    * Colours. C, OC: channels of image and result; GROUPS: how many programs share them; K, N: how many each reads and writes.
      FLAGS: the stages; SLOTS: where the numbers of some begin. UNIT: what 1 in the image is worth.
    * Programs. BW, WW, P: the tile of one, as in `program`; STEPS: how many tiles one sums. F, INDEX: dtypes of numbers, and of
      offsets within a sample. NEAR: what lies side by side, as ``launch.py`` says.
    * Where they read. PROJECTIVE: the map; FIELD: whether a field displaces; WINDOW: whether one holds. LINKS, KINDS: canvases of
      the chain; SOFT: whether one fades out; GROUNDS: where their fills begin among the colours, or -1; PLANES: numbers of a pixel
      that go back along the chain. RAW: every pixel is usable, and one whose coordinates are not finite reads nothing, since
      `settle` puts them outside.
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
    """The constants of such names and values."""
    return Fixed(tuple(values.items()))
