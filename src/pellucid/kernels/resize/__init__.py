"""The separable antialiased resample of crops and resizes.

Owns: `resize`, which picks an implementation.
Must not: compute anything itself.
Read next: ``reference.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.kernels.explicit import AVAILABLE, Primitive, implementation
from pellucid.kernels.resize import cpu, reference
from pellucid.kernels.softened import softened, with_slopes
from pellucid.kernels.warp import stages_by
from pellucid.kernels.warp.around import between_stages, blurred_colors, compiled, parts
from pellucid.kernels.warp.layout import POWER, STAGES
from pellucid.kernels.warp.operators import backwards, forwards, without_fills
from pellucid.kernels.warp.packing import Recipe, Resample

__all__ = ["AVAILABLE", "resize"]


def resize(image: Shaped[Tensor, "b c h w"], resample: Resample, *, impl: str = "auto") -> Shaped[Tensor, "b c2 h2 w2"]:
    """See :func:`pellucid.kernels.resize.reference.resize`; ``impl`` says who computes it.

    The compiled one reads 16-bit floats as float32, and bytes as they are. A second derivative to the picture and its tangent are
    the pass again; others go through the reference. Bit for bit the same for any number of threads: a sample has one owner.
    """
    linear = image.is_floating_point() and not resample.recipe.flags & STAGES
    tensors = (image, resample.mapping, resample.window, resample.params) if linear else ()
    chosen = implementation(impl, image.device, AVAILABLE, *tensors)
    if chosen != "reference" and resample.recipe.flags & POWER:
        resample = resample.with_stages_after(image.shape[1])
    return between_stages(_by_reference if chosen == "reference" else _compiled, image, resample, stages_by(chosen))


def _by_reference(image: Tensor, resample: Resample) -> Tensor:
    *tensors, slopes = parts(image, resample, moves=False)
    return with_slopes(_again, _PLACES, blurred_colors, tuple(tensors), slopes, (resample.recipe,))


def _compiled(image: Tensor, resample: Resample) -> Tensor:
    image = image if image.dtype == torch.uint8 else image.to(resample.mapping.dtype)
    return compiled(_PRIMITIVE, image, resample, moves=False)


def _again(image: Tensor, mapping: Tensor, window: Tensor, params: Tensor, recipe: Recipe) -> Tensor:
    """What the compiled resize computed, by the reference: for second derivatives."""
    return reference.resize(image, Resample(recipe, mapping, window, params))


_PLACES = (1, 2)
_PRIMITIVE = softened(
    Primitive("the resize", _again, forwards(cpu.direct), forwards(cpu.forward), backwards(cpu.backward), linear=without_fills),
    4,
    _PLACES,
    blurred_colors,
)
