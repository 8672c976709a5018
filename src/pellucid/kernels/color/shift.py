"""Hue, saturation and value changed by addition, by whoever computes it.

Owns: `shift_hsv`, and what is added as rows of numbers.
Must not: compute on pixels.
Read next: ``../../color/hsv.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.color import hsv
from pellucid.kernels.color import cpu
from pellucid.kernels.color.points import staged
from pellucid.kernels.explicit import Primitive, implementation, run

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
    result = image.dtype
    for number in numbers:
        result = torch.promote_types(result, number.dtype)
    work = torch.promote_types(result, torch.float32)
    rows = torch.stack(torch.broadcast_tensors(*(number.to(work) for number in numbers)), 1)
    return run(_SHIFT, (), image.to(work), rows).to(result)


def _shifted(image: Tensor, hue: Tensor, saturation: Tensor, value: Tensor, gate: Tensor | None = None) -> Tensor:
    result = hsv.shift_hsv(image, hue, saturation, value)
    if gate is None:
        return result
    gate = gate[:, None, None, None]
    return gate * result + (1.0 - gate) * image


_SHIFT = Primitive("the shift in HSV", lambda image, rows: _shifted(image, *rows.unbind(1)), *cpu.HSV)
