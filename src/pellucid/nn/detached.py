"""Normalisation whose statistics are constants to the gradient, by the native kernels that full statistics use.

Owns: two autograd functions: torch's training kernel forward, the inference form of its gradient backward.
Must not: decide when they apply; see ``standardize.py`` and ``batch_normalize.py``.
Read next: ``standardize.py``.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["channels_detached", "rows_detached"]


def channels_detached(
    x: Float[Tensor, "b c *space"], scale: Float[Tensor, "c"] | None, shift: Float[Tensor, "c"] | None, *, eps: float
) -> tuple[Float[Tensor, "b c *space"], Float[Tensor, "c"], Float[Tensor, "c"]]:
    """Return ``(x - mean) / sqrt(var + eps) * scale + shift`` per channel, with its mean and biased variance.

    Gradient:
        x: ``scale * g / sigma``. scale, shift: exact. Second order: yes. Forward mode: raises.
    """
    out, mean, gain = _Channels.apply(x, scale, shift, eps)
    return out, mean, (gain.reciprocal().square() - eps).clamp(min=0)  # a constant; below zero is rounding


def rows_detached(x: Float[Tensor, "*shape"], shape: torch.Size, *, eps: float, factor: float = 1.0) -> Float[Tensor, "*shape"]:
    """Return ``factor * (x - mean) / sqrt(var + eps)`` over the trailing dimensions of that shape.

    Gradient:
        x: ``factor * g / sigma``. Second order: yes. Forward mode: raises.
    """
    out, _ = _Rows.apply(x, shape, eps, factor)
    return out


class _Channels(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, scale: Tensor | None, shift: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        return torch.native_batch_norm(x, scale, shift, None, None, True, 0.0, eps)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x, scale, _, ctx.eps = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(x, scale, *output[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, scale, mean, gain = ctx.saved_tensors
        wanted = [ctx.needs_input_grad[0], ctx.needs_input_grad[1], ctx.needs_input_grad[2]]
        var = gain.reciprocal().square() - ctx.eps
        # With train=False the kernel takes mean and variance as running statistics, that is, as constants (vmap asks for all four).
        dx, dscale, dshift = torch.ops.aten.native_batch_norm_backward(
            grads[0], x, scale, mean, var, mean, gain, False, ctx.eps, wanted
        )
        return (*(d if w else None for d, w in zip((dx, dscale, dshift), wanted, strict=True)), None)


class _Rows(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, shape: torch.Size, eps: float, factor: float) -> tuple[Tensor, Tensor]:
        # The kernel is faster with a scale than without (CPU: 1.9x), even where it is one.
        out, _, gain = torch.native_layer_norm(x, shape, x.new_full(shape, factor), None, eps)
        return out, gain

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.factor = inputs[3]
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (gain,) = ctx.saved_tensors
        return grads[0] * (gain * ctx.factor), None, None, None
