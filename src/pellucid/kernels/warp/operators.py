"""The operators that every compiled warp registers with torch: one interface for all implementations.

Owns: schemas, fake kernels and batching rules, one set per implementation, and how a `Resample` reaches them.
Must not: compute, or know about gradients (``../explicit.py``).
Read next: ``cpu/op.py``, ``triton/op.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Shaped
from torch import Tensor

from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.explicit import operator, run
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.pixels import cells_of
from pellucid.kernels.primitive import Primitive
from pellucid.kernels.several import Pictures
from pellucid.kernels.sources import gradient_of
from pellucid.kernels.stages.chain import FIRST_MIX, has_stages, place
from pellucid.kernels.warp.layout import CANVASES, MODES
from pellucid.kernels.warp.packing import Recipe, Resample, unpack
from pellucid.kernels.within import InMemory, within

__all__ = [
    *("STATIC", "Compiled", "Gradients", "arguments", "backwards", "compiled_call", "copy_labels", "define", "define_dual"),
    *("define_pass", "empty_gradients", "empty_result", "forwards", "learning", "no_gradients", "without_fills"),
]

Gradients = tuple[Tensor, ...]
_TENSORS = "Tensor image, Tensor mapping, Tensor? window, Tensor params, Tensor? field, Tensor? links"
STATIC = "SymInt[] size, int[] options, float cubic, ScalarType dtype"
_COUNT = 7  # of a warp's tensors
_SMALL = 1 << 18  # numbers of a result whose memory need not be torch's


def define(
    name: str,
    warp: Callable[..., Tensor],
    back: Callable[..., Gradients],
    labels: Callable[..., Tensor],
    keys: tuple[str, ...] = ("CPU",),
) -> tuple[Any, Any, Any]:
    """Register ``pellucid::{name}_warp``, ``_warp_backward`` and ``_labels``.

    The warp takes (image, mapping, window, params, field, links, table, size, (taps, mode, flags, out_channels, kinds of canvases),
    cubic, dtype) and returns the output, of that dtype.

    * image: uint8 (read as fractions of 255), float16, bfloat16, float32 or float64, any strides.
    * mapping: (b or 1, 6 or 9), of the dtype in which everything is computed (float32 or float64), as are the next four.
    * window: (b or 1, 4) or None; params: (b or 1, n); ``../stages/chain.py`` says what these mean, ``layout.py`` the options.
    * field: (b or 1, 2, height, width) or None: added to the projected coordinates, x first.
    * links: (b or 1, k, 13) or None: the canvases; with them there is no field.
    * table: (b or 1, phases, rows, phases, columns), weights of the pixels around a point, or (b or 1, 7, height * width), the
      kernel's shape at every pixel, or None; with it there is nothing but the map. Beside links (b or 1, 2, rows, columns): a
      bend's displacements.

    Its backward takes the output's gradient (any floating dtype and strides), the same arguments, and ``needs``, one for each
    tensor. It returns the gradients of image (in its dtype), mapping, window, params (float64, one row per sample, whatever the
    arguments had), field (as computed, one per sample), links (as params) and table (as field); empty where they are not needed.

    The labels take (image, mapping, window, fills, field, links, size, (mode, kinds of canvases)) and return the nearest pixels;
    image and fills (b or 1, c and then c for each canvas) are of one integer dtype. Beside links the field
    holds a bend's displacements.
    """
    plain = f"({_TENSORS.replace('params', 'fills')}, SymInt[] size, int[] options) -> Tensor"
    return (
        *define_pass(f"{name}_warp", f"{_TENSORS}, Tensor? table", warp, back, keys),
        operator(f"{name}_labels", plain, labels, lambda x, *given: x.new_empty((*x.shape[:2], *given[5])), 6, 0, keys),
    )


def define_pass(
    name: str, tensors: str, compute: Callable[..., Tensor], back: Callable[..., Gradients], keys: tuple[str, ...] = ("CPU",)
) -> tuple[Any, Any]:
    """Register ``pellucid::{name}`` and its backward, of the warp's ``tensors`` or its first, as torch writes them."""
    count, given = tensors.count("Tensor"), f"{tensors}, {STATIC}"
    gradients = f"(Tensor grad, {given}, bool[] needs) -> ({', '.join(['Tensor'] * count)})"
    return (
        operator(name, f"({given}) -> Tensor", compute, lambda *given: empty_result(given[0], *given[count:]), count, 0, keys),
        operator(
            f"{name}_backward", gradients, back, lambda _, *given: empty_gradients(given[:count], given[-1]), 1 + count, 1, keys
        ),
    )


def define_dual(name: str, dual: Callable[..., tuple[Tensor, Tensor]]) -> Any:
    """Register ``pellucid::{name}_warp_dual``: a linear pass's result, and its tangent from those of the picture and the points.

    It takes (image, its change or None, mapping, window, params, the same with offset - fill for offsets and without fills, field),
    the changes of mapping, window and field (or None), and what the warp takes after its tensors. Without canvases or table; not
    nearest where points change.
    """
    tensors = "Tensor image, Tensor? by_image, Tensor mapping, Tensor? window, Tensor params, Tensor differences, Tensor? field"
    schema = f"({tensors}, Tensor? by_mapping, Tensor? by_window, Tensor? by_field, {STATIC}) -> (Tensor, Tensor)"
    return operator(
        f"{name}_warp_dual", schema, dual, lambda *given: tuple(empty_result(given[0], *given[10:]) for _ in range(2)), 10
    )


def arguments(image: Tensor, mapping: Tensor, recipe: Recipe) -> tuple[list[int], list[int], float, torch.dtype]:
    """The operators' arguments after the tensors."""
    return *recipe.options(image.shape[1]), mapping.dtype if recipe.dtype is None else recipe.dtype


def forwards(compute: Callable[..., Tensor], count: int = _COUNT) -> Callable[..., Tensor]:
    """The operator as a function of (so many tensors, further ones, which it drops, recipe)."""

    def call(*given: Any) -> Tensor:
        return compute(*given[:count], *arguments(given[0], given[1], given[-1]))

    return call


class Compiled(NamedTuple):
    """A pass of the CPU's compiled code, for pictures laid out as a given one, and for any numbers.

    Args:
        of_tensors: (pictures, the pass's tensors) -> the result.
        of_memory: (memory, arrays) -> memory of the result; None where there is no such function.
        of_arrays: (pictures with a gradient, arrays without one) -> the result; None where there is no such function.
    """

    of_tensors: Callable[[Tensor, Sequence[Tensor | None]], Tensor]
    of_memory: Callable[[Any, Sequence[Any]], Any] | None = None
    of_arrays: Callable[[Tensor, Sequence[Any]], Tensor] | None = None


def compiled_call(
    primitive: Primitive,
    direct: Callable[..., Tensor],
    image: Tensor,
    resample: Resample,
    count: int,
    dtype: torch.dtype | None = None,
    prepared: Callable[..., Any] | None = None,
    undoing: Callable[..., Any] = lambda *_: None,
) -> Compiled:
    """Make functions of a pass.

    Args:
        primitive: the pass, for pictures that have a gradient, if this one has.
        direct: its compiled code, for others.
        image, resample: a picture and the pass.
        count: how many of its tensors it takes.
        dtype: of pictures that it reads, beside bytes; None: any.
        prepared, undoing: make the function of memory, and that of its gradient, as `InMemory` has them.
    """
    static = arguments(image, resample.mapping, resample.recipe)
    learns = needs_grad(image) and resample.recipe.dtype != torch.uint8  # bytes have no derivative
    shape, tensors, recipe = (image.shape[0], static[1][3], *static[0]), resample[1 : 1 + count], (resample.recipe,)
    in_memory = None if prepared is None else prepared(image.detach(), *tensors, *static)

    def call(image: Tensor, tensors: Sequence[Tensor | None]) -> Tensor:
        image = image if dtype is None or image.dtype == torch.uint8 else image.to(dtype)
        return run(primitive, recipe, image, *tensors[:count], None) if learns else direct(image, *tensors[:count], *static)

    if not learns:
        return Compiled(call, in_memory)
    if in_memory is None or dtype not in (None, image.dtype):
        return Compiled(call)
    found = learning(primitive, recipe, image, InMemory(in_memory, undoing(image.detach(), *tensors, *static), shape))
    return Compiled(call, None, found and (lambda image, arrays: found(image, [*arrays[:count], None])))


def learning(
    primitive: Primitive, static: tuple[Any, ...], image: Tensor, memory: InMemory
) -> Callable[[Tensor, Sequence[Any]], Tensor] | None:
    """Return `Compiled.of_arrays` for pictures like this one, or None."""
    if math.prod(memory.shape) >= _SMALL or cells_of(image) > 1:
        return None
    return partial(within, primitive, static, memory)


def backwards(compute: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """The backward operator as a function of (gradient, tensors, recipe, needs)."""

    def call(*given: Any) -> Gradients:
        return compute(*given[:-2], *arguments(given[1], given[2], given[-2]), given[-1])

    return call


def without_fills(image: Tensor, mapping: Tensor, window: Tensor | None, params: Tensor, *rest: Any) -> tuple[Any, ...] | None:
    """`Primitive.linear` of passes: no offsets and fills; None where a hue or a clip depends on the picture."""
    *others, recipe = rest
    if has_stages(recipe.flags) or not image.is_floating_point():
        return None
    mixing = place(FIRST_MIX, recipe.flags, image.shape[1], recipe.out_channels or image.shape[1])
    return mapping, window, F.pad(params[:, :mixing], (0, params.shape[1] - mixing)), *others


def copy_labels(compute: Any, image: Shaped[Tensor, "b c h w"] | Pictures, resample: Resample) -> Shaped[Tensor, "b c h2 w2"]:
    """Call a labels operator on integers or booleans: whole pixels are copied, and nothing has a gradient."""
    recipe, (fill, *_, grounds) = resample.recipe, unpack(resample, image.shape[1])
    parts = [(fill, image.shape[1]), (None if grounds is None else grounds.flatten(1), len(recipe.canvases) * image.shape[1])]
    rows = max(1 if part is None else part.shape[0] for part, _ in parts)
    none = resample.params.new_zeros(1, dtype=image.dtype)
    fills = [(none if part is None else part.to(image.dtype)).expand(rows, n) for part, n in parts]
    coordinates = torch.promote_types(resample.mapping.dtype, torch.float32)
    moves = resample.window, resample.field if resample.links is None else resample.table, resample.links
    window, field, links = (None if part is None else part.detach().to(coordinates) for part in moves)
    options = [MODES[recipe.padding_mode], *(CANVASES[kind] for kind in recipe.canvases)]
    mapping = resample.mapping.detach().to(coordinates)
    out: Tensor = compute(image, mapping, window, torch.cat(fills, 1), field, links, list(recipe.size), options)
    return out


_MOVES, _COMPUTED = (1, 2, 5, 6), (4, 6)
"""Places of a warp's tensors: those that say where to read, whose gradients come together; those whose gradients have its dtype."""


def empty_gradients(tensors: Sequence[Any], needs: Sequence[bool]) -> Gradients:
    """Uninitialised memory for what a backward returns of a warp's tensors (or its first); the image may be `Pictures`."""
    image, mapping = tensors[:2]
    moves, found = any(needs[k] for k in _MOVES if k < len(tensors)), []
    for k, part in enumerate(tensors[1:], 1):
        wanted = part is not None and (moves if k in _MOVES else needs[k])
        one = mapping.new_empty(
            (image.shape[0], *part.shape[1:]) if wanted else (0,), dtype=mapping.dtype if k in _COMPUTED else torch.float64
        )
        found.append(in_large_pages(one) if wanted else one)
    to_image = gradient_of(image) if needs[0] else mapping.new_empty((0,), dtype=image.dtype)
    return in_large_pages(to_image), *found


def no_gradients(tensors: Sequence[Any], needs: Sequence[bool]) -> Gradients:
    """The gradients of a result without pixels: zeros."""
    return tuple(torch.zeros_like(part) for part in empty_gradients(tensors, needs))


def empty_result(image: Tensor, size: list[int], options: list[int], cubic: float, dtype: torch.dtype) -> Tensor:
    """Uninitialised memory for what a pass returns."""
    del cubic
    return image.new_empty((image.shape[0], options[3], size[0], size[1]), dtype=dtype)
