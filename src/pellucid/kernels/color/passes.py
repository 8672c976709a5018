"""Stages of colour as passes of their own, with a choice of implementation.

Owns: `jitter_steps`, `shift_hsv`, and `staged`, any stage on CUDA by its printed text; their numbers as rows.
Must not: compute on pixels, or import Triton before an operator runs.
Read next: ``reference.py``, ``triton/points.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.kernels.color import cpu, reference, triton
from pellucid.kernels.explicit import TRITON_KEYS, dtypes, implementation, register, run
from pellucid.kernels.primitive import Primitive
from pellucid.kernels.stages.colour import STAGES

__all__ = ["jitter_steps", "shift_hsv", "staged"]

_NAMES = tuple(STAGES)


def staged(name: str, image: Float[Tensor, "b c h w"], *numbers: Float[Tensor, "#b"]) -> Float[Tensor, "b c h w"]:
    """Run a stage, by its name in ``../stages/colour.py``, with numbers per sample; 16-bit floats are read as float32."""
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


def _restaged(image: Tensor, numbers: Tensor, stage: int) -> Tensor:
    return STAGES[_NAMES[stage]].reference(image, *numbers.unbind(1))


_OPERATORS = register("triton_stage", "Tensor image, Tensor numbers, int stage", _fill, _back, TRITON_KEYS, through=True)
_STAGE = Primitive("a stage of colour", _restaged, *_OPERATORS, "triton")


def shift_hsv(
    image: Float[Tensor, "b 3 h w"],
    hue: Float[Tensor, "#b"],
    saturation: Float[Tensor, "#b"],
    value: Float[Tensor, "#b"],
    gate: Float[Tensor, "#b"] | None = None,
    *,
    impl: str = "auto",
) -> Float[Tensor, "b 3 h w"]:
    """See :func:`pellucid.color.hsv.shift_hsv`; where the gate is 0, the image as it is. 16-bit floats are read as float32.

    Args:
        image: floats, or on the CPU bytes, for the compiled pass, which rounds what it writes.
        impl: who computes it.
    """
    numbers = (hue, saturation, value) if gate is None else (hue, saturation, value, gate)
    chosen = implementation(impl, image.device, ("cpu", "triton", "reference"))
    if chosen == "reference" or image.shape[1] != 3:
        return _shifted(image, *numbers)
    if chosen == "triton":
        return staged("gated_hsv", image, hue, saturation, value, torch.ones_like(value) if gate is None else gate)
    work, result = dtypes(image, *numbers)
    rows = torch.stack(torch.broadcast_tensors(*(number.to(work) for number in numbers)), 1)
    if image.dtype == torch.uint8:
        return run(_SHIFT, (), image, rows)
    return run(_SHIFT, (), image.to(work), rows).to(result)


def _shifted(image: Tensor, *numbers: Tensor) -> Tensor:
    return STAGES["hsv" if len(numbers) == 3 else "gated_hsv"].reference(image, *numbers)


_SHIFT = Primitive("the shift in HSV", lambda image, rows: _shifted(image, *rows.unbind(1)), *cpu.HSV)


_FACTORS = ("brightness", "contrast", "saturation", "hue")


def jitter_steps(image: Tensor, order: Tensor | None, factors: Mapping[str, Tensor], *, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.color.reference.jitter_steps`; ``impl`` says who computes it (16-bit floats as float32)."""
    chosen = implementation(impl, image.device, ("cpu", "triton", "reference"))
    if chosen == "reference" or not factors or ("hue" in factors and image.shape[1] != 3):
        return reference.jitter_steps(image, order, factors)
    work, result = dtypes(image, *factors.values())
    absent = torch.zeros((1,), dtype=work, device=image.device)
    rows = torch.stack(torch.broadcast_tensors(*(factors.get(name, absent).to(work) for name in _FACTORS)), 1)
    order = constant((0, 1, 2, 3), torch.int64, image.device)[None] if order is None else order
    present = sum(1 << number for number, name in enumerate(_FACTORS) if name in factors)
    return run(_JITTER[chosen], (present,), image.to(work), order, rows).to(result)


def _stepped(image: Tensor, order: Tensor, factors: Tensor, present: int) -> Tensor:
    named = {name: factors[:, number] for number, name in enumerate(_FACTORS) if present >> number & 1}
    return reference.jitter_steps(image, order, named)


_JITTER = {
    name: Primitive("the step-by-step jitter", _stepped, *operators, name)
    for name, operators in {"cpu": cpu.JITTER, "triton": triton.JITTER}.items()
}
