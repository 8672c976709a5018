"""The separable antialiased resample of crops and resizes.

Owns: `resize`, which picks an implementation, `compute`, which is given one, and `settled`, whose colours depend on the mean of
the resized pixels.
Must not: compute anything itself.
Read next: ``reference.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.core.tape import is_plain_eager
from pellucid.kernels.derivatives import forward_mode, needs_grad
from pellucid.kernels.dispatch import choose
from pellucid.kernels.explicit import run
from pellucid.kernels.primitive import Primitive
from pellucid.kernels.resize import cpu, reference, triton
from pellucid.kernels.several import Pictures
from pellucid.kernels.softened import softened, with_slopes
from pellucid.kernels.stages.chain import has_curve, has_stages
from pellucid.kernels.warp import stages_by
from pellucid.kernels.warp.around import between_stages, blurred_colors, compiled, mixed_after, mixes_many, parts, takes_pictures
from pellucid.kernels.warp.operators import Compiled, backwards, compiled_call, forwards, learning, without_fills
from pellucid.kernels.warp.packing import Opened, Recipe, Resample
from pellucid.kernels.warp.reference import warp as warped
from pellucid.kernels.warp.tangents import has_tangent, tangents
from pellucid.kernels.within import in_memory

__all__ = ["AVAILABLE", "call_of", "compute", "resize", "settled", "settled_of", "settles"]

AVAILABLE: tuple[str, ...] = ("cpu", "triton", "reference")


def resize(image: Shaped[Tensor, "b c h w"] | Pictures, resample: Resample, *, impl: str = "auto") -> Shaped[Tensor, "b c2 h2 w2"]:
    """See :func:`pellucid.kernels.resize.reference.resize`; ``impl`` says who computes it.

    The compiled ones read bytes as they are, and 16-bit floats as float32 (the CPU's after a copy). A second derivative to the
    picture is the pass again, and one pass gives the CPU's tangents; others go through the reference. The same bits in every run,
    for any number of threads: a sample, or on CUDA a pixel, has one owner. The CPU reads pictures of several sizes in one call.
    """
    carried = isinstance(image, Tensor) and forward_mode() and has_tangent(image, resample)
    unsupported = "forward-mode differentiation" if forward_mode() and not carried else ""
    return compute(choose(impl, available=AVAILABLE, device=image.device.type, unsupported=unsupported), image, resample)


def compute(chosen: str, image: Shaped[Tensor, "b c h w"] | Pictures, resample: Resample) -> Shaped[Tensor, "b c2 h2 w2"]:
    """Compute :func:`resize` by the implementation of this name."""
    if not isinstance(image, Tensor) and not takes_pictures(chosen, resample):
        return image.through(partial(compute, chosen), resample)
    flags = resample.recipe.flags
    if chosen != "reference" and (has_stages(flags) if forward_mode() else chosen == "triton" and has_curve(flags)):
        resample = resample.with_stages_after(image.shape[1])
    function = _by_reference if chosen == "reference" else partial(_compiled, chosen)
    return between_stages(function, image, resample, stages_by(chosen))


def call_of(impl: str, image: Tensor, resample: Resample) -> Compiled | None:
    """As :func:`pellucid.kernels.warp.call_of`, of a resize."""
    more = resample.prologue or resample.epilogue or forward_mode()
    if more or choose(impl, available=AVAILABLE, device=image.device.type) != "cpu":
        return None
    return compiled_call(_PRIMITIVES["cpu"], cpu.direct, image, resample, 3, resample.mapping.dtype, cpu.prepared)


def settles(impl: str, device: torch.device) -> bool:
    """Whether :func:`settled` can compute here."""
    return device.type == "cpu" and is_plain_eager() and choose(impl, available=AVAILABLE, device="cpu") == "cpu"


def settled(image: Shaped[Tensor, "b c h w"] | Pictures, opened: Opened, dtype: torch.dtype) -> Shaped[Tensor, "b c2 h2 w2"]:
    """Resize samples, and apply the colours that each resized sample's mean decides. Only the pictures may need a gradient.

    Args:
        image: as :func:`resize` takes it.
        opened: the pass.
        dtype: of the result.
    """
    (recipe, mapping, window, numbers, *_), slopes = opened
    if len(slopes) < image.shape[0]:  # one row for all
        numbers, slopes = (part.expand(image.shape[0], *part.shape[1:]).contiguous() for part in (numbers, slopes))
    image = image if image.dtype == torch.uint8 else image.to(mapping.dtype)
    return run(_SETTLED, (recipe, dtype), image, mapping, window, numbers, slopes)


def settled_of(
    image: Tensor, recipe: Recipe, computed: torch.dtype, dtype: torch.dtype
) -> tuple[Callable[..., Any] | None, Callable[[Tensor, Sequence[Any]], Tensor] | None]:
    """Return :func:`settled` as a function of memory and arrays, and as one of pictures that need a gradient and arrays; None if
    there is no such function.
    """
    if not {image.dtype, dtype} <= {torch.uint8, computed}:
        return None, None
    memory = cpu.settled_in_memory(image.detach(), recipe, dtype)
    if not needs_grad(image):
        return memory.forth, None
    return None, None if dtype == torch.uint8 else learning(_SETTLED, (recipe, dtype), image, memory)


def _settled_again(image: Tensor, mapping: Tensor, window: Tensor, numbers: Tensor, slopes: Tensor, *static: Any) -> Tensor:
    """Compute the same by the references."""
    recipe, dtype = static
    opened = Opened(Resample(recipe, mapping, window, numbers), slopes)
    made = reference.resize(image, opened.resample.without_colors())
    colors = opened.at(made.mean((-2, -1), dtype=slopes.dtype)).without_moves().to(mapping.dtype)
    return warped(made, colors.returning(dtype))


def _unsettled(grad: Tensor, *given: Any) -> tuple[Tensor, ...]:
    """Compute the gradient of the pictures."""
    if is_plain_eager() and in_memory(grad):
        return cpu.unsettled(grad, *given)
    *tensors, recipe, dtype, _ = given
    with torch.enable_grad():
        image = tensors[0].detach().requires_grad_()
        made = _settled_again(image, *tensors[1:], recipe, dtype)
    return *torch.autograd.grad(made, image, grad), *[grad.new_empty((0,))] * 4


_SETTLED = Primitive("the settled resize", _settled_again, cpu.settled, cpu.settled, _unsettled, back=cpu.unsettled)


def _by_reference(image: Tensor, resample: Resample) -> Tensor:
    *tensors, slopes = parts(resample, moves=False)
    return with_slopes(_again, _PLACES, blurred_colors, (image, *tensors), slopes, (resample.recipe,))


def _compiled(chosen: str, image: Tensor | Pictures, resample: Resample) -> Tensor:
    if isinstance(image, Tensor) and chosen == "triton" and mixes_many(image, resample):
        return mixed_after(partial(_compiled, chosen), image, resample)
    if chosen == "cpu" and image.dtype != torch.uint8:
        image = image.to(resample.mapping.dtype)
    return compiled(_PRIMITIVES[chosen], image, resample, moves=False)


def _again(image: Tensor, *given: Any) -> Tensor:
    """Compute by the reference what the compiled resize computes: for second derivatives."""
    return reference.resize(image, Resample(given[-1], *given[:-1]))


def _forward(image: Tensor, mapping: Tensor, window: Tensor, params: Tensor, *rest: Any) -> Tensor:
    """The operator with the arguments that `tangents` gives to a warp's: field, links and table are dropped."""
    return cpu.forward(image, mapping, window, params, *rest[3:])


def _dual(*given: Any) -> tuple[Tensor, Tensor]:
    """Likewise the operator with a tangent: a field and its change are dropped."""
    return cpu.dual(*given[:6], *given[7:9], *given[10:])


_PLACES = (1, 2)
_PRIMITIVES = {
    name: softened(
        Primitive(
            *("the resize", _again, forwards(by.direct, 4), forwards(by.forward, 4), backwards(by.backward)),
            *(name, rule, without_fills),
            None if by is triton else backwards(cpu.back),
        ),
        4,
        _PLACES,
        blurred_colors,
    )
    for name, by, rule in (("cpu", cpu, tangents(_forward, _dual)), ("triton", triton, None))
}
