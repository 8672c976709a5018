"""The hue rotation on a strip of pixels, without a branch per pixel. Backward is printed (``../../stages/printed/hue.py``).

Owns: the value of ``color.hsv.shift_hue``. What is printed of it computes two things more, which the gradient needs: a channel that
    is not a number, and blue's slope on red itself. They make a kernel of 46 instructions slower by 17 percent.
Must not: clip.
Read next: ``sweep.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.color.hsv import FAINT
from pellucid.kernels.jit import fused, noinline, wide

__all__ = ["hue"]


@fused
def hue(hue_shift, source, target):  # type: ignore[no-untyped-def]
    """Rotate the hue of three rows."""
    noinline()
    wide()
    cast = source.dtype.type
    red, green, blue = source[0], source[1], source[2]
    to_red, to_green, to_blue = target[0], target[1], target[2]
    zero, one, two, three, four, six = cast(0.0), cast(1.0), cast(2.0), cast(3.0), cast(4.0), cast(6.0)
    sixth, faint = cast(1.0 / 6.0), cast(FAINT)
    shift = six * hue_shift
    for u in range(len(red)):
        r, g, b = red[u], green[u], blue[u]
        value = max(max(r, g), b)
        chroma = value - min(min(r, g), b)
        grey = chroma < faint
        is_red, is_green = value == r, value == g
        start = zero if is_red else (two if is_green else four)
        ahead, behind = (g if is_red else (b if is_green else r)), (b if is_red else (r if is_green else g))
        h = (zero if grey else start) + (ahead - behind) * (one / (one if grey else chroma)) + shift
        h -= six * np.floor(h * sixth)  # in [0, 6]: how much of the chroma each channel lacks is a trapezium of it
        to_red[u] = value - chroma * max(min(two - abs(h - three), one), zero)
        to_green[u] = value - chroma * max(min(abs(h - two) - one, one), zero)
        to_blue[u] = value - chroma * max(min(abs(h - four) - one, one), zero)
