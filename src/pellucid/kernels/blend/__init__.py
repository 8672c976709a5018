"""Blend images, per sample, with rectangles of another picture or colour, or with noise.

Owns: the names `patch`, `paint`, `noise`, `noise_of`, `gaussian_field`, `means_of_blocks` and `poisson_quantile`, which pick an
implementation.
Must not: draw randomness; noise comes from words that are arguments.
Read next: ``reference.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.compilers import numba_works
from pellucid.core.tape import is_plain_eager
from pellucid.kernels.blend import cpu, reference, triton
from pellucid.kernels.blend.cpu import paint as painting
from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.dispatch import choose
from pellucid.kernels.explicit import dtypes, implementation, run
from pellucid.kernels.pixels import cells_of
from pellucid.kernels.primitive import Primitive

__all__ = ["AVAILABLE", "gaussian_field", "means_of_blocks", "noise", "noise_of", "paint", "paints", "patch", "poisson_quantile"]

AVAILABLE: tuple[str, ...] = ("cpu", "triton", "reference")


def _without_noise(image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, clip: int) -> tuple[Tensor, ...] | None:
    del image
    return None if clip else (words, torch.zeros_like(mean), torch.zeros_like(sigma))


_NOISE = {
    name: Primitive(
        "noise", lambda *given: reference.noise(*given[:-1], clip=bool(given[-1])), *operators, name, linear=_without_noise
    )
    for name, operators in {"cpu": cpu.NOISE, "triton": triton.NOISE}.items()
}
_COVER = Primitive("rectangles", reference.cover, *painting.COVER)
_FIELDS = {"cpu": cpu.FIELD, "triton": triton.FIELD}


def noise(image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, *, clip: bool = False, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.blend.reference.noise`; ``impl`` says who computes it. The field's bits are the same.

    16-bit floats are read as float32.
    """
    chosen = implementation(impl, image.device, AVAILABLE, *(() if clip else (image, words, mean, sigma)))
    if chosen == "reference":
        return reference.noise(image, words, mean, sigma, clip=clip)
    work, result = dtypes(image, mean, sigma)
    return run(_NOISE[chosen], (int(clip),), image.to(work), words, mean.to(work), sigma.to(work)).to(result)


def noise_of(image: Tensor, impl: str, *, clip: bool) -> Callable[..., Any] | None:
    """Return `noise` for floats like these as a function of memory and of words, mean and sigma; None if others compute it."""
    known = image.is_contiguous() and image.dtype in (torch.float32, torch.float64) and image.numel() > 0
    if not known or implementation(impl, image.device, AVAILABLE, image) != "cpu":
        return None
    shape = len(image), -1

    def call(flat: Any, *numbers: Any) -> Any:
        images = flat.reshape(shape)
        out = np.empty_like(images)
        cpu.add_noise(out, images, *numbers, clip=clip)
        return out

    return call


def patch(
    image: Float[Tensor, "b c h w"], box: Float[Tensor, "#b n 4"], value: Float[Tensor, "..."], *, impl: str = "auto"
) -> Float[Tensor, "b c h w"]:
    """Replace rectangles (x0, y0, x1, y1), in pixel-edge coordinates, by a colour (b or 1, c) or another image.

    Pixels cut by an edge are mixed by the share covered, so the result is continuous in the boxes; whole-pixel boxes are exact.
    Where several boxes share a pixel, their shares add up to at most 1. 16-bit floats are computed as float32.

    Gradient:
        image, value: exact. box: almost everywhere.
    """
    (work, result), given = dtypes(image, value), (image, *_covers(image, box, value))
    if not paints(impl, image.device):
        return reference.cover(*(part.to(result) for part in given))
    return run(_COVER, (), *(part.to(work) for part in given)).to(result)


def paints(impl: str, device: torch.device) -> bool:
    """Whether rectangles are painted by the compiled pass."""
    return implementation("reference" if impl == "triton" else impl, device) == "cpu"


def paint(image: Float[Tensor, "b c h w"], box: Float[Tensor, "#b n 4"], value: Float[Tensor, "..."]) -> None:
    """Do as `patch` in place, compiled and without gradients, over a dense CPU image that is the caller's own.

    The image holds float32, float64, or bytes, which are read and written as fractions of 255.
    """
    dtype = torch.float64 if image.dtype == torch.float64 else torch.float32
    down, across, values = (part.to(dtype) for part in _covers(image, box, value))
    if (cells := cells_of(image)) > 1:  # interleaved channels become columns of one plane
        across, values = across.repeat_interleave(cells, 2), values.mT.flatten(1)[:, None]
        values = values if values.shape[2] > cells else values.repeat(1, 1, image.shape[3])
        image = image.movedim(1, -1).flatten(2)[:, None]
    painting.cover_in_place(image, down, across, values)


def _covers(image: Tensor, box: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The rectangles' shares of rows and columns, and the colours that they show."""
    values = value.flatten(2) if value.dim() == 4 else value[:, :, None]
    return *reference.shares(box, (image.shape[2], image.shape[3])), values.expand(-1, image.shape[1], -1)


def gaussian_field(words: Tensor, shape: tuple[int, int, int], dtype: torch.dtype, *, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.blend.reference.gaussian_field`; ``impl`` says who computes it."""
    half = "" if dtype in (torch.float32, torch.float64) else f"noise in {dtype}"
    chosen = choose(impl, available=AVAILABLE, device=words.device.type, unsupported=half)
    if chosen == "reference":
        return reference.gaussian_field(words, shape, dtype)
    direct, operator, _ = _FIELDS[chosen]
    field: Tensor = (direct if is_plain_eager() else operator)(words, list(shape), dtype)
    return field


def poisson_quantile(rate: Float[Tensor, "*n"], field: Float[Tensor, "*n"], most: float) -> Float[Tensor, "*n"]:
    """See :func:`pellucid.kernels.blend.reference.poisson_quantile`; compiled, with the same bits, if nothing records the call."""
    if rate.dtype in (torch.float32, torch.float64) and _alone(rate) and _alone(field) and not needs_grad(rate, field):
        return cpu.poisson_counts(rate, field, reference.terms(most))
    return reference.poisson_quantile(rate, field, most)


def means_of_blocks(image: Tensor, counts: Tensor) -> Tensor | None:
    """See :func:`pellucid.kernels.blend.grain.blocks`, for counts of blocks per axis; None where only tensor code can do it."""
    known = image.dtype in (torch.uint8, torch.float32, torch.float64) and _alone(image) and _alone(counts)
    return cpu.blocks(image, counts) if known and not needs_grad(image, counts) else None


def _alone(tensor: Tensor) -> bool:
    """Whether a compiled loop may read a tensor, past torch's dispatcher."""
    return tensor.is_cpu and is_plain_eager() and type(tensor) is Tensor and numba_works()
