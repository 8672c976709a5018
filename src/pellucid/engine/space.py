"""Execute maps of volumes: resample voxels, and give the maps that points go through.

Owns: a pass over volumes, forwards and backwards, computing a block of it only, and the hops of points.
Must not: know kinds of targets.
Read next: ``execution.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.constants import constant, wide_dtype
from pellucid.engine.lowering import Lowered
from pellucid.engine.passes import compute_dtype, in_units
from pellucid.engine.plan import Group, Space
from pellucid.geometry.space import Bent3, follow3, inverse4, voxel_centres
from pellucid.kernels.conversion import as_bytes
from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.volume import Block, Window, block_of, majority, volume
from pellucid.segments import Warp3Spec
from pellucid.types import Size3

__all__ = ["apply_space", "blocks_of", "field_through", "hops_in_space", "total_in_space", "unwarp_volume"]


def apply_space(
    run: Space, lowered: Lowered, image: Shaped[Tensor, "b c dh w"], scale: float, impl: str, dtype: torch.dtype
) -> Shaped[Tensor, "b c dh2 w2"]:
    """Apply a pass to volumes, whose slices lie one below another."""
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
    """Apply only the geometry of a pass to a field: labels, integers of any dtype, or floating-point numbers."""
    own = _spec(lowered, run).mask_fill if masks and run.outside is not None else None
    if interpolation == "majority":
        return _elected(run, lowered, field, fill if own is None else own, padding_mode, impl)
    how = "nearest" if interpolation == "nearest" else "trilinear"
    narrow = field.is_floating_point() or field.element_size() < 3  # float32 holds 16-bit integers exactly, float64 larger labels
    work = field if how == "nearest" else field.to(compute_dtype(field.dtype) if narrow else torch.float64)
    return _read(run, lowered, work, how, (fill if own is None else own,), padding_mode, impl).to(field.dtype)


def _elected(run: Space, lowered: Lowered, labels: Tensor, fill: float, padding_mode: str | None, impl: str) -> Tensor:
    """Resample labels by majority. The kernel counts the outside as 0, so labels are XORed with the fill before and after."""
    maps, control, window = _maps(run, lowered)
    mode = "border" if run.outside is None else padding_mode or _spec(lowered, run).padding_mode
    covered, block = [1.0, 1.0, 1.0], (lowered.blocks or {}).get(run)
    for index in run.indices:
        spec = lowered.plan.segments[index]
        assert isinstance(spec, Warp3Spec)
        if spec.resamples:  # other steps keep the size of voxels
            covered = [a * b / c for a, b, c in zip(covered, lowered.plan.specs[index].extent, spec.size, strict=True)]
    deep, tall, wide = (max(1, math.ceil(share - 1e-9)) for share in covered)
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[labels.itemsize]
    outside = torch.full((), fill, dtype=labels.dtype, device=labels.device).view(bits)
    how: dict[str, Any] = {"size": run.size_out, "points": (deep, tall, wide), "border": mode == "border", "impl": impl}
    inside = (labels.contiguous().view(bits) ^ outside).unflatten(2, _rows(run, block))
    found = majority(inside, maps, control, window=window, block=block, **how).flatten(2, 3)
    return (found ^ outside).view(labels.dtype)


def _maps(run: Space, lowered: Lowered) -> tuple[Tensor, Tensor | None, Window | None]:
    """Return a pass in the kernel's form: its map, its field, and the window after the field."""
    (step, lattice), *windows = lowered.space(run)
    if not windows:
        return step.src_from_dst[:, :3], step.control, None
    after = windows[0][0].src_from_dst
    return (step.src_from_dst @ after)[:, :3], step.control, (after[:, :3, 3], lattice)


def _rows(run: Space, block: Block | None) -> tuple[int, int]:
    return (run.size_in if block is None else block.held)[:2]


def blocks_of(
    groups: Sequence[Group], lowered: Lowered, first: Size3, size: Size3
) -> tuple[dict[Space, Block], tuple[Size3, Size3]]:
    """Return the block that each of these passes computes for a part of their result, and the part that the first pass reads."""
    found = {}
    for group in reversed(groups):
        if isinstance(group, Space):
            maps, control, window = _maps(group, lowered)
            block = block_of(first, size, group.size_in, maps, control, size=group.size_out, window=window)
            found[group], first, size = block, block.corner, block.held
    return found, (first, size)


def _read(
    run: Space, lowered: Lowered, voxels: Tensor, interpolation: str, fill: tuple[float, ...], padding_mode: str | None, impl: str
) -> Tensor:
    (step, lattice), *windows = lowered.space(run)
    maps, control, window = _maps(run, lowered)
    block = (lowered.blocks or {}).get(run)
    mode = "border" if run.outside is None else padding_mode or _spec(lowered, run).padding_mode
    nearest = interpolation == "nearest" or not (run.resamples or needs_grad(maps))
    filled = mode == "zeros" and any(fill)
    if filled:  # the kernel fills with zeros; a channel of ones gives the share of each voxel that is inside
        voxels = torch.cat((voxels, torch.ones_like(voxels[:, :1])), 1)
    how: dict[str, Any] = {"border": mode == "border", "nearest": nearest, "impl": impl}
    voxels = voxels.unflatten(2, _rows(run, block))
    if window is not None and block is None and needs_grad(window[0]):  # the kernel has no gradient to a window
        voxels = volume(voxels, step.src_from_dst[:, :3], control, size=lattice, **how)
        maps, control, window = windows[0][0].src_from_dst[:, :3], None, None
    found = volume(voxels, maps, control, size=run.size_out, window=window, block=block, **how).flatten(2, 3)
    if not filled:
        return found
    shown = constant(fill, wide_dtype(voxels.device), voxels.device).reshape(-1, 1, 1)
    if nearest:
        return torch.where(found[:, -1:] != 0, found[:, :-1], shown.to(found.dtype))
    return found[:, :-1] + (1.0 - found[:, -1:]) * shown.to(found.dtype)


def _spec(lowered: Lowered, run: Space) -> Warp3Spec:
    spec = lowered.plan.segments[run.indices[-1] if run.outside is None else run.outside]
    assert isinstance(spec, Warp3Spec)
    return spec


def hops_in_space(lowered: Lowered) -> list[tuple[Tensor | Bent3, Size3]]:
    """Return the hops of volumes: the map back from the next volume, and its size; under the canvas rule ``image`` one per pass."""
    plan, found = lowered.plan, []
    runs = [group for group in plan.groups if isinstance(group, Space)]
    if plan.canvas != "image":
        runs = [replace(run, indices=(i,)) for run in runs for i in run.indices]
    for (matrix, field), size in (part for run in runs for part in lowered.space(run)):
        found.append((matrix if field is None else Bent3(matrix, field, size), size))
    return found


def total_in_space(lowered: Lowered) -> Float[Tensor, "b 4 4"]:
    """Return the map from output voxel to input voxel across the whole plan, without fields."""
    like = torch.eye(4, dtype=wide_dtype(lowered.device), device=lowered.device)[None]
    return reduce(torch.matmul, (step if isinstance(step, Tensor) else step.matrix for step, _ in hops_in_space(lowered)), like)


def unwarp_volume(
    lowered: Lowered, image: Shaped[Tensor, "b c dh w"], *, interpolation: str, impl: str
) -> Shaped[Tensor, "b c dh2 w2"]:
    """Resample volumes back to the input in one pass, in their own dtype (integers are rounded); zero where they were cut off."""
    size_in, size_out = (cast(Size3, spec.extent) for spec in (lowered.plan.specs[0], lowered.plan.specs[-1]))
    narrow = image.is_floating_point() or image.element_size() < 3
    work = image.to(compute_dtype(image.dtype) if narrow else torch.float64)
    back = inverse4(total_in_space(lowered))
    nearest = interpolation == "nearest"
    path = [(inverse4(step) if isinstance(step, Tensor) else step.turned(), size) for step, size in hops_in_space(lowered)]
    work, bends = work.unflatten(2, size_out[:2]), bool(lowered.plan.bends)
    if bends or len(path) > 1:
        places, seen = follow3(voxel_centres(size_in, back).expand(len(work), -1, 3), path)
    if bends:
        found = _at(work, torch.where(seen[..., None], places, -2.0).unflatten(1, size_in), nearest)
    else:
        found = volume(work, back[:, :3], size=size_in, nearest=nearest, impl=impl)
    if len(path) > 1:
        found = torch.where(seen.unflatten(1, size_in)[:, None], found, 0.0)
    found = found.flatten(2, 3)
    return found if image.is_floating_point() else found.round().to(image.dtype)


def _at(image: Float[Tensor, "b c d h w"], places: Float[Tensor, "b d2 h2 w2 3"], nearest: bool) -> Float[Tensor, "b c d2 h2 w2"]:
    """Sample volumes at points (x, y, z)."""
    ends = torch.tensor(tuple(reversed(image.shape[2:])), dtype=places.dtype, device=places.device)
    grid = ((2.0 * places + 1.0) / ends - 1.0).to(image.dtype)
    return F.grid_sample(image, grid, mode="nearest" if nearest else "bilinear", padding_mode="zeros", align_corners=False)
