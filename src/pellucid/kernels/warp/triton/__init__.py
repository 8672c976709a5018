"""The fused resample for CUDA devices, in Triton: one pass over the image, and its gradients without an order to chance.

Owns: `warp`, with the reference's arguments.
Must not: fall back; whoever chose it gets it or an error. Importing it does not import Triton.
Read next: ``op.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.kernels import color
from pellucid.kernels.warp.autograd import Operators, run
from pellucid.kernels.warp.dtypes import compute_dtype, rounded
from pellucid.kernels.warp.layout import MODES
from pellucid.kernels.warp.operators import copy_labels
from pellucid.kernels.warp.packing import Packed, pack
from pellucid.kernels.warp.triton.op import warp_backward, warp_forward, warp_labels
from pellucid.segments.chain import Stage
from pellucid.types import Size

__all__ = ["MOST_MIXED", "warp", "warp_packed"]

MOST_MIXED = 4
"""The most channels that kernels mix; more are mixed on the result."""


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
        The same; a second derivative goes through the reference, forward mode raises. Bit for bit the same in every run.
    """
    assert footprint is None
    if not image.dtype.is_floating_point and dtype is None:
        assert interpolation == "nearest"
        return copy_labels(warp_labels, image, src_from_dst, window, fill, field, size, MODES[padding_mode])
    computed = compute_dtype(image, src_from_dst)
    most = max(image.shape[1], 0 if matrix is None else matrix.shape[-2])
    if most > MOST_MIXED and (matrix is not None or epilogue):
        out = _mixed_after(
            image, src_from_dst, size, interpolation, padding_mode, fill, matrix, offset, window, field, levels, epilogue, computed
        )
        return rounded(out, dtype, levels=levels)
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
    return run(Operators("triton", warp_forward, warp_backward), image, packed)


def _mixed_after(
    image: Tensor,
    src_from_dst: Tensor,
    size: Size,
    interpolation: str,
    padding_mode: str,
    fill: Tensor | None,
    matrix: Tensor | None,
    offset: Tensor | None,
    window: Tensor | None,
    field: Tensor | None,
    levels: bool,
    epilogue: Sequence[Stage],
    dtype: torch.dtype,
) -> Tensor:
    """Colour of many channels: matrix @ s + offset * c + fill * (1 - c) with s and c resampled, then the stages."""
    shown = {"size": size, "interpolation": interpolation, "padding_mode": padding_mode, "window": window, "field": field}
    shown["dtype"], shown["levels"] = dtype, levels
    total = warp(image, src_from_dst, **shown).flatten(2)  # type: ignore[arg-type]
    covered = total.new_ones(())
    if offset is not None or fill is not None:
        one = total.new_ones(()).expand(image.shape[0], 1, *image.shape[2:])
        covered = warp(one, src_from_dst, **shown).flatten(2)  # type: ignore[arg-type]
    fill, matrix, offset = (None if part is None else part.to(dtype) for part in (fill, matrix, offset))
    return color.stages(color.compose(total, covered, fill, matrix, offset).unflatten(-1, (size[0], size[1])), epilogue)
