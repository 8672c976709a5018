"""Maps of volumes, executed: voxels, and what points go through.

Owns: a pass over volumes, forwards and backwards, and the hops of their points.
Must not: know kinds of targets.
Read next: ``execution.py``.
"""

from __future__ import annotations

from functools import reduce
from typing import cast

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.constants import constant, wide_dtype
from pellucid.engine.lowering import Lowered
from pellucid.engine.passes import compute_dtype, in_units
from pellucid.engine.plan import Space
from pellucid.geometry.space import follow3, inverse4, voxel_centres
from pellucid.kernels.conversion import as_bytes
from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.volume import volume
from pellucid.segments import Warp3, Warp3Spec
from pellucid.types import Size3

__all__ = ["apply_space", "field_through", "hops_in_space", "total_in_space", "unwarp_volume"]


def apply_space(
    run: Space, lowered: Lowered, image: Shaped[Tensor, "b c dh w"], scale: float, impl: str, dtype: torch.dtype
) -> Shaped[Tensor, "b c dh2 w2"]:
    """A pass over volumes, whose slices lie one below another."""
    fill = _spec(lowered, run).fill if run.outside is not None else 0.0
    units = tuple(number / scale for number in (fill if isinstance(fill, tuple) else (fill,)))
    return as_bytes(_read(run, lowered, in_units(image), run.interpolation, units, None, impl), dtype)


def field_through(
    run: Space,
    lowered: Lowered,
    field: Shaped[Tensor, "b c dh w"],
    *,
    interpolation: str,
    padding_mode: str | None,
    fill: float,
    masks: bool,
    impl: str,
) -> Shaped[Tensor, "b c dh2 w2"]:
    """The same for what goes through geometry alone: labels, whole numbers of any dtype, or other floating-point numbers."""
    own = _spec(lowered, run).mask_fill if masks and run.outside is not None else None
    narrow = field.is_floating_point() or field.element_size() < 3  # float32 counts 16 bits, float64 what labels are
    work = field.to(compute_dtype(field.dtype) if narrow else torch.float64)
    how = "nearest" if interpolation == "nearest" else "trilinear"
    return _read(run, lowered, work, how, (fill if own is None else own,), padding_mode, impl).to(field.dtype)


def _read(
    run: Space, lowered: Lowered, voxels: Tensor, interpolation: str, fill: tuple[float, ...], padding_mode: str | None, impl: str
) -> Tensor:
    maps, field = lowered.space(run)
    mode = padding_mode or (_spec(lowered, run).padding_mode if run.outside is not None else "border")
    nearest = interpolation == "nearest" or not (run.resamples or needs_grad(maps))
    shown = None
    if mode == "zeros" and any(fill):  # the kernel shows zeros
        shown = constant(fill, voxels.dtype, voxels.device).reshape(-1, 1, 1)
        voxels = voxels - shown
    found = volume(
        voxels.unflatten(2, run.size_in[:2]),
        maps[:, :3].to(voxels.dtype),
        None if field is None else field.to(voxels.dtype),
        size=run.size_out,
        border=mode == "border",
        nearest=nearest,
        impl=impl,
    ).flatten(2, 3)
    return found if shown is None else found + shown


def _spec(lowered: Lowered, run: Space) -> Warp3Spec:
    spec = lowered.plan.segments[run.indices[-1] if run.outside is None else run.outside]
    assert isinstance(spec, Warp3Spec)
    return spec


def hops_in_space(lowered: Lowered) -> list[tuple[Tensor, Size3]]:
    """From volume to volume: the map to the one from the next, and its size; under the canvas rule ``image`` pass by pass."""
    plan, found = lowered.plan, []
    runs = [group.indices for group in plan.groups if isinstance(group, Space)]
    for indices in runs if plan.canvas == "image" else [(i,) for run in runs for i in run]:
        segments = [segment for segment in map(lowered.segment, indices) if isinstance(segment, Warp3)]
        spec = plan.segments[indices[-1]]
        assert isinstance(spec, Warp3Spec)
        found.append((reduce(torch.matmul, (segment.src_from_dst for segment in segments)), spec.size))
    return found


def total_in_space(lowered: Lowered) -> Float[Tensor, "b 4 4"]:
    """Output voxel to input voxel across the whole plan, fields left aside."""
    like = torch.eye(4, dtype=wide_dtype(lowered.device), device=lowered.device)[None]
    return reduce(torch.matmul, (step for step, _ in hops_in_space(lowered)), like)


def unwarp_volume(
    lowered: Lowered, image: Shaped[Tensor, "b c dh w"], *, interpolation: str, impl: str
) -> Shaped[Tensor, "b c dh2 w2"]:
    """Read volumes back, in one resample; what a step had cut off is zero. Of the dtype that came, whole numbers rounded."""
    size_in, size_out = (cast(Size3, spec.extent) for spec in (lowered.plan.specs[0], lowered.plan.specs[-1]))
    narrow = image.is_floating_point() or image.element_size() < 3
    work = image.to(compute_dtype(image.dtype) if narrow else torch.float64)
    back = inverse4(total_in_space(lowered))
    nearest = interpolation == "nearest"
    found = volume(work.unflatten(2, size_out[:2]), back[:, :3].to(work.dtype), size=size_in, nearest=nearest, impl=impl)
    path = [(inverse4(step), size) for step, size in hops_in_space(lowered)]
    if len(path) > 1:
        seen = follow3(voxel_centres(size_in, back).expand(len(back), -1, 3), path)[1]
        found = torch.where(seen.unflatten(1, size_in)[:, None], found, 0.0)
    found = found.flatten(2, 3)
    return found if image.is_floating_point() else found.round().to(image.dtype)
