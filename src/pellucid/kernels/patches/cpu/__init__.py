"""Patches compiled for the CPU: sampled straight from the pyramid, no grid in memory, patches split over threads.

Owns: `patches`, with the reference's arguments.
Must not: fall back; whoever chose it gets it or an error.
Read next: ``autograd.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import forward_ad

from pellucid.kernels.patches.cpu.autograd import Patches
from pellucid.kernels.patches.cpu.op import patches_forward
from pellucid.types import Size

__all__ = ["patches"]


def patches(
    image: Float[Tensor, "b c h w"],
    frames: Float[Tensor, "b n 2 3"],
    span: Float[Tensor, "b n"],
    *,
    size: Size,
    levels: int,
) -> Float[Tensor, "b n c h2 w2"]:
    """Differences to :func:`pellucid.kernels.patches.reference.patches`.

    Args:
        image: 16-bit floats are read as float32.

    Gradient:
        The same; a second derivative goes through the reference, forward mode raises. Bit for bit the same for any number of
        threads: each patch, and each plane's gradient, has one owner.
    """
    dtype = torch.promote_types(torch.promote_types(image.dtype, frames.dtype), torch.float32)
    image, frames, span = image.to(dtype), frames.to(dtype), span.to(dtype)
    options = (size[0], size[1]), levels
    out: Tensor = (
        Patches.apply(options, image, frames, span)
        if _needs_grad(image, frames, span)
        else patches_forward(image, frames, span, list(size), levels)
    )
    return out


def _needs_grad(*tensors: Tensor) -> bool:
    """Whether anything may ask for a derivative."""
    # While compiling, a Function with a separate setup_context is mis-traced when nothing requires a gradient.
    if not torch.compiler.is_compiling() and (torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0):
        return True
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
