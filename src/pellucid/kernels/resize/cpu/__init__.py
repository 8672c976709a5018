"""The antialiased resize compiled for the CPU: sparse weights, one row in the cache, colours in the same pass.

Owns: `resize`, with the reference's arguments, and `resize_packed`.
Must not: fall back; whoever chose it gets it or an error.
Read next: ``op.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.kernels.resize.cpu.op import resize_backward, resize_forward
from pellucid.kernels.warp.autograd import Operators, run
from pellucid.kernels.warp.dtypes import compute_dtype
from pellucid.kernels.warp.operators import Gradients
from pellucid.kernels.warp.packing import Packed, pack
from pellucid.segments.chain import Stage
from pellucid.types import Size

__all__ = ["resize", "resize_packed"]


def resize(
    image: Float[Tensor, "b c h w"],
    src_from_dst: Float[Tensor, "b_or_1 2_or_3 3"],
    *,
    size: Size,
    window: Float[Tensor, "b_or_1 4"],
    filled: bool,
    interpolation: str = "bilinear",
    antialias: bool = True,
    fill: Float[Tensor, "b_or_1 c2"] | None = None,
    matrix: Float[Tensor, "b_or_1 c2 c"] | None = None,
    offset: Float[Tensor, "b_or_1 c2"] | None = None,
    dtype: torch.dtype | None = None,
    levels: bool = False,
    epilogue: Sequence[Stage] = (),
) -> Float[Tensor, "b c2 h2 w2"]:
    """Differences to :func:`pellucid.kernels.resize.reference.resize`.

    Args:
        image: 16-bit floats are read as float32, bytes as fractions of 255 or as the ``levels`` they are.
        epilogue: must be :func:`pellucid.kernels.warp.packing.fusable` as a whole.

    Gradient:
        The same; a second derivative goes through the reference, forward mode raises. Bit for bit the same for any number of
        threads: a sample's gradients have one owner.
    """
    packed = pack(
        image.shape[1],
        src_from_dst,
        size=size,
        interpolation=interpolation,
        padding_mode="constant" if filled else "border",
        fill=fill,
        matrix=matrix,
        offset=offset,
        window=window,
        epilogue=epilogue,
        dtype=dtype,
        levels=levels,
        antialias=antialias,
    )
    return resize_packed(image, packed.to(compute_dtype(image, src_from_dst)))


def resize_packed(image: Shaped[Tensor, "b c h w"], packed: Packed) -> Shaped[Tensor, "b c2 h2 w2"]:
    """The same from packed arguments.

    Args:
        image: of any floating dtype, or uint8, which counts as x / 255 and has no gradient.
        packed: everything else, in the dtype in which everything is computed; its padding says whether the fill shows outside the
            window.
    """
    if image.dtype in (torch.float16, torch.bfloat16):
        image = image.to(packed.mapping.dtype)
    return run(Operators("cpu", _forward, _backward, "resize"), image, packed)


def _forward(
    image: Tensor,
    mapping: Tensor,
    window: Tensor,
    params: Tensor,
    field: None,
    size: list[int],
    options: list[int],
    cubic: float,
    dtype: torch.dtype,
) -> Tensor:
    """The operator with the warp's arguments."""
    del field, cubic
    return resize_forward(image, mapping, window, params, size, options, dtype)


def _backward(
    grad: Tensor,
    image: Tensor,
    mapping: Tensor,
    window: Tensor,
    params: Tensor,
    field: None,
    size: list[int],
    options: list[int],
    cubic: float,
    needs: list[bool],
) -> Gradients:
    del field, cubic
    found = resize_backward(grad.to(mapping.dtype), image, mapping, window, params, size, options, needs[:3])
    return (*found, mapping.new_empty(0))
