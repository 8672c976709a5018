"""Per-sample mixing of the image with something else.

Owns: the names `patch`, `noise` and `gaussian_field`, the last two of which pick an implementation.
Must not: draw randomness; noise comes from words that are arguments.
Read next: ``reference.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.kernels.blend import cpu, reference, triton
from pellucid.kernels.blend.reference import patch
from pellucid.kernels.dispatch import choose
from pellucid.kernels.explicit import Primitive, implementation, run

__all__ = ["AVAILABLE", "gaussian_field", "noise", "patch"]

AVAILABLE: tuple[str, ...] = ("cpu", "triton", "reference")


def _again(image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, clip: int) -> Tensor:
    return reference.noise(image, words, mean, sigma, clip=bool(clip))


def _without_noise(image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, clip: int) -> tuple[Tensor, ...] | None:
    del image
    return None if clip else (words, torch.zeros_like(mean), torch.zeros_like(sigma))


_NOISE = {
    name: Primitive("noise", _again, *computes, name, linear=_without_noise)
    for name, computes in {
        "cpu": (cpu.noise, cpu.noise_forward, cpu.noise_backward),
        "triton": (triton.noise_forward, triton.noise_forward, triton.noise_backward),
    }.items()
}
_FIELDS = {"cpu": cpu.gaussian_field, "triton": triton.gaussian_field, "reference": reference.gaussian_field}


def noise(image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, *, clip: bool = False, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.blend.reference.noise`; ``impl`` says who computes it. The field's bits are the same.

    16-bit floats are read as float32.
    """
    chosen = implementation(impl, image.device, AVAILABLE, *(() if clip else (image, words, mean, sigma)))
    if chosen == "reference":
        return reference.noise(image, words, mean, sigma, clip=clip)
    result = torch.promote_types(torch.promote_types(image.dtype, mean.dtype), sigma.dtype)
    work = torch.promote_types(result, torch.float32)
    return run(_NOISE[chosen], (int(clip),), image.to(work), words, mean.to(work), sigma.to(work)).to(result)


def gaussian_field(words: Tensor, shape: tuple[int, int, int], dtype: torch.dtype, *, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.blend.reference.gaussian_field`; ``impl`` says who computes it."""
    half = "" if dtype in (torch.float32, torch.float64) else f"noise in {dtype}"
    return _FIELDS[choose(impl, available=AVAILABLE, device=words.device.type, unsupported=half)](words, shape, dtype)
