"""The compiled patches as a differentiable function of image, frames and span.

Owns: the `autograd.Function`; it saves its inputs only.
Must not: differentiate twice by itself; the reference does that, or an error names it.
Read next: ``op.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pellucid.errors import ImplementationError
from pellucid.kernels.patches.cpu.op import patches_backward, patches_forward

__all__ = ["Patches", "differentiate_again_with"]

Options = tuple[tuple[int, int], int]
"""(size, levels)."""


class Patches(torch.autograd.Function):
    """(options, image, frames, span) -> patches."""

    generate_vmap_rule = True

    @staticmethod
    def forward(options: Options, image: Tensor, frames: Tensor, span: Tensor) -> Tensor:  # noqa: D102
        out: Tensor = patches_forward(image, frames, span, list(options[0]), options[1])
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: D102
        del output
        ctx.options = inputs[0]
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # noqa: D102
        needed = tuple(ctx.needs_input_grad[1:])
        # Only create_graph=True differentiates on; a compiled graph never does.
        once = torch.compiler.is_compiling() or not torch.is_grad_enabled()
        compute = _gradients if once else _Backward.apply
        return (None, *compute(ctx.options, needed, grads[0], *ctx.saved_tensors))


def _gradients(
    options: Options, needed: tuple[bool, ...], grad: Tensor, image: Tensor, frames: Tensor, span: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradient of every tensor, None where it is not needed."""
    needs = [needed[0], needed[1] or needed[2]]
    to_image, to_frames, to_span = patches_backward(grad, image, frames, span, list(options[0]), options[1], needs)
    return (
        to_image if needed[0] else None,
        to_frames.to(frames.dtype) if needed[1] else None,
        to_span.to(span.dtype) if needed[2] else None,
    )


class _Backward(torch.autograd.Function):
    """The gradients, as a function whose own derivative goes through the reference."""

    generate_vmap_rule = True

    @staticmethod
    def forward(options: Options, needed: tuple[bool, ...], grad: Tensor, image: Tensor, frames: Tensor, span: Tensor) -> Any:
        return _gradients(options, needed, grad, image, frames, span)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        del output
        ctx.options, ctx.needed = inputs[:2]
        ctx.save_for_backward(*inputs[2:])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if _reference is None or torch._C._are_functorch_transforms_active():
            raise ImplementationError(
                "impl='cpu' of patches has no second derivative here. "
                "Use impl='reference' where gradients are differentiated again."
            )
        with torch.enable_grad():
            # Views, so that the derivatives below are partial: the gradient's own history leads to the image too.
            inputs = [tensor.view_as(tensor) for tensor in ctx.saved_tensors]
            grad, *tensors = inputs
            wanted = [tensor for tensor, needed in zip(tensors, ctx.needed, strict=True) if needed]
            out = _reference(ctx.options, tensors[0], tensors[1], tensors[2])
            first = torch.autograd.grad(out, wanted, grad, create_graph=True, allow_unused=True)
            incoming = [g for g, needed in zip(grads, ctx.needed, strict=True) if needed]
            pairs = [(f, g) for f, g in zip(first, incoming, strict=True) if f is not None and f.requires_grad and g is not None]
        places = [i for i, needed in enumerate(ctx.needs_input_grad[2:]) if needed]
        found: list[Tensor | None] = [None] * len(inputs)
        if pairs and places:
            second = torch.autograd.grad(
                [f for f, _ in pairs],
                [inputs[i] for i in places],
                [g for _, g in pairs],
                allow_unused=True,
                create_graph=torch.is_grad_enabled(),
            )
            for place, gradient in zip(places, second, strict=True):
                found[place] = gradient
        return (None, None, *found)


_reference: Callable[[Options, Tensor, Tensor, Tensor], Tensor] | None = None


def differentiate_again_with(function: Callable[[Options, Tensor, Tensor, Tensor], Tensor]) -> None:
    """Tell second derivatives how the reference computes the same; told by the dispatcher: implementations import no other."""
    global _reference
    _reference = function
