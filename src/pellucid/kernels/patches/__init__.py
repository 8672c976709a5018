"""Patches sampled out of an image through local affine frames, antialiased by a pyramid.

Owns: `patches`, which picks an implementation.
Must not: compute anything itself.
Read next: ``reference.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

from pellucid.kernels.dispatch import choose
from pellucid.kernels.patches import cpu, reference
from pellucid.kernels.patches.cpu.autograd import differentiate_again_with
from pellucid.types import Size

__all__ = ["AVAILABLE", "patches"]

AVAILABLE: tuple[str, ...] = ("cpu", "reference")


def patches(image: Tensor, frames: Tensor, span: Tensor, *, size: Size, levels: int, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.patches.reference.patches`; ``impl`` says who computes it."""
    forward_mode = not torch.compiler.is_compiling() and forward_ad._current_level >= 0
    unsupported = "forward-mode differentiation" if forward_mode else ""
    chosen = choose(impl, available=AVAILABLE, device=image.device.type, unsupported=unsupported)
    compute = cpu.patches if chosen == "cpu" else reference.patches
    return compute(image, frames, span, size=size, levels=levels)


def _again(options: tuple[Size, int], image: Tensor, frames: Tensor, span: Tensor) -> Tensor:
    """What the compiled patches computed, by the reference: for second derivatives."""
    return reference.patches(image, frames, span, size=options[0], levels=options[1])


differentiate_again_with(_again)
