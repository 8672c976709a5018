"""The antialiased resize for CUDA devices: the warp's kernels, which then read all pixels that an output pixel spans.

Owns: its operators: `forward` (also as `direct`: there is nothing to gain past torch's dispatcher) and `backward`.
Must not: fall back, know about gradients, or import Triton before an operator runs.
Read next: ``../../warp/triton/axes.py``.
"""

from typing import Any

from torch import Tensor

from pellucid.kernels.explicit import TRITON_KEYS, operator
from pellucid.kernels.warp.operators import Gradients, empty_gradients

__all__ = ["backward", "direct", "forward"]

_COMMON = "Tensor image, Tensor mapping, Tensor window, Tensor params, SymInt[] size, int[] options, float cubic, ScalarType dtype"


def _empty(*given: Any) -> Tensor:
    image, size, options, dtype = given[0], given[4], given[5], given[7]
    out: Tensor = image.new_empty((image.shape[0], options[3], size[0], size[1]), dtype=dtype)
    return out


def _call(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of the warp's launchers, without a field and canvases."""
    return *given[:4], None, None, None, *given[4:7], True


def _resize(*given: Any) -> Tensor:
    from pellucid.kernels.warp.triton.launch import forward_warp

    out = _empty(*given)
    if out.numel():
        forward_warp(out, _call(given))
    return out


def _resize_backward(grad: Tensor, *given: Any) -> Gradients:
    from pellucid.kernels.warp.triton.launch import backward_warp

    needs = given[-1]
    if grad.numel() and given[0].numel():
        return backward_warp(grad, _call(given), [needs[0], needs[1] or needs[2], needs[3], False])[:4]
    found = empty_gradients(given[:4], needs)
    for gradient in found:
        gradient.zero_()
    return found


forward = operator("triton_resize", f"({_COMMON}) -> Tensor", _resize, _empty, 4, keys=TRITON_KEYS)
"""As ``../cpu/op.py``'s, but that the image may be of any floating dtype."""

direct = forward
_BACKWARD = f"(Tensor grad, {_COMMON}, bool[] needs) -> (Tensor, Tensor, Tensor, Tensor)"
_FAKE = lambda _, *given: empty_gradients(given[:4], given[-1])  # noqa: E731
backward = operator("triton_resize_backward", _BACKWARD, _resize_backward, _FAKE, 5, 1, TRITON_KEYS)
