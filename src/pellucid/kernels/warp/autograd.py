"""The fused warp as a differentiable function of all its tensors, whoever computes it.

Owns: the `autograd.Function`: saving inputs only, and handing out the gradients.
Must not: differentiate twice by itself (the reference does that, or an error names it), or know an implementation.
Read next: ``cpu/op.py``, ``triton/op.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.errors import ImplementationError
from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.warp.operators import Gradients
from pellucid.kernels.warp.packing import Options, Packed

__all__ = ["Operators", "Warp", "differentiate_again_with", "run"]


class Operators(NamedTuple):
    """Who computes.

    Args:
        impl: its name, for errors.
        forward: (image, mapping, window, params, field, size, options, cubic, dtype) -> the warped image.
        backward: the same without dtype after the output's gradient, and then what is needed -> the gradients.
        what: which primitive it is, for errors and for who differentiates again.
    """

    impl: str
    forward: Callable[..., Tensor]
    backward: Callable[..., Gradients]
    what: str = "warp"


def _arguments(options: Options) -> tuple[Any, ...]:
    """The operators' arguments after the tensors."""
    return list(options.size), [options.taps, options.mode, options.flags, options.out_channels], options.cubic


def run(operators: Operators, image: Tensor, packed: Packed) -> Tensor:
    """Warp, with a derivative where one may be asked for."""
    options, mapping, window, params, field = packed
    if options.dtype == torch.uint8:  # which has none
        image, mapping, params = image.detach(), mapping.detach(), params.detach()
        window, field = (None if part is None else part.detach() for part in (window, field))
    elif needs_grad(image, mapping, window, params, field):
        out: Tensor = Warp.apply(operators, options, image, mapping, window, params, field)
        return out
    return _compute(operators, options, image, mapping, window, params, field)  # autograd's bookkeeping is most of a small call


def _compute(
    operators: Operators,
    options: Options,
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    params: Tensor,
    field: Tensor | None,
) -> Tensor:
    dtype = mapping.dtype if options.dtype is None else options.dtype
    return operators.forward(image, mapping, window, params, field, *_arguments(options), dtype)


class Warp(torch.autograd.Function):
    """(operators, options, image, mapping, window, params, field) -> the warped image; the tensors are those of the operators."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        operators: Operators,
        options: Options,
        image: Tensor,
        mapping: Tensor,
        window: Tensor | None,
        params: Tensor,
        field: Tensor | None,
    ) -> Tensor:
        """Every argument by name: Dynamo counts them to tell whether a context comes first."""
        return _compute(operators, options, image, mapping, window, params, field)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: D102
        del output
        ctx.operators, ctx.options, *tensors = inputs
        ctx.given = tuple(tensor is not None for tensor in tensors)
        ctx.save_for_backward(*(tensor for tensor in tensors if tensor is not None))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # noqa: D102
        saved = iter(ctx.saved_tensors)
        tensors: list[Any] = [next(saved) if given else None for given in ctx.given]
        needed = tuple(ctx.needs_input_grad[2:])
        # Only create_graph=True differentiates on; a compiled graph never does.
        once = torch.compiler.is_compiling() or not torch.is_grad_enabled()
        found = (
            _gradients(ctx.operators, ctx.options, needed, grads[0], *tensors)
            if once
            else _Backward.apply(ctx.operators, ctx.options, needed, grads[0], *tensors)
        )
        return (None, None, *found)


def _gradients(
    operators: Operators,
    options: Options,
    needed: tuple[bool, ...],
    grad: Tensor,
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    params: Tensor,
    field: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """The gradient of every tensor, None where it is not needed."""
    needs = [needed[0], needed[1] or needed[2], needed[3], needed[4]]
    to_image, *sums = operators.backward(grad, image, mapping, window, params, field, *_arguments(options), needs)
    shared = (
        _share(found, like) if need else None
        for found, like, need in zip(sums, (mapping, window, params, field), needed[1:], strict=True)
    )
    return to_image if needed[0] else None, *shared


class _Backward(torch.autograd.Function):
    """The gradients, as a function whose own derivative goes through the reference."""

    generate_vmap_rule = True

    @staticmethod
    def forward(operators: Operators, options: Options, needed: tuple[bool, ...], grad: Tensor, *tensors: Tensor | None) -> Any:
        return _gradients(operators, options, needed, grad, *tensors)  # type: ignore[arg-type]

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        del output
        operators, ctx.options, ctx.needed = inputs[:3]
        ctx.impl, ctx.what = operators.impl, operators.what
        ctx.given = tuple(tensor is not None for tensor in inputs[3:])
        ctx.save_for_backward(*(tensor for tensor in inputs[3:] if tensor is not None))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        reference = _references.get(ctx.what)
        if reference is None or torch._C._are_functorch_transforms_active():
            raise ImplementationError(
                f"impl={ctx.impl!r} of the {ctx.what} has no second derivative here. "
                "Use impl='reference' where gradients are differentiated again."
            )
        saved = iter(ctx.saved_tensors)
        with torch.enable_grad():
            # Views, so that the derivatives below are partial: the gradient's own history leads to the image too.
            own = [next(saved) if given else None for given in ctx.given]
            inputs: list[Any] = [None if tensor is None else tensor.view_as(tensor) for tensor in own]
            grad, *tensors = inputs
            out = reference(ctx.options, tuple(tensors))
            wanted = [tensor for tensor, needed in zip(tensors, ctx.needed, strict=True) if needed]
            first = torch.autograd.grad(out, wanted, grad, create_graph=True, allow_unused=True)
            incoming = [g for g, needed in zip(grads, ctx.needed, strict=True) if needed]
            pairs = [(f, g) for f, g in zip(first, incoming, strict=True) if f is not None and f.requires_grad and g is not None]
        places = [i for i, needed in enumerate(ctx.needs_input_grad[3:]) if needed]
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
        return (None, None, None, *found)


_references: dict[str, Callable[[Options, tuple[Tensor | None, ...]], Tensor]] = {}


def differentiate_again_with(function: Callable[[Options, tuple[Tensor | None, ...]], Tensor], what: str = "warp") -> None:
    """Tell second derivatives how the reference computes the same; told by the dispatcher: implementations import no other."""
    _references[what] = function


def _share(sums: Tensor, like: Tensor | None) -> Tensor:
    """What each sample gives, as the gradient of a tensor that may have had one row for all."""
    assert like is not None
    total = sums.sum(0, keepdim=True) if like.shape[0] == 1 and sums.shape[0] != 1 else sums
    return total.reshape(like.shape).to(like.dtype)
