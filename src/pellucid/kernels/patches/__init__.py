"""Patches sampled out of an image through local affine frames, antialiased by a pyramid.

Owns: `patches`, which picks an implementation.
Must not: compute anything itself.
Read next: ``reference.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.explicit import AVAILABLE, implementation, run
from pellucid.kernels.patches import cpu, reference
from pellucid.kernels.primitive import Primitive, as_it_is
from pellucid.kernels.softened import blurred, softened, with_slopes
from pellucid.types import Size

__all__ = ["AVAILABLE", "patches"]


def patches(
    image: Float[Tensor, "b c h w"],
    frames: Float[Tensor, "b n 2 3"],
    span: Float[Tensor, "b n"],
    *,
    size: Size,
    levels: int,
    slopes: Float[Tensor, "b_or_1"] | None = None,
    impl: str = "auto",
) -> Float[Tensor, "b n c h2 w2"]:
    """See :func:`pellucid.kernels.patches.reference.patches`; ``impl`` says who computes it.

    The compiled one reads 16-bit floats as float32. A second derivative to the image and its tangent are compiled calls; others go
    through the reference. The bits do not depend on the number of threads: each patch, and each plane's gradient, has one owner.
    ``slopes``: gradients to frames and span come from the image blurred by so many pixels.
    """
    if implementation(impl, image.device, AVAILABLE, image, frames, span) == "reference":
        return with_slopes(_again, _PLACES, blurred, (image, frames, span), slopes, (list(size), levels))
    dtype = torch.promote_types(torch.promote_types(image.dtype, frames.dtype), torch.float32)
    return run(_PATCHES, (list(size), levels), image.to(dtype), frames.to(dtype), span.to(dtype), slopes)


def _again(image: Tensor, frames: Tensor, span: Tensor, size: list[int], levels: int) -> Tensor:
    """Compute by the reference what the compiled patches compute: for second derivatives."""
    return reference.patches(image, frames, span, size=(size[0], size[1]), levels=levels)


def _without_slopes(compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *given: compute(*given[:3], *given[4:])


_PLACES = (1, 2)
_COMPUTES = _without_slopes(cpu.PATCHES[0]), _without_slopes(cpu.PATCHES[1]), cpu.PATCHES[2]
_PATCHES = softened(Primitive("patches", _again, *_COMPUTES, linear=as_it_is), 3, _PLACES)
