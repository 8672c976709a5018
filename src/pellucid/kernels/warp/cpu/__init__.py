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

from pellucid.kernels.warp.cpu.autograd import Options, Warp, compute
from pellucid.kernels.warp.cpu.op import warp_labels
from pellucid.segments.chain import AffineStage, ClipStage, HueStage, Stage
from pellucid.types import Size

__all__ = ["fusable", "warp"]

_TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4, "bicubic_opencv": 4}
_MODES = {"zeros": 0, "constant": 0, "border": 1, "reflection": 2, "reflect_101": 3, "wrap": 4}


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
        epilogue: must be :func:`fusable` as a whole.

    Gradient:
        The same; a second derivative goes through the reference, forward mode raises. Bit for bit the same for any number of
        threads.
    """
    assert footprint is None
    if not image.dtype.is_floating_point:
        assert interpolation == "nearest"
        return _labels(image, src_from_dst, window, fill, size, _MODES[padding_mode])
    dtype = torch.promote_types(torch.promote_types(image.dtype, src_from_dst.dtype), torch.float32)
    image = image.to(dtype)
    colors: dict[str, Tensor | None] = {}
    clip = False
    for stage in epilogue:
        if isinstance(stage, HueStage):
            colors["turns"] = stage.turns
        elif isinstance(stage, ClipStage):
            clip = True
        else:
            which = "last" if clip else "second"
            colors[f"{which}_matrix"], colors[f"{which}_offset"] = stage.matrix, stage.offset
    cubic = -0.75 if interpolation == "bicubic_opencv" else -0.5
    options = Options(
        (size[0], size[1]), _TAPS[interpolation], _MODES[padding_mode], cubic, clip, dtype, (interpolation, padding_mode)
    )
    later = [colors.get(name) for name in ("turns", "second_matrix", "second_offset", "last_matrix", "last_offset")]
    tensors = (image, src_from_dst, window, matrix, offset, fill, *later)
    out: Tensor = Warp.apply(options, *tensors) if _differentiated(tensors) else compute(options, tensors)
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


def fusable(epilogue: Sequence[Stage]) -> int:
    """How many leading stages fit the pattern [hue] [affine] [clip] [affine]; the rest must be run on the result."""
    place = 0
    for count, stage in enumerate(epilogue):
        if isinstance(stage, HueStage):
            fits, after = place == 0, 1
        elif isinstance(stage, ClipStage):
            fits, after = place <= 2, 3
        else:
            assert isinstance(stage, AffineStage)
            square = stage.matrix.shape[-1] == stage.matrix.shape[-2]
            fits, after = square and place != 2 and place < 4, 2 if place < 2 else 4
        if not fits:
            return count
        place = after
    return len(epilogue)
