"""The chain of clipped colour steps for CUDA devices: one pass forward and one back, two where the contrast's mean is needed.

Owns: the operator `JITTER` with its gradients, on contiguous memory of one dtype.
Must not: know about autograd, or import Triton before an operator runs.
Read next: ``kernels.py``.
"""

from typing import Any

from torch import Tensor

from pellucid.kernels.explicit import TRITON_KEYS, register

__all__ = ["JITTER"]


def _fill(out: Tensor, *given: Any) -> None:
    from pellucid.kernels.color.triton.kernels import steps

    steps(out, *given)


def _back(
    found: list[Tensor], grad: Tensor, image: Tensor, order: Tensor, factors: Tensor, present: int, needs: list[bool]
) -> None:
    from pellucid.kernels.color.triton.kernels import gradients

    sums = gradients(grad, image, order, factors, present, found[0])
    if needs[2]:
        found[2] = sums


JITTER = register(
    "triton_jitter_steps", "Tensor image, Tensor order, Tensor factors, int present", _fill, _back, TRITON_KEYS, through=True
)
