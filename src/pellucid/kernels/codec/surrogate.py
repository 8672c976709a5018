"""Gradients for a codec that has none: declared surrogates, attached to the values of the reference.

Owns: `jpeg`: the codec on images of [0, 1], its surrogate gradients to the image and to the quality, and its gate; `compress`, the
codec on bytes, which picks an implementation.
Must not: change a value: with or without a gradient, the result is the reference's.
Read next: ``reference.py``.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from pellucid.kernels.codec import cpu, reference
from pellucid.kernels.codec.reference import Rounding
from pellucid.kernels.codec.tables import SPREAD
from pellucid.kernels.derivatives import forward_mode, needs_grad
from pellucid.kernels.dispatch import choose
from pellucid.kernels.explicit import run
from pellucid.kernels.primitive import Primitive

__all__ = ["AVAILABLE", "compress", "jpeg"]

AVAILABLE: tuple[str, ...] = ("cpu", "reference")


def jpeg(
    image: Float[Tensor, "b c h w"],
    quality: Float[Tensor, "#b"],
    gate: Float[Tensor, "#b"] | None = None,
    *,
    subsampling: str,
    image_gradient: str,
    surrogate: str,
    h: float,
    impl: str = "auto",
) -> Float[Tensor, "b c h w"]:
    """Encode and decode, where the gate is open.

    Args:
        image: one or three channels in [0, 1]; brought to 8 bits first.
        quality: 1 to 100.
        gate: 1 for the codec, 0 for the image as it is; None for always.
        subsampling: ``4:4:4``, ``4:2:2`` or ``4:2:0``.
        image_gradient: how a coefficient passes its rounding: ``proximity`` (a Gaussian of 0.2 steps at each jump, which is where
            a coefficient can change), ``cubic`` (3 d^2 at distance d from the stored value), ``straight_through`` (1) or ``none``.
        surrogate: ``secant`` (the difference of the results at ``quality + h`` and ``quality - h``) or ``none`` (zero).
        h: reach of the secant.
        impl: who computes the values, and their slopes where they are compiled: in reverse mode, of float32 and float64.

    Gradient:
        image, quality: as chosen. gate: exact.
    """
    still, plain = quality.detach(), image.detach()
    wanted = image_gradient != "none" and needs_grad(image)
    compiled = image.dtype in _COMPILED and choose(impl, available=AVAILABLE, device=image.device.type) == "cpu"
    if compiled and not forward_mode():
        result = run(_CODEC, (subsampling, image_gradient), image if wanted else plain, still)
    else:
        result = _round_trip(plain, still, subsampling, impl)
        result = _with_slopes(result, image, still, subsampling, image_gradient) if wanted else result
    if surrogate == "secant" and needs_grad(quality):
        more, less = (_round_trip(plain, still + step, subsampling, impl) for step in (h, -h))
        slope = (more - less) / (2.0 * h)
        result = result + (quality - still).to(image.dtype)[:, None, None, None] * slope
    if gate is None:
        return result
    gate = gate[:, None, None, None]
    return gate * result + (1.0 - gate) * image


def compress(
    levels: UInt8[Tensor, "b c h w"], quality: Float[Tensor, "#b"], subsampling: str, impl: str = "auto"
) -> UInt8[Tensor, "b c h w"]:
    """See :func:`pellucid.kernels.codec.reference.compress`, of bytes; ``impl`` says who computes it. The bits are the same."""
    if choose(impl, available=AVAILABLE, device=levels.device.type) == "reference":
        return reference.compress(levels.to(torch.float64), quality, subsampling).to(torch.uint8)
    found: Tensor = cpu.CODEC[1](levels, quality, subsampling, "none")
    return found


def _round_trip(image: Tensor, quality: Tensor, subsampling: str, impl: str) -> Tensor:
    """The codec on images of [0, 1], without a gradient."""
    levels = torch.floor(image * 255.0 + 0.5).clamp(0.0, 255.0).to(torch.uint8)
    return compress(levels, quality, subsampling, impl).to(image.dtype) / 255.0


def _with_slopes(result: Tensor, image: Tensor, quality: Tensor, subsampling: str, image_gradient: str) -> Tensor:
    """The same result, with the declared slopes to the image."""
    rounding = Rounding(_divided, _SLOPES[image_gradient])
    smooth = reference.compress(image.clamp(0.0, 1.0) * 255.0, quality, subsampling, rounding) / 255.0
    return result + (smooth - smooth.detach()).to(image.dtype)


def _again(image: Tensor, quality: Tensor, subsampling: str, image_gradient: str) -> Tensor:
    """Compute by the reference what the compiled codec computes: for second derivatives."""
    return _with_slopes(_round_trip(image.detach(), quality, subsampling, "reference"), image, quality, subsampling, image_gradient)


_CODEC = Primitive("jpeg", _again, *cpu.CODEC)
_COMPILED = (torch.float32, torch.float64)


def _divided(value: Tensor, bits: int, bias: Tensor | float) -> Tensor:
    del bias  # it only centres the rounding
    return value / 2.0**bits


def _proximity(steps: Tensor) -> Tensor:
    nearest = torch.round(steps.detach())
    from_jump = (0.5 - (steps.detach() - nearest).abs()) / SPREAD
    slope = torch.exp(-0.5 * from_jump**2) / (SPREAD * math.sqrt(2.0 * math.pi))
    return nearest + (steps - steps.detach()) * slope


def _cubic(steps: Tensor) -> Tensor:
    nearest = torch.round(steps.detach())
    return nearest + (steps - nearest) ** 3


def _straight_through(steps: Tensor) -> Tensor:
    return torch.round(steps.detach()) + (steps - steps.detach())


_SLOPES = {"proximity": _proximity, "cubic": _cubic, "straight_through": _straight_through}
