"""The fused resample compiled for the CPU: one pass over the image, rows split over threads.

Owns: `warp`, with the reference's arguments, and `unsupported`, what it cannot do.
Must not: fall back; whoever chose it gets it or an error.
Read next: ``autograd.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import forward_ad

from pellucid.kernels.warp.cpu.autograd import Warp, compute
from pellucid.kernels.warp.cpu.op import warp_labels
from pellucid.kernels.warp.layout import MODES
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
    epilogue: Sequence[Stage] = (),
) -> Float[Tensor, "b c2 h2 w2"]:
    """Differences to :func:`pellucid.kernels.warp.reference.warp`.

    Args:
        image: 16-bit floats are read as float32.
        footprint: must be None.
        epilogue: must be :func:`pellucid.kernels.warp.packing.fusable` as a whole.

    Gradient:
        The same; a second derivative goes through the reference, forward mode raises. Bit for bit the same for any number of
        threads.
    """
    assert footprint is None
    if not image.dtype.is_floating_point:
        assert interpolation == "nearest"
        return _labels(image, src_from_dst, window, fill, size, MODES[padding_mode])
    dtype = torch.promote_types(torch.promote_types(image.dtype, src_from_dst.dtype), torch.float32)
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
    )
    return warp_packed(image.to(dtype), packed.to(dtype))


def warp_packed(image: Float[Tensor, "b c h w"], packed: Packed) -> Float[Tensor, "b c2 h2 w2"]:
    """The same from packed arguments.

    Args:
        image: of the dtype of the packed numbers, or uint8, which counts as x / 255 and has no gradient.
        packed: everything else.
    """
    out: Tensor = (
        Warp.apply(packed[0], image, *packed[1:])
        if _differentiated((image, *packed[1:]))
        else compute(packed[0], image, *packed[1:])
    )
    return out


def _differentiated(tensors: tuple[Tensor | None, ...]) -> bool:
    """Whether anything may ask for a derivative; where nothing can, the bookkeeping of autograd is most of a small call."""
    # While compiling, a Function with a separate setup_context is mis-traced when nothing requires a gradient.
    if not torch.compiler.is_compiling() and (torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0):
        return True
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def _labels(
    image: Tensor, src_from_dst: Tensor, window: Tensor | None, fill: Tensor | None, size: Size, mode: int
) -> Float[Tensor, "b c h2 w2"]:
    """Integers and booleans: whole pixels are copied, and nothing has a gradient."""
    fill = image.new_zeros((1, image.shape[1])) if fill is None else fill.to(image.dtype)
    coordinates = torch.promote_types(src_from_dst.dtype, torch.float32)
    window = None if window is None else window.detach().to(coordinates)
    out: Tensor = warp_labels(image, src_from_dst.detach().flatten(1).to(coordinates), window, fill, list(size), mode)
    return out
