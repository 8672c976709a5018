"""The compiled warp as a differentiable function of all its tensors.

Owns: the `autograd.Function`: packing parameters, saving inputs only, sharing out the gradients.
Must not: differentiate twice by itself; the reference does that, or an error names it.
Read next: ``op.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.errors import ImplementationError
from pellucid.kernels.warp.cpu.layout import CLIP, FIRST_MIX, HUE, LAST_MIX, MATRIX, SECOND_MIX
from pellucid.kernels.warp.cpu.op import warp_backward, warp_forward

__all__ = ["Options", "Warp", "compute", "differentiate_again_with"]


class Options(NamedTuple):
    """What is not a tensor."""

    size: tuple[int, int]
    taps: int
    mode: int
    cubic: float
    clip: bool
    dtype: torch.dtype  # of coordinates, colours and the result
    names: tuple[str, str] = ("bilinear", "zeros")  # interpolation and padding, as the reference calls them


_SLOTS = ("matrix", "offset", "fill", "turns", "second_matrix", "second_offset", "last_matrix", "last_offset")
"""The colour parameters, in the order of the arguments after (image, src_from_dst, window)."""


def _pieces(colors: tuple[Tensor | None, ...], channels: int) -> tuple[int, int, list[tuple[int, int]]]:
    """(flags, out_channels, [(slot or -1 for zeros, numbers)]): the layout of a parameter row, in ``layout.py``'s order."""
    matrix, offset, fill, turns, second, _, last, _ = colors
    out_channels = channels if matrix is None else matrix.shape[-2]
    flags = 0
    pieces: list[tuple[int, int]] = []
    if matrix is not None or offset is not None or fill is not None:
        flags |= FIRST_MIX | (0 if matrix is None else MATRIX)
        if matrix is not None:
            pieces.append((0, out_channels * channels))
        pieces += [(slot if colors[slot] is not None else -1, out_channels) for slot in (1, 2)]
    if turns is not None:
        flags |= HUE
        pieces.append((3, 1))
    for flag, slot, given in ((SECOND_MIX, 4, second), (LAST_MIX, 6, last)):
        if given is not None:
            flags |= flag
            pieces += [
                (slot, out_channels**2),
                (slot + 1 if colors[slot + 1] is not None else -1, out_channels),
                (-1, out_channels),
            ]
    return flags, out_channels, pieces


def _pack(colors: tuple[Tensor | None, ...], pieces: list[tuple[int, int]], like: Tensor, dtype: torch.dtype) -> Tensor:
    """One row of numbers per sample (or one row for all)."""
    if not pieces:
        return like.new_zeros((1, 1), dtype=dtype)
    rows = max(color.shape[0] for color in colors if color is not None)
    parts = []
    for slot, numbers in pieces:
        color = colors[slot] if slot >= 0 else None
        part = like.new_zeros((1, numbers), dtype=dtype) if color is None else color.reshape(-1, numbers).to(dtype)
        parts.append(part.expand(rows, numbers))
    return torch.cat(parts, 1)


def _arguments(options: Options, tensors: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
    """The operators' arguments after the gradient."""
    image, src_from_dst, window, *colors = tensors
    assert image is not None
    assert src_from_dst is not None
    flags, out_channels, pieces = _pieces(tuple(colors), image.shape[1])
    params = _pack(tuple(colors), pieces, image, options.dtype)
    chosen = [options.taps, options.mode, flags | (CLIP if options.clip else 0), out_channels]
    window = None if window is None else window.to(options.dtype)
    return image, src_from_dst.flatten(1).to(options.dtype), window, params, list(options.size), chosen, options.cubic


def compute(options: Options, tensors: tuple[Tensor | None, ...]) -> Tensor:
    """The warp itself, without a derivative."""
    out: Tensor = warp_forward(*_arguments(options, tensors))
    return out


class Warp(torch.autograd.Function):
    """(options, image, src_from_dst, window, *colour parameters) -> the warped image."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        options: Options,
        image: Tensor,
        src_from_dst: Tensor,
        window: Tensor | None,
        matrix: Tensor | None,
        offset: Tensor | None,
        fill: Tensor | None,
        turns: Tensor | None,
        second_matrix: Tensor | None,
        second_offset: Tensor | None,
        last_matrix: Tensor | None,
        last_offset: Tensor | None,
    ) -> Tensor:
        """Every argument by name: Dynamo counts them to tell whether a context comes first."""
        later = (turns, second_matrix, second_offset, last_matrix, last_offset)
        return compute(options, (image, src_from_dst, window, matrix, offset, fill, *later))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: D102
        del output
        ctx.options = inputs[0]
        ctx.given = tuple(tensor is not None for tensor in inputs[1:])
        ctx.save_for_backward(*(tensor for tensor in inputs[1:] if tensor is not None))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # noqa: D102
        saved = iter(ctx.saved_tensors)
        tensors = tuple(next(saved) if given else None for given in ctx.given)
        needed = tuple(ctx.needs_input_grad[1:])
        # Only create_graph=True differentiates on; a compiled graph never does.
        once = torch.compiler.is_compiling() or not torch.is_grad_enabled()
        found = (
            _gradients(ctx.options, needed, grads[0], *tensors)
            if once
            else _Backward.apply(ctx.options, needed, grads[0], *tensors)
        )
        return (None, *found)


def _gradients(options: Options, needed: tuple[bool, ...], grad: Tensor, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradient of every tensor, None where it is not needed."""
    image, src_from_dst, window, *colors = tensors
    assert image is not None
    colored = any(needed[3:])
    to_image, to_map, to_window, to_params = warp_backward(
        grad, *_arguments(options, tensors), [needed[0], needed[1] or needed[2], colored]
    )
    results = [to_image if needed[0] else None, _share(to_map, src_from_dst) if needed[1] else None]
    results.append(_share(to_window, window) if needed[2] else None)
    found: dict[int, Tensor] = {}
    at = 0
    for slot, numbers in _pieces(tuple(colors), image.shape[1])[2] if colored else []:
        found[slot] = to_params[:, at : at + numbers]
        at += numbers
    return (*results, *(_share(found[slot], colors[slot]) if needed[3 + slot] else None for slot in range(len(_SLOTS))))


class _Backward(torch.autograd.Function):
    """The gradients, as a function whose own derivative goes through the reference."""

    generate_vmap_rule = True

    @staticmethod
    def forward(options: Options, needed: tuple[bool, ...], grad: Tensor, *tensors: Tensor | None) -> Any:
        return _gradients(options, needed, grad, *tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        del output
        ctx.options, ctx.needed = inputs[:2]
        ctx.given = tuple(tensor is not None for tensor in inputs[2:])
        ctx.save_for_backward(*(tensor for tensor in inputs[2:] if tensor is not None))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if _reference is None or torch._C._are_functorch_transforms_active():
            raise ImplementationError(
                "impl='cpu' of the warp has no second derivative here. "
                "Use impl='reference' where gradients are differentiated again."
            )
        saved = iter(ctx.saved_tensors)
        with torch.enable_grad():
            # Views, so that the derivatives below are partial: the gradient's own history leads to the image too.
            own = [next(saved) if given else None for given in ctx.given]
            inputs: list[Any] = [None if tensor is None else tensor.view_as(tensor) for tensor in own]
            grad, *tensors = inputs
            out = _reference(ctx.options, tuple(tensors))
            wanted = [tensor for tensor, needed in zip(tensors, ctx.needed, strict=True) if needed]
            first = torch.autograd.grad(out, wanted, grad, create_graph=True, allow_unused=True)
            incoming = [g for g, needed in zip(grads, ctx.needed, strict=True) if needed]
            pairs = [(f, g) for f, g in zip(first, incoming, strict=True) if f is not None and f.requires_grad and g is not None]
        places = [i for i, needed in enumerate(ctx.needs_input_grad[2:]) if needed]
        second = torch.autograd.grad(
            [f for f, _ in pairs],
            [inputs[i] for i in places],
            [g for _, g in pairs],
            allow_unused=True,
            create_graph=torch.is_grad_enabled(),
        )
        found: list[Tensor | None] = [None] * len(inputs)
        for place, gradient in zip(places, second, strict=True):
            found[place] = gradient
        return (None, None, *found)


_reference: Callable[[Options, tuple[Tensor | None, ...]], Tensor] | None = None


def differentiate_again_with(function: Callable[[Options, tuple[Tensor | None, ...]], Tensor]) -> None:
    """Tell second derivatives how the reference computes the same; told by the dispatcher: implementations import no other."""
    global _reference
    _reference = function


def _share(sums: Tensor, like: Tensor | None) -> Tensor:
    """Per-sample sums in float64 as the gradient of a tensor that may have had one row for all."""
    assert like is not None
    total = sums.sum(0, keepdim=True) if like.shape[0] == 1 and sums.shape[0] != 1 else sums
    return total.reshape(like.shape).to(like.dtype)
