"""The antialiased resize for CUDA devices: the warp's kernels, which then read all pixels that an output pixel spans.

Owns: its operators: `forward` (also as `direct`: there is nothing to gain past torch's dispatcher) and `backward`.
Must not: fall back, know about gradients, or import Triton before an operator runs.
Read next: ``../../warp/triton/axes.py``.
"""

from typing import Any

from torch import Tensor

from pellucid.kernels.explicit import TRITON_KEYS
from pellucid.kernels.warp.operators import Gradients, define_pass, empty_result, no_gradients

__all__ = ["backward", "direct", "forward"]


def _call(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of the warp's launchers, without a field and canvases."""
    return *given[:4], None, None, None, *given[4:7], True


def _resize(*given: Any) -> Tensor:
    from pellucid.kernels.warp.triton.launch import forward_warp

    out = empty_result(given[0], *given[4:])
    if out.numel():
        forward_warp(out, _call(given))
    return out


def _resize_backward(grad: Tensor, *given: Any) -> Gradients:
    from pellucid.kernels.warp.triton.launch import backward_warp

    needs = given[-1]
    if grad.numel() and given[0].numel():
        return backward_warp(grad, _call(given), [needs[0], needs[1] or needs[2], needs[3], False])[:4]
    return no_gradients(given[:4], needs)


_TENSORS = "Tensor image, Tensor mapping, Tensor window, Tensor params"
forward, backward = define_pass("triton_resize", _TENSORS, _resize, _resize_backward, TRITON_KEYS)
"""As ``../cpu/op.py``'s, but that the image may be of any floating dtype."""

direct = forward
