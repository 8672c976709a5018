"""The fused resample compiled for the CPU: one pass over the image, rows split over threads.

Owns: `warp`, with the reference's arguments, and `unsupported`, what it cannot do.
Must not: fall back; whoever chose it gets it or an error.
Read next: ``op.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.warp.autograd import Operators, run
from pellucid.kernels.warp.cpu.op import warp_backward, warp_forward, warp_labels
from pellucid.kernels.warp.dtypes import compute_dtype
from pellucid.kernels.warp.layout import MODES
from pellucid.kernels.warp.operators import copy_labels
from pellucid.kernels.warp.packing import Packed, pack
from pellucid.segments.chain import Stage
from pellucid.types import Size

__all__ = ["warp", "warp_packed"]


def warp(
    image: Float[Tensor, "b c h w"],
    src_from_dst: Float[Tensor, "b_or_1 2_or_3 3"],
    *,
    size: Size,
    interpolation: str = "bilinear",
    padding_mode: str = "zeros",
    fill: Float[Tensor, "b_or_1 c2"] | None = None,
    matrix: Float[Tensor, "b_or_1 c2 c"] | None = None,
    offset: Float[Tensor, "b_or_1 c2"] | None = None,
    window: Float[Tensor, "b_or_1 4"] | None = None,
    footprint: Size | None = None,
    field: Float[Tensor, "b_or_1 2 h2 w2"] | None = None,
    dtype: torch.dtype | None = None,
    levels: bool = False,
    epilogue: Sequence[Stage] = (),
) -> Float[Tensor, "b c2 h2 w2"]:
    """Differences to :func:`pellucid.kernels.warp.reference.warp`.

    Args:
        image: 16-bit floats are read as they are and computed in float32.
        footprint: must be None.
        epilogue: must be :func:`pellucid.kernels.warp.packing.fusable` as a whole.

    Gradient:
        The same; a second derivative goes through the reference, forward mode raises. Bit for bit the same for any number of
        threads.
    """
    assert footprint is None
    if not image.dtype.is_floating_point and dtype is None:
        assert interpolation == "nearest"
        return copy_labels(warp_labels, image, src_from_dst, window, fill, field, size, MODES[padding_mode])
    computed = compute_dtype(image, src_from_dst)
    packed = pack(
        image.shape[1],
        src_from_dst,
        size=size,
        interpolation=interpolation,
        padding_mode=padding_mode,
        fill=fill,
        matrix=matrix,
        offset=offset,
        window=window,
        epilogue=epilogue,
        field=field,
        dtype=dtype,
        levels=levels,
    )
    return warp_packed(image, packed.to(computed))


def warp_packed(image: Float[Tensor, "b c h w"], packed: Packed) -> Float[Tensor, "b c2 h2 w2"]:
    """The same from packed arguments.

    Args:
        image: of any floating dtype, or uint8, which counts as x / 255 and has no gradient.
        packed: everything else, in the dtype in which everything is computed.
    """
    return run(Operators("cpu", warp_forward, warp_backward), image, packed)
