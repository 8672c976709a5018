"""Blend several warped reads of a batch over one another.

Owns: `layers`, which picks an implementation.
Must not: know which samples are partners, or what for.
Read next: ``reference.py``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor

from pellucid.kernels.explicit import implementation, run
from pellucid.kernels.layers import cpu, reference
from pellucid.kernels.nearest import read
from pellucid.kernels.primitive import Primitive

__all__ = ["layers"]


def layers(
    image: Shaped[Tensor, "b c h w"],
    offset: Int64[Tensor, "b k"],
    opacity: Float[Tensor, "b k"],
    box: Float[Tensor, "b k 4"] | None,
    src_from_dst: Float[Tensor, "b k 2 3"] | None,
    plane: Float[Tensor, "b h w"] | None = None,
    *,
    ground: tuple[float, ...],
    covers: bool = False,
    edge: float = 0.0,
    dtype: torch.dtype | None = None,
    interpolation: str = "bilinear",
    impl: str = "auto",
) -> Shaped[Tensor, "b c h w"]:
    """See :func:`pellucid.kernels.layers.reference.layers`; ``impl`` says who computes it.

    The compiled pass blends pictures, one read after another while a row is in the cache. Labels, and reads that are not bilinear,
    are blended by the reference, which reads by the compiled warp; likewise all of Triton's.
    """
    work = torch.promote_types(torch.promote_types(image.dtype, opacity.dtype), torch.float32)
    opacity = opacity.to(work)
    box, src_from_dst, plane = (None if part is None else part.to(work) for part in (box, src_from_dst, plane))
    pictures = dtype is not None and image.is_cpu and impl != "triton" and (interpolation == "bilinear" or src_from_dst is None)
    if pictures and implementation(impl, image.device) == "cpu":
        table = (
            part if part is None else part.expand(len(image), *part.shape[1:])
            for part in (offset, opacity, box, src_from_dst, plane)
        )
        source = image if dtype != torch.uint8 else image.detach()
        rest = (part if part is None or dtype != torch.uint8 else part.detach() for part in table)
        return run(_LAYERS, (list(ground), covers, edge, dtype), source, *rest)
    options: dict[str, Any] = {"ground": ground, "covers": covers, "edge": edge, "dtype": dtype, "interpolation": interpolation}
    return reference.layers(image, offset, opacity, box, src_from_dst, plane, **options, resample=partial(read, impl=impl))


def _again(image: Tensor, *given: Any) -> Tensor:
    """Compute by the reference what the compiled layers compute: for second derivatives."""
    *table, ground, covers, edge, dtype = given
    return reference.layers(image, *table, ground=tuple(ground), covers=covers, edge=edge, dtype=dtype)


_LAYERS = Primitive("layers", _again, *cpu.LAYERS)
