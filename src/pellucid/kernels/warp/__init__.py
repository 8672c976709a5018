"""The fused resample: warp, colour map, coverage and fill in one pass.

Owns: `warp`, which picks an implementation, and `compute`, which is given one.
Must not: compute anything itself.
Read next: ``packing.py``, ``reference.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.kernels import color
from pellucid.kernels.derivatives import first_moves_alone, forward_mode, needs_grad
from pellucid.kernels.dispatch import choose
from pellucid.kernels.primitive import Primitive
from pellucid.kernels.several import Pictures
from pellucid.kernels.softened import softened, with_slopes
from pellucid.kernels.stages.chain import as_read, fusable, has_curve, has_stages
from pellucid.kernels.warp import around, cpu, reference, triton
from pellucid.kernels.warp.chain import follow, laid_over
from pellucid.kernels.warp.dtypes import compute_dtype, rounded
from pellucid.kernels.warp.footprint import stretches, weight_table
from pellucid.kernels.warp.layout import BENDS
from pellucid.kernels.warp.operators import Compiled, backwards, compiled_call, copy_labels, forwards, without_fills
from pellucid.kernels.warp.packing import Link, Recipe, Resample, pack, unpack
from pellucid.kernels.warp.pairs import paired
from pellucid.kernels.warp.tangents import has_tangent, tangents
from pellucid.kernels.warp.taps import FILLED_MODES
from pellucid.segments.chain import ClipStage, Stage
from pellucid.types import Size

__all__ = [
    "AVAILABLE", "Link", "Recipe", "Resample", "call_of", "compute", "implementation", "pack", "paired", "stages_by",
    "unsupported", "warp",
]  # fmt: skip

AVAILABLE: tuple[str, ...] = ("cpu", "triton", "reference")


def unsupported(dtype: torch.dtype, interpolation: str, out_dtype: torch.dtype | None = None) -> str:
    """What of this call only the reference can do, in words; empty when there is nothing."""
    if dtype.is_floating_point or (dtype == torch.uint8 and out_dtype is not None):
        return ""
    return "" if interpolation == "nearest" and out_dtype is None else f"{interpolation} on images of {dtype}"


def implementation(impl: str, image: Tensor | Pictures, resample: Resample) -> str:
    """The name of the implementation that computes a call of :func:`warp`."""
    recipe = resample.recipe
    what = unsupported(image.dtype, recipe.interpolation, recipe.dtype)
    if not what and forward_mode() and not (isinstance(image, Tensor) and has_tangent(image, resample)):
        what = "forward-mode differentiation"
    return choose(impl, available=AVAILABLE, device=image.device.type, unsupported=what)


def warp(image: Shaped[Tensor, "b c h w"] | Pictures, resample: Resample, *, impl: str = "auto") -> Shaped[Tensor, "b c2 h2 w2"]:
    """See :func:`pellucid.kernels.warp.reference.warp`; ``impl`` says who computes it.

    The compiled ones read 16-bit floats and bytes as they are and compute in float32 at least. A second derivative to the picture
    is the pass again where that is linear; others go through the reference, and so does forward mode where `has_tangent` says no.
    Bit for bit the same in every run, for any number of threads. The CPU reads pictures of several sizes in one call.
    """
    return compute(implementation(impl, image, resample), image, resample)


def call_of(impl: str, image: Tensor, resample: Resample) -> Compiled | None:
    """The call of compiled code that is all that :func:`warp` does on the CPU, for pictures like this one and passes that differ
    from this one in numbers alone. None where it does more.
    """
    recipe = resample.recipe
    more = recipe.footprint is not None or recipe.interpolation == "nearest" or resample.prologue or resample.epilogue
    if more or implementation(impl, image, resample) != "cpu":
        return None
    return compiled_call(_PRIMITIVES["cpu"], cpu.direct, image, resample, 6, prepared=cpu.prepared, undoing=cpu.undoing)


def compute(chosen: str, image: Shaped[Tensor, "b c h w"] | Pictures, resample: Resample) -> Shaped[Tensor, "b c2 h2 w2"]:
    """Compute :func:`warp` by the implementation of this name."""
    if not isinstance(image, Tensor) and not around.takes_pictures(chosen, resample):
        return image.through(partial(compute, chosen), resample)
    recipe = resample.recipe
    if recipe.interpolation == "nearest" and _copies(chosen, image, resample):
        if not isinstance(image, Tensor):
            return copy_labels(cpu.copied, image, resample)
        if chosen == "triton" and resample.links is not None:
            return _across(partial(copy_labels, triton.labels), image, resample)
        return reference.warp(image, resample) if chosen == "reference" else copy_labels(_LABELS[chosen], image, resample)
    if recipe.footprint is not None:
        resample = resample._replace(table=_footprint(resample, recipe.footprint))
    if chosen == "reference":
        return around.between_stages(_by_reference, image, resample)
    return around.between_stages(partial(_compiled, chosen), image, resample, partial(_by_passes, chosen))


def _copies(chosen: str, image: Tensor | Pictures, resample: Resample) -> bool:
    """Whether a nearest pass only copies pixels or shows the fill: that of labels, or of colours that nothing changes."""
    recipe = resample.recipe
    if recipe.dtype is None and not image.dtype.is_floating_point:
        return True
    if chosen != "cpu" or not as_read(recipe.flags) or resample.links is not None or resample.prologue or resample.epilogue:
        return False
    made = compute_dtype(image, resample.mapping) if recipe.dtype is None else recipe.dtype
    return made == image.dtype and not needs_grad(image, resample.mapping, resample.window, resample.field)


def stages_by(chosen: str) -> around.Stages:
    """The function that runs the stages which a pass of this implementation does not hold."""
    return around.by_torch if chosen == "reference" else partial(_by_passes, chosen)


def _by_passes(chosen: str, image: Tensor, some: Sequence[Stage], dtype: torch.dtype, levels: bool) -> Tensor:
    """Run stages by passes with the identity map, as many in each as it can hold; in forward mode by PyTorch."""
    if forward_mode():
        return around.by_torch(image, some, dtype, levels)
    still = constant((1.0, 0.0, 0.0, 0.0, 1.0, 0.0), dtype, image.device).view(1, 2, 3)
    while some:
        count = fusable(some)
        if count == 1 and isinstance(some[0], ClipStage) and image.dtype == dtype:  # torch has a pass of its own
            image, some = color.stages(image, some[:1]), some[1:]
            continue
        plain = pack(still, size=(image.shape[2], image.shape[3]), dtype=dtype, levels=levels, epilogue=some[:count])
        image, some = _compiled(chosen, image, plain.to(dtype)), some[count:]
    return image


def _by_reference(image: Tensor, resample: Resample) -> Tensor:
    *tensors, slopes = around.parts(resample)
    return with_slopes(_again, _PLACES, around.blurred_colors, (image, *tensors), slopes, (resample.recipe,))


def _footprint(resample: Resample, bound: Size) -> Tensor:
    """The weights of affine maps, or every pixel's shape under homographies and fields."""
    recipe, src_from_dst = resample.recipe, resample.mapping.unflatten(1, (-1, 3))
    if src_from_dst.shape[1] == 2 and resample.field is None:
        return weight_table(src_from_dst, bound, recipe.interpolation)
    return stretches(src_from_dst, resample.field, recipe.size, bound, recipe.interpolation)


def _compiled(chosen: str, image: Tensor | Pictures, resample: Resample) -> Tensor:
    if not isinstance(image, Tensor):
        return around.compiled(_PRIMITIVES[chosen], image, resample)
    recipe = resample.recipe
    if resample.links is not None and (_moves_links(image, resample) if chosen == "cpu" else not _holds(image, resample)):
        return _across(partial(_compiled, chosen), image, resample)
    if has_stages(recipe.flags) if forward_mode() else chosen == "triton" and has_curve(recipe.flags):
        found = _compiled(chosen, image, resample.without_stages(image.shape[1]))
        return rounded(color.stages(found, unpack(resample, image.shape[1]).stages), recipe.dtype, levels=recipe.levels)
    if chosen == "triton" and around.mixes_many(image, resample):
        return around.mixed_after(partial(_compiled, chosen), image, resample)
    return around.compiled(_PRIMITIVES[chosen], image, resample)


def _moves_links(image: Tensor, resample: Resample) -> bool:
    """Whether canvases are differentiated in forward mode other than as a pass that is linear in the picture alone."""
    moves = resample.mapping, resample.window, resample.params, resample.field, resample.links, resample.table
    return forward_mode() and (has_stages(resample.recipe.flags) or not first_moves_alone(image, *moves))


def _holds(image: Tensor, resample: Resample) -> bool:
    """Whether Triton's kernels hold these links: not where displaced points meet hard edges, which want the reference's bits, nor
    with channels that are mixed afterwards.
    """
    recipe = resample.recipe
    field = next((k for k, kind in enumerate(recipe.canvases) if kind in BENDS), None)
    cut = resample.window is not None and recipe.padding_mode in FILLED_MODES
    hard = field is not None and (cut or recipe.interpolation == "nearest" or "hard" in recipe.canvases[:field])
    return not (hard or around.mixes_many(image, resample))


def _across(function: Callable[[Tensor, Resample], Tensor], image: Tensor, resample: Resample) -> Tensor:
    """Canvases by kernels that know none: coordinates as a field, the first mix's result blended over the ground, then stages."""
    recipe, mapping, window, _, _, links, table, *_ = resample
    fill, matrix, offset, stages, grounds = unpack(resample, image.shape[1])
    assert links is not None
    chained = follow(mapping.unflatten(1, (-1, 3)), links, grounds, recipe.canvases, recipe.size, table)
    plain = pack(
        mapping.new_zeros((1, 2, 3)),
        size=recipe.size,
        interpolation=recipe.interpolation,
        padding_mode=recipe.padding_mode,
        fill=fill,
        matrix=matrix,
        offset=offset,
        window=window,
        field=torch.stack((chained.x, chained.y), 1),
        dtype=None if recipe.dtype is None else mapping.dtype,
        levels=recipe.levels,
        slopes=resample.slopes,
    )
    found = laid_over(function(image, plain), chained.share, chained.ground)
    return rounded(color.stages(found, stages), recipe.dtype, levels=recipe.levels)


def _again(image: Tensor, *given: Any) -> Tensor:
    """Compute by the reference what the compiled warp computes: for second derivatives."""
    return reference.warp(image, Resample(given[-1], *given[:-1]))


_PLACES = (1, 2, 4, 5, 6)
"""Which of those tensors say where the image is read: mapping, window, field, links, table."""
_LABELS = {"cpu": cpu.labels, "triton": triton.labels}
_PRIMITIVES = {
    name: softened(Primitive("the warp", _again, *computes, name, rule, without_fills, back), 7, _PLACES, around.blurred_colors)
    for name, computes, rule, back in (
        (
            *("cpu", (forwards(cpu.direct), forwards(cpu.forward), backwards(cpu.backward))),
            *(tangents(cpu.forward, cpu.dual), backwards(cpu.back)),
        ),
        ("triton", (forwards(triton.forward), forwards(triton.forward), backwards(triton.backward)), None, None),
    )
}
