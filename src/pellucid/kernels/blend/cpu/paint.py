"""Paint rectangles over pictures, compiled: only pixels that they cover are read and written.

Owns: the operator `COVER` with its gradients, and `cover_in_place`.
Must not: know about autograd, or import Numba before an operator runs.
Read next: ``holes.py``.
"""

from typing import Any

import numpy as np
from torch import Tensor

from pellucid.kernels.explicit import add_up, register
from pellucid.kernels.threads import run_loop

__all__ = ["COVER", "cover_in_place"]

_BYTES = 1 << 19  # the fewest worth handing to another thread


def _fill(out: Tensor, image: Tensor, *given: Tensor) -> None:
    out.copy_(image)
    cover_in_place(out, *given)


def cover_in_place(image: Tensor, down: Tensor, across: Tensor, values: Tensor) -> None:
    """See :func:`pellucid.kernels.blend.reference.cover`, over a contiguous image that is the caller's own.

    ``values`` may also hold one row, which all rows share.
    """
    from pellucid.kernels.blend.cpu.holes import paint

    if not image.numel():
        return
    planes, width = _planes(image), image.shape[3]
    pitch = width if values.shape[2] > width else 0
    run_loop(paint, len(planes), _BYTES // planes[0].nbytes + 1, *_arrays(image, down, across, values), pitch, planes)


def _back(
    found: list[Tensor], grad: Tensor, image: Tensor, down: Tensor, across: Tensor, values: Tensor, needs: list[bool]
) -> None:
    from pellucid.kernels.blend.cpu.holes import back

    found[0].copy_(grad)
    into, asked = _planes(found[0]), (needs[1] or needs[2], needs[3])
    sums = [
        np.zeros((len(into) if ask else 0, *shape))
        for ask, shape in zip((asked[0], *asked), (down.shape[1:], across.shape[1:], values.shape[2:]), strict=True)
    ]
    given = _planes(grad.contiguous()), _planes(image.contiguous()), *_arrays(image, down, across, values)
    run_loop(back, len(into), _BYTES // into[0].nbytes + 1, *given, into, *sums, asked)
    for total, gradient in zip(sums, found[1:], strict=True):
        add_up(total, gradient)


def _planes(tensor: Tensor) -> Any:
    return tensor.view(tensor.shape[0] * tensor.shape[1], -1).numpy()


def _arrays(image: Tensor, down: Tensor, across: Tensor, values: Tensor) -> tuple[Any, ...]:
    rows = (tensor.contiguous().numpy() for tensor in (down, across, values))
    return *rows, int(values.shape[2] > 1), image.shape[1], image.shape[3]


COVER = register("cpu_cover", "Tensor image, Tensor down, Tensor across, Tensor values", _fill, _back, through=True)
"""See :func:`pellucid.kernels.blend.reference.cover`; all of one dtype, float32 or float64."""
