"""Hue, saturation and value changed by addition, by whoever computes it.

Owns: `shift_hsv`, and what is added as rows of numbers.
Must not: compute on pixels.
Read next: ``../../color/hsv.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.color import cpu
from pellucid.kernels.color.points import staged
from pellucid.kernels.explicit import Primitive, dtypes, implementation, run
from pellucid.kernels.stages.colour import STAGES

__all__ = ["shift_hsv"]


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
    return run(_SHIFT, (), image.to(work), rows).to(result)


def _shifted(image: Tensor, *numbers: Tensor) -> Tensor:
    return STAGES["hsv" if len(numbers) == 3 else "gated_hsv"].reference(image, *numbers)


_SHIFT = Primitive("the shift in HSV", lambda image, rows: _shifted(image, *rows.unbind(1)), *cpu.HSV)
