"""How many input pixels an output pixel may span: reading ``antialias`` at the edge.

Owns: `read_antialias`.
Must not: average; the kernels do.
Read next: ``../kernels/warp/footprint.py``.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.kernels.warp.footprint import longer_axis, steps_of
from pellucid.types import Size

__all__ = ["read_antialias"]

_MOST = 64
_LOOKED_UP = 16  # at the horizon of a homography there is no bound


def read_antialias(
    value: bool | int,
    src_from_dst: Float[Tensor, "#b _ 3"],
    field: Float[Tensor, "#b 2 h2 w2"] | None,
    size: Size,
    interpolation: str,
) -> Size | None:
    """``antialias`` as the bound of a footprint, vertical and horizontal; None where every output pixel spans one pixel at most.

    Args:
        value: True looks at the map's numbers, which ends a trace; a number is the bound itself.
        src_from_dst, field: where output pixels lie in the input.
        size: (height, width) of the output.
        interpolation: nearest is never antialiased.

    Errors:
        ``InvalidArgument`` for another value, and for True where a trace or a ``vmap`` hides the numbers.
    """
    if not isinstance(value, int) or not 0 <= value <= _MOST:
        bound = f"a bound, whole input pixels per output pixel from 1 to {_MOST}"
        raise invalid("antialias", expected=f"True, False, or {bound}", got=repr(value))
    if value is False or interpolation == "nearest":
        return None
    if value is True:
        if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
            expected = "a bound under torch.compile and vmap, which hide the map's numbers"
            fix = "With antialias=4, for instance, an output pixel spans at most four input pixels along an axis."
            raise invalid("antialias", expected=expected, got="True", fix=fix)
        with torch.no_grad():
            lengths = longer_axis(steps_of(src_from_dst, field, size))
            longest = float(lengths.amax()) if lengths.numel() else 1.0
        value = min(math.ceil(longest - 1e-6), _LOOKED_UP)
    return (value, value) if value > 1 else None
