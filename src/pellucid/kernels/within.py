"""Compiled passes from memory to memory, for calls in which only the picture has a gradient.

Owns: `within` and its argument `InMemory`; `in_memory`, which recognises tensors that stand for many.
Must not: know a primitive.
Read next: ``explicit.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.core.tape import is_plain_eager
from pellucid.kernels.explicit import Explicit
from pellucid.kernels.primitive import Primitive
from pellucid.kernels.threads import elements

__all__ = ["InMemory", "in_memory", "within"]


class InMemory(NamedTuple):
    """A primitive's pass over pictures of one size and memory layout.

    Args:
        forth: (memory of pictures, arrays for the other tensors) -> memory of the result.
        back: (dense memory of the result's gradient, the pictures, those arrays) -> memory of the gradient. Where it is None, or
            returns None, the primitive's own backward computes.
        shape: of the result.
    """

    forth: Callable[[Any, Sequence[Any]], Any]
    back: Callable[[Any, Tensor, Sequence[Any]], Any] | None
    shape: tuple[int, ...]


def within(primitive: Primitive, static: tuple[Any, ...], memory: InMemory, image: Tensor, arrays: Sequence[Any]) -> Tensor:
    """Compute the primitive of a batch, or of one picture (c h w), with arrays for its other tensors."""
    found: Tensor = _Within.apply(image, primitive, static, memory, arrays)
    return found


def in_memory(tensor: Tensor) -> bool:
    """Whether a tensor has memory; ``torch.autograd.grad(..., is_grads_batched=True)`` sends one without, for many gradients."""
    return torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.CPU)


class _Context(NamedTuple):
    """What the primitive's own backward reads from its context."""

    primitive: Primitive
    static: tuple[Any, ...]
    saved_tensors: list[Tensor]
    given: list[bool]
    needs_input_grad: list[bool]


class _Within(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image: Tensor, primitive: Primitive, static: tuple[Any, ...], memory: InMemory, arrays: Any) -> Tensor:
        ctx.save_for_backward(image)
        ctx.kept = primitive, static, memory, arrays
        shape = memory.shape if image.dim() == 4 else memory.shape[1:]
        return torch.from_numpy(memory.forth(elements(image), arrays).reshape(shape))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (image,), (primitive, static, memory, arrays), grad = ctx.saved_tensors, ctx.kept, grads[0]
        if memory.back is not None and not torch.is_grad_enabled() and is_plain_eager() and in_memory(grad):
            found = memory.back(elements(grad.contiguous()), image, arrays)
            if found is not None:
                return torch.from_numpy(found.reshape(image.shape)), None, None, None, None
        one = image.dim() == 3
        tensors, given = [torch.from_numpy(part) for part in arrays if part is not None], [part is not None for part in arrays]
        needed = [False] * 3 + [True] + [False] * len(arrays)
        context = _Context(primitive, static, [image[None] if one else image, *tensors], [True, *given], needed)
        made = Explicit.backward(context, grad[None] if one else grad)[3]
        return made[0] if one else made, None, None, None, None
