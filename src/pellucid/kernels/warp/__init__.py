"""The fused resample: warp, colour map, coverage and fill in one pass.

Owns: `warp`, `warp_packed` and `sample`, which pick an implementation.
Must not: compute anything itself.
Read next: ``reference.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from pellucid.kernels import color
from pellucid.kernels.dispatch import choose
from pellucid.kernels.warp import cpu, reference, triton
from pellucid.kernels.warp.autograd import differentiate_again_with
from pellucid.kernels.warp.dtypes import compute_dtype, rounded, to_colors
from pellucid.kernels.warp.layout import LEVELS
from pellucid.kernels.warp.packing import Options, Packed, fusable, unpack
from pellucid.kernels.warp.pairs import paired
from pellucid.segments.chain import Stage
from pellucid.types import Size

__all__ = ["AVAILABLE", "implementation", "packs", "paired", "sample", "unsupported", "warp", "warp_packed"]

AVAILABLE: tuple[str, ...] = ("cpu", "triton", "reference")
_WARPS: dict[str, Any] = {"cpu": cpu.warp, "triton": triton.warp, "reference": reference.warp}


def unsupported(dtype: torch.dtype, interpolation: str, footprint: Size | None, out_dtype: torch.dtype | None = None) -> str:
    """What of this call only the reference can do, in words; empty when there is nothing."""
    if footprint is not None:
        return "an antialiased warp (antialias=True)"
    if not torch.compiler.is_compiling() and forward_ad._current_level >= 0:
        return "forward-mode differentiation"
    if dtype.is_floating_point or (dtype == torch.uint8 and out_dtype is not None):
        return ""
    return "" if interpolation == "nearest" and out_dtype is None else f"{interpolation} on images of {dtype}"


def implementation(
    impl: str,
    device: torch.device,
    dtype: torch.dtype,
    interpolation: str,
    footprint: Size | None,
    out_dtype: torch.dtype | None = None,
) -> str:
    """Who computes a call of :func:`warp`."""
    what = unsupported(dtype, interpolation, footprint, out_dtype)
    return choose(impl, available=AVAILABLE, device=device.type, unsupported=what)


def warp(
    image: Tensor,
    src_from_dst: Tensor,
    *,
    size: Size,
    interpolation: str = "bilinear",
    padding_mode: str = "zeros",
    fill: Tensor | None = None,
    matrix: Tensor | None = None,
    offset: Tensor | None = None,
    window: Tensor | None = None,
    footprint: Size | None = None,
    field: Tensor | None = None,
    dtype: torch.dtype | None = None,
    levels: bool = False,
    epilogue: Sequence[Stage] = (),
    impl: str = "auto",
) -> Tensor:
    """See :func:`pellucid.kernels.warp.reference.warp`; ``impl`` says who computes it."""
    chosen = implementation(impl, image.device, image.dtype, interpolation, footprint, dtype)
    fused = len(epilogue) if chosen == "reference" else fusable(epilogue)
    # What follows must see the result unrounded.
    written = dtype if fused == len(epilogue) or dtype is None else compute_dtype(image, src_from_dst)
    out = _WARPS[chosen](
        image,
        src_from_dst,
        size=size,
        interpolation=interpolation,
        padding_mode=padding_mode,
        fill=fill,
        matrix=matrix,
        offset=offset,
        window=window,
        footprint=footprint,
        field=field,
        dtype=written,
        levels=levels,
        epilogue=epilogue[:fused],
    )
    return out if fused == len(epilogue) else rounded(color.stages(out, epilogue[fused:]), dtype, levels=levels)


def packs(chosen: str, image: Tensor, packed: Packed) -> bool:
    """Whether an implementation takes these packed arguments as they are."""
    most = max(image.shape[1], packed.options.out_channels)
    return chosen == "cpu" or (chosen == "triton" and (most <= triton.MOST_MIXED or not packed.options.flags))


def warp_packed(image: Tensor, packed: Packed, *, chosen: str) -> Tensor:
    """The same from packed arguments, which :func:`packs` has found good for the implementation ``chosen``."""
    return (cpu if chosen == "cpu" else triton).warp_packed(image, packed)


def sample(
    image: Tensor,
    x: Tensor,
    y: Tensor,
    *,
    interpolation: str = "bilinear",
    padding_mode: str = "zeros",
    fill: Tensor | None = None,
    dtype: torch.dtype | None = None,
    levels: bool = False,
    impl: str = "auto",
) -> Tensor:
    """See :func:`pellucid.kernels.warp.reference.sample`; ``impl`` says who computes it."""
    options: dict[str, Any] = {"interpolation": interpolation, "padding_mode": padding_mode, "fill": fill}
    options |= {"dtype": dtype, "levels": levels}
    chosen = implementation(impl, image.device, image.dtype, interpolation, None, dtype)
    if chosen == "reference":
        return reference.sample(image, x, y, **options)
    field = paired(x, y)
    size = (field.shape[-2], field.shape[-1])
    return _WARPS[chosen](image, field.new_zeros((1, 2, 3)), size=size, field=field, **options)


def _again(options: Options, tensors: tuple[Tensor | None, ...]) -> Tensor:
    """What the compiled warp computed, by the reference: for second derivatives."""
    image, mapping, window, params, field = tensors
    assert image is not None
    assert mapping is not None
    assert params is not None
    fill, matrix, offset, epilogue = unpack(options, params, image.shape[1])
    interpolation, padding_mode = options.names
    return reference.warp(
        to_colors(image, mapping.dtype, levels=bool(options.flags & LEVELS)),
        mapping.unflatten(1, (-1, 3)),
        size=options.size,
        interpolation=interpolation,
        padding_mode=padding_mode,
        fill=fill,
        matrix=matrix,
        offset=offset,
        window=window,
        field=field,
        dtype=options.dtype,
        epilogue=epilogue,
    )


differentiate_again_with(_again)
