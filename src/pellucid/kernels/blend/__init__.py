"""Per-sample mixing of the image with something else.

Owns: the names `patch`, `noise` and `gaussian_field`, the last two of which pick an implementation.
Must not: draw randomness; noise comes from words that are arguments.
Read next: ``reference.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.kernels.blend import cpu, reference
from pellucid.kernels.blend.reference import patch
from pellucid.kernels.dispatch import choose
from pellucid.kernels.explicit import AVAILABLE, Primitive, implementation, run

__all__ = ["AVAILABLE", "gaussian_field", "noise", "patch"]

_NOISE = Primitive(
    "noise",
    lambda image, words, mean, sigma, clip: reference.noise(image, words, mean, sigma, clip=bool(clip)),
    cpu.noise,
    cpu.noise_forward,
    cpu.noise_backward,
)


def noise(image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, *, clip: bool = False, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.blend.reference.noise`; ``impl`` says who computes it. The field's bits are the same.

    16-bit floats are read as float32.
    """
    if implementation(impl, image.device) == "reference":
        return reference.noise(image, words, mean, sigma, clip=clip)
    result = torch.promote_types(torch.promote_types(image.dtype, mean.dtype), sigma.dtype)
    work = torch.promote_types(result, torch.float32)
    return run(_NOISE, (int(clip),), image.to(work), words, mean.to(work), sigma.to(work)).to(result)


def gaussian_field(words: Tensor, shape: tuple[int, int, int], dtype: torch.dtype, *, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.blend.reference.gaussian_field`; ``impl`` says who computes it."""
    half = "" if dtype in (torch.float32, torch.float64) else f"noise in {dtype}"
    if choose(impl, available=AVAILABLE, device=words.device.type, unsupported=half) == "reference":
        return reference.gaussian_field(words, shape, dtype)
    return cpu.gaussian_field(words, shape, dtype)
