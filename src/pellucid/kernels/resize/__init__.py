"""The separable antialiased resample of crops and resizes.

Owns: `resize`, which picks an implementation.
Must not: compute anything itself.
Read next: ``reference.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.autograd import forward_ad

from pellucid.kernels import color
from pellucid.kernels.dispatch import choose
from pellucid.kernels.resize import cpu, reference
from pellucid.kernels.resize.cpu import resize_packed
from pellucid.kernels.warp.autograd import differentiate_again_with
from pellucid.kernels.warp.dtypes import compute_dtype, rounded, to_colors
from pellucid.kernels.warp.layout import LEVELS, SHARP
from pellucid.kernels.warp.packing import Options, fusable, unpack
from pellucid.segments.chain import Stage
from pellucid.types import Size

__all__ = ["AVAILABLE", "implementation", "resize", "resize_packed", "unsupported"]

AVAILABLE: tuple[str, ...] = ("cpu", "reference")


def unsupported() -> str:
    """What of this call only the reference can do, in words; empty when there is nothing."""
    return "forward-mode differentiation" if not torch.compiler.is_compiling() and forward_ad._current_level >= 0 else ""


def implementation(impl: str, device: torch.device) -> str:
    """Who computes a call of :func:`resize`."""
    return choose(impl, available=AVAILABLE, device=device.type, unsupported=unsupported())


def resize(
    image: Tensor,
    src_from_dst: Tensor,
    *,
    size: Size,
    window: Tensor,
    filled: bool,
    interpolation: str = "bilinear",
    antialias: bool = True,
    fill: Tensor | None = None,
    matrix: Tensor | None = None,
    offset: Tensor | None = None,
    dtype: torch.dtype | None = None,
    levels: bool = False,
    epilogue: Sequence[Stage] = (),
    impl: str = "auto",
) -> Tensor:
    """See :func:`pellucid.kernels.resize.reference.resize`; ``impl`` says who computes it.

    ``dtype`` and ``levels`` are those of :func:`pellucid.kernels.warp.reference.warp`.
    """
    chosen = implementation(impl, image.device)
    fused = fusable(epilogue) if chosen == "cpu" else len(epilogue)
    compute: Callable[..., Tensor] = reference.resize
    if chosen == "cpu":  # what follows must see the result unrounded
        computed = compute_dtype(image, src_from_dst)
        compute = partial(cpu.resize, dtype=dtype if fused == len(epilogue) else computed, levels=levels)
    elif dtype is not None:
        image = to_colors(image, compute_dtype(image, src_from_dst), levels=levels)
    out = compute(
        image,
        src_from_dst,
        size=size,
        window=window,
        filled=filled,
        interpolation=interpolation,
        antialias=antialias,
        fill=fill,
        matrix=matrix,
        offset=offset,
        epilogue=epilogue[:fused],
    )
    return out if chosen == "cpu" and fused == len(epilogue) else rounded(color.stages(out, epilogue[fused:]), dtype, levels=levels)


def _again(options: Options, tensors: tuple[Tensor | None, ...]) -> Tensor:
    """What the compiled resize computed, by the reference: for second derivatives."""
    image, mapping, window, params = tensors[:4]
    assert image is not None
    assert mapping is not None
    assert window is not None
    assert params is not None
    fill, matrix, offset, epilogue = unpack(options, params, image.shape[1])
    image = to_colors(image, mapping.dtype, levels=bool(options.flags & LEVELS))
    interpolation, padding_mode = options.names
    return reference.resize(
        image,
        mapping.unflatten(1, (-1, 3)),
        size=options.size,
        window=window,
        filled=padding_mode in ("zeros", "constant"),
        interpolation=interpolation,
        antialias=not options.flags & SHARP,
        fill=fill,
        matrix=matrix,
        offset=offset,
        epilogue=epilogue,
    )


differentiate_again_with(_again, "resize")
