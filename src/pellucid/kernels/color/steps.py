"""The step-by-step jitter, by whoever computes it.

Owns: `jitter_steps`, and the factors as rows of numbers.
Must not: compute on pixels.
Read next: ``reference.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.kernels.color import cpu, reference, triton
from pellucid.kernels.explicit import Primitive, dtypes, implementation, run

__all__ = ["jitter_steps"]

_NAMES = ("brightness", "contrast", "saturation", "hue")


def jitter_steps(image: Tensor, order: Tensor | None, factors: Mapping[str, Tensor], *, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.color.reference.jitter_steps`; ``impl`` says who computes it (16-bit floats as float32)."""
    chosen = implementation(impl, image.device, ("cpu", "triton", "reference"))
    if chosen == "reference" or not factors or ("hue" in factors and image.shape[1] != 3):
        return reference.jitter_steps(image, order, factors)
    work, result = dtypes(image, *factors.values())
    absent = torch.zeros((1,), dtype=work, device=image.device)
    rows = torch.stack(torch.broadcast_tensors(*(factors.get(name, absent).to(work) for name in _NAMES)), 1)
    order = constant((0, 1, 2, 3), torch.int64, image.device)[None] if order is None else order
    present = sum(1 << number for number, name in enumerate(_NAMES) if name in factors)
    return run(_STEPS[chosen], (present,), image.to(work), order, rows).to(result)


def _again(image: Tensor, order: Tensor, factors: Tensor, present: int) -> Tensor:
    named = {name: factors[:, number] for number, name in enumerate(_NAMES) if present >> number & 1}
    return reference.jitter_steps(image, order, named)


_STEPS = {
    name: Primitive("the step-by-step jitter", _again, *operators, name)
    for name, operators in {"cpu": cpu.JITTER, "triton": triton.JITTER}.items()
}
