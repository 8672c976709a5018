"""Convert bytes to numbers and back, in one compiled pass where possible.

Owns: `as_colors`, `as_bytes` and `in_levels`.
Must not: differ from the tensor code of ``warp/dtypes.py`` in any bit.
Read next: ``levels.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.compilers import numba_works
from pellucid.core.tape import is_plain_eager
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.threads import run_loop
from pellucid.kernels.warp.dtypes import rounded, to_colors

__all__ = ["as_bytes", "as_colors", "in_levels"]

_PIXELS = 1 << 19  # the fewest worth handing to another thread
_FLOATS = (torch.float32, torch.float64)


def as_colors(image: Shaped[Tensor, "*shape"], dtype: torch.dtype) -> Float[Tensor, "*shape"]:
    """See :func:`pellucid.kernels.warp.dtypes.to_colors`."""
    if image.dtype != torch.uint8 or dtype not in _FLOATS or not _in_one_pass(image):
        return to_colors(image, dtype)
    from pellucid.kernels.levels import to_colors as loop

    return _converted(loop, image, dtype)


def as_bytes(out: Float[Tensor, "*shape"], dtype: torch.dtype) -> Shaped[Tensor, "*shape"]:
    """See :func:`pellucid.kernels.warp.dtypes.rounded`."""
    if dtype != torch.uint8 or out.dtype not in _FLOATS or not _in_one_pass(out):
        return rounded(out, dtype)
    from pellucid.kernels.levels import to_levels

    return _converted(to_levels, out.detach(), dtype)


def in_levels(image: Shaped[Tensor, "*shape"], dtype: torch.dtype) -> Shaped[Tensor, "*shape"]:
    """Round to whole grey levels: bytes if the image or ``dtype`` is uint8, else multiples of 1 / 255 in the image's dtype.

    Gradient:
        image: for fractions, straight through the rounding inside [0, 1] and 0 outside. Bytes have none.
    """
    if image.dtype == torch.uint8 or dtype == torch.uint8:
        return as_bytes(image, dtype) if image.dtype != torch.uint8 else image
    clipped = torch.clamp(image, 0.0, 1.0)
    return as_colors(as_bytes(image, torch.uint8), image.dtype) + (clipped - clipped.detach())


def _converted(loop: Callable[..., None], image: Tensor, dtype: torch.dtype) -> Tensor:
    out = in_large_pages(torch.empty(image.shape, dtype=dtype, device=image.device))
    run_loop(loop, out.numel(), _PIXELS, image.contiguous().view(-1).numpy(), out.view(-1).numpy())
    return out


def _in_one_pass(tensor: Tensor) -> bool:
    return tensor.is_cpu and is_plain_eager() and type(tensor) is Tensor and numba_works()
