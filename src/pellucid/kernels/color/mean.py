"""The mean colour of a batch.

Owns: `mean_color`, in the precision of drawn values.
Must not: keep anything.
Read next: ``sums.py``.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.constants import wide_dtype
from pellucid.kernels.dispatch import numba_works
from pellucid.kernels.threads import run_split
from pellucid.tape import undisturbed

__all__ = ["mean_color"]

_BYTES = 1 << 17  # the fewest worth handing to another thread


def mean_color(image: Shaped[Tensor, "b c h w"]) -> Float[Tensor, "b c"]:
    """Each sample's mean colour, in [0, 1] units where the image is 8-bit; differentiable where it is not."""
    wide = wide_dtype(image.device)
    if image.dtype != torch.uint8:
        return image.mean((-2, -1)).to(wide)
    if image.is_cpu and image.numel() and undisturbed() and numba_works():
        sums = _sums(image)
        if sums is not None:
            return sums.to(wide) / (255.0 * image.shape[2] * image.shape[3])
    return image.mean((-2, -1), dtype=torch.float32).to(wide) * (1.0 / 255.0)


def _sums(image: Tensor) -> Tensor | None:
    """Exact sums, where a row of pixels (or of one channel) is a run of bytes."""
    from pellucid.kernels.color.sums import channel_sums

    batch, channels, height, width = image.shape
    stride_b, stride_c, stride_y, stride_x = image.stride()
    if stride_x == channels and stride_c == 1:
        pictures, turns, step = batch, channels, stride_b
    elif stride_x == 1 and stride_b == channels * stride_c:
        pictures, turns, step = batch * channels, 1, stride_c
    else:
        return None
    span = 1 + sum((n - 1) * s for n, s in zip(image.shape, image.stride(), strict=True))
    flat = torch.as_strided(image, (span,), (1,)).numpy()
    sums = torch.empty((pictures, turns), dtype=torch.int64)
    found = sums.numpy()

    def task(start: int, stop: int) -> None:
        partial = np.empty(width * turns, np.uint32)
        channel_sums(flat, height, width * turns, turns, step, stride_y, partial, found, start, stop)

    run_split(task, pictures, _BYTES // (height * width * turns) + 1)
    return sums.view(batch, channels)
