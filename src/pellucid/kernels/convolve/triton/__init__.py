"""The separable filter for CUDA devices: a pass for each axis, no padded copy; the adjoint gathers.

Owns: the operator `SEPARABLE`, with its gradients, on contiguous memory of one dtype.
Must not: know about autograd, or import Triton before an operator runs.
Read next: ``kernels.py``.
"""

from torch import Tensor

from pellucid.kernels.explicit import TRITON_KEYS, register

__all__ = ["SEPARABLE"]


def _fill(out: Tensor, image: Tensor, vertical: Tensor, horizontal: Tensor) -> None:
    from pellucid.kernels.convolve.triton.kernels import along

    along(along(image.contiguous(), horizontal.contiguous(), across=True), vertical.contiguous(), across=False, out=out)


def _back(found: list[Tensor], grad: Tensor, image: Tensor, vertical: Tensor, horizontal: Tensor, needs: list[bool]) -> None:
    from pellucid.kernels.convolve.triton.kernels import along, back_along, sums_along

    image, grad, vertical, horizontal = (tensor.contiguous() for tensor in (image, grad, vertical, horizontal))
    if needs[1]:
        found[1] = sums_along(grad, along(image, horizontal, across=True), vertical.shape[1], across=False)
    if needs[0] or needs[2]:
        grad = back_along(grad, vertical, across=False)
    if needs[2]:
        found[2] = sums_along(grad, image, horizontal.shape[1], across=True)
    if needs[0]:
        back_along(grad, horizontal, across=True, out=found[0])


SEPARABLE = register("triton_separable", "Tensor image, Tensor vertical, Tensor horizontal", _fill, _back, TRITON_KEYS)
