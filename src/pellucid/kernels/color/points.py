"""Stages of colour as passes of their own on CUDA: each by its printed text.

Owns: `staged`, its operator with gradients, and its numbers as rows.
Must not: compute on pixels, or import Triton before an operator runs.
Read next: ``triton/points.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.explicit import TRITON_KEYS, Primitive, dtypes, register, run
from pellucid.kernels.stages.colour import STAGES

__all__ = ["staged"]

_NAMES = tuple(STAGES)


def staged(name: str, image: Float[Tensor, "b c h w"], *numbers: Float[Tensor, "#b"]) -> Float[Tensor, "b c h w"]:
    """A stage, by its name in ``../stages/colour.py``, of numbers per sample; 16-bit floats are read as float32."""
    work, result = dtypes(image, *numbers)
    rows = torch.stack(torch.broadcast_tensors(*(number.to(work) for number in numbers)), 1)
    return run(_STAGE, (_NAMES.index(name),), image.to(work), rows).to(result)


def _fill(out: Tensor, image: Tensor, numbers: Tensor, stage: int) -> None:
    from pellucid.kernels.color.triton.points import forward

    forward(_NAMES[stage], len(STAGES[_NAMES[stage]].pixels), image.contiguous(), numbers.contiguous(), out)


def _back(found: list[Tensor], grad: Tensor, image: Tensor, numbers: Tensor, stage: int, needs: list[bool]) -> None:
    from pellucid.kernels.color.triton.points import backward

    channels, given = len(STAGES[_NAMES[stage]].pixels), (grad.contiguous(), image.contiguous(), numbers.contiguous())
    sums = backward(_NAMES[stage], channels, *given, found[0])
    if needs[1]:
        found[1] = sums


def _again(image: Tensor, numbers: Tensor, stage: int) -> Tensor:
    return STAGES[_NAMES[stage]].reference(image, *numbers.unbind(1))


_OPERATORS = register("triton_stage", "Tensor image, Tensor numbers, int stage", _fill, _back, TRITON_KEYS, through=True)
_STAGE = Primitive("a stage of colour", _again, *_OPERATORS, "triton")
