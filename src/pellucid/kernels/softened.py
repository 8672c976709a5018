"""Blurred slopes: a pass reads the picture as it is, and its gradients to coordinates come from a blurred copy.

Owns: `softened`, which wraps a compiled primitive, `with_slopes`, which says what that computes, `blurred`; and `widened`.
Must not: know a primitive.
Read next: ``explicit.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from pellucid.core.tape import is_plain_eager
from pellucid.kernels import convolve
from pellucid.kernels.convolve.gaussian import gaussian
from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.primitive import Primitive
from pellucid.kernels.within import in_memory

__all__ = ["WIDEST", "blurred", "softened", "widened", "with_slopes"]

WIDEST = 16.0
"""The largest standard deviation, in pixels: it bounds the filter's length, which no value may decide."""
_TRUNCATE = 4.0


def blurred(image: Float[Tensor, "b c h w"], sigma: Float[Tensor, "b_or_1"], *static: Any) -> Float[Tensor, "b c h w"]:
    """Convolve with each sample's Gaussian of so many pixels (at most `WIDEST`); borders mirror without repeating the edge pixel.

    Source:
        ``scipy.ndimage.gaussian_filter(mode="mirror", truncate=4)``.
    """
    del static
    image = image.to(torch.promote_types(image.dtype, torch.float32))
    reach = int(min(_TRUNCATE * WIDEST, max(image.shape[-2:])))
    weights = gaussian(torch.clamp(sigma.to(image.dtype), max=WIDEST), 2 * reach + 1, truncate=_TRUNCATE)
    return convolve.separable(image, weights, weights)


def softened(primitive: Primitive, count: int, moves: tuple[int, ...], blur: Callable[..., Tensor] = blurred) -> Primitive:
    """The primitive with one more tensor: how many pixels each sample's slopes are blurred by, or None.

    Args:
        primitive: its first tensor is a picture; its ``direct`` and ``forward`` leave out the further tensor themselves.
        count: of its tensors; the further one comes behind them.
        moves: which of them say where the picture is read.
        blur: (picture, the further tensor, what is static) -> the blurred picture.

    Gradient:
        tensors in ``moves``: surrogate (blurred slopes). Everything else: as the primitive's own.
    """

    def back(grad: Tensor, *given: Any) -> tuple[Tensor, ...]:
        assert primitive.back is not None
        assert given[count] is None  # no pictures of several sizes are blurred
        return (*primitive.back(grad, *given[:count], *given[count + 1 : -1], given[-1][:count]), grad.new_empty((0,)))

    def backward(grad: Tensor, *given: Any) -> tuple[Tensor, ...]:
        (image, *others), sigma, static, needs = given[:count], given[count], given[count + 1 : -1], given[-1][:count]
        none = grad.new_empty((0,))
        if sigma is None:
            direct = is_plain_eager() and in_memory(grad)
            compute = primitive.backward if primitive.back is None or not direct else primitive.back
            return (*compute(grad, image, *others, *static, needs), none)
        blurry = [need and place in moves for place, need in enumerate(needs)]
        sharp = [need and place not in moves for place, need in enumerate(needs)]
        soft = primitive.backward(grad, blur(image, sigma, *static), *others, *static, blurry) if any(blurry) else ()
        found = primitive.backward(grad, image, *others, *static, sharp) if any(sharp) or not soft else soft
        return (*(soft[place] if need else found[place] for place, need in enumerate(blurry)), none)

    rule = primitive.dual

    def dual(tensors: Any, tangents: Any, static: Any) -> tuple[Tensor, Tensor] | None:
        assert rule is not None
        return rule(tensors[:count], tangents[:count], static)

    def linear(*given: Any) -> tuple[Tensor | None, ...] | None:
        others = primitive.linear(*given[:count], *given[count + 1 :])
        return None if others is None else (*others, None)

    return primitive._replace(
        reference=lambda *given: with_slopes(primitive.reference, moves, blur, given[:count], given[count], given[count + 1 :]),
        backward=backward,
        dual=None if rule is None else dual,
        linear=linear,
        back=None if primitive.back is None else back,
    )


def with_slopes(
    function: Callable[..., Tensor],
    moves: tuple[int, ...],
    blur: Callable[..., Tensor],
    tensors: tuple[Any, ...],
    sigma: Tensor | None,
    static: tuple[Any, ...],
) -> Tensor:
    """Call a function of (tensors, static arguments) with blurred slopes: what `softened` primitives compute, in plain PyTorch."""
    if sigma is None or not needs_grad(*(tensors[place] for place in moves)):
        return function(*tensors, *static)
    moving = [t if t is None or place in moves else t.detach() for place, t in enumerate(tensors)]
    resting = [t if t is None or place not in moves else t.detach() for place, t in enumerate(tensors)]
    soft = function(blur(moving[0], sigma, *static), *moving[1:], *static)
    return function(*resting, *static) + (soft - soft.detach())


def widened(image: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
    """The image itself, whose gradient is blurred by a Gaussian of one pixel on its way back, with zeros beyond the border.

    That is a symmetric positive definite matrix times the gradient: a small step against it lowers whatever is differentiated.
    """
    out: Tensor = _Widened.apply(image)
    return out


class _Widened(torch.autograd.Function):
    """The identity; the blur is its own adjoint."""

    generate_vmap_rule = True

    @staticmethod
    def forward(image: Tensor) -> Tensor:
        return image.view_as(image)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        del ctx
        grad = grads[0]
        reach = int(_TRUNCATE)
        padded = F.pad(grad, (reach, reach, reach, reach))
        return blurred(padded, grad.new_ones(1))[..., reach:-reach, reach:-reach].to(grad.dtype)
