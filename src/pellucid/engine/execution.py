"""Execute a plan: apply its passes to pixels and fields, and give the maps that boxes and points go through.

Owns: the order of passes, and which passes each kind of target goes through.
Must not: draw, parse user input, or decide what is fused (the plan did).
Read next: ``../targets/parsing.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import pairwise
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor

from pellucid.core.constants import constant, wide_dtype
from pellucid.core.tape import is_plain_eager
from pellucid.engine.cells import cell_by_cell
from pellucid.engine.lowering import Lowered, Openings, keeps_levels, operations_of, paints_rectangles
from pellucid.engine.lowering.compose import Geometry, unmoved
from pellucid.engine.overlays import Overlay, goes_along
from pellucid.engine.passes import apply_alone, compute_dtype, in_units, look_up, paint
from pellucid.engine.plan import Canvas, Group, Part, Run, Single, Space, sources
from pellucid.engine.space import apply_space, field_through, hops_in_space, total_in_space
from pellucid.engine.sparse import apply_sparsely, is_new
from pellucid.errors import invalid
from pellucid.geometry.bends import Bend, BentMap
from pellucid.geometry.paths import Hop
from pellucid.geometry.rectangles import cover
from pellucid.geometry.space import turned
from pellucid.kernels import blend, bytewise, color
from pellucid.kernels.conversion import as_bytes, in_levels
from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.layers import layers
from pellucid.kernels.nearest import nearest, read
from pellucid.kernels.pixels import copy_of, in_planes
from pellucid.kernels.resize import resize, settled, settles
from pellucid.kernels.several import Pictures
from pellucid.kernels.warp import Link, Resample, implementation, pack, warp
from pellucid.kernels.warp.packing import canvas_kind, unpack
from pellucid.kernels.warp.taps import FILLED_MODES
from pellucid.segments import BlendSpec, Cells, Layers, LayerSpec, Mixture, Patch, Warp, WarpSpec
from pellucid.transforms.mixture import Mixture as MixtureTransform
from pellucid.types import ImageSpec, Size

__all__ = [
    "apply_field", "apply_image", "backwards", "forwards", "hops", "hops_before", "shown", "stretches",
    "total_src_from_dst", "unwarp",
]  # fmt: skip

BackHop: TypeAlias = tuple[Tensor | BentMap, Size]
"""The map from a canvas back to the one before, and the (height, width) of the canvas."""


def hops(lowered: Lowered) -> list[BackHop]:
    """Return the hops across the whole plan, canvas by canvas: the map back from the next canvas, and its (height, width).

    Canvases that no later step can show the outside of are left out. The hops do not depend on which steps the plan fuses.
    """
    plan = lowered.plan
    if plan.volumes:
        return hops_in_space(lowered)  # type: ignore[return-value] # sizes of three numbers
    total = total_src_from_dst(lowered)
    if len(plan.hops) == 1 and not plan.bends:
        assert total is not None
        return [(total, plan.size_out)]
    return [_hop(lowered, indices) for indices in plan.hops]


def hops_before(lowered: Lowered, index: int) -> list[BackHop]:
    """Return the hops from the input to the canvas that a step reads."""
    parts = (tuple(i for i in indices if i < index) for indices in lowered.plan.hops)
    return [_hop(lowered, part) for part in parts if part]


def stretches(lowered: Lowered) -> list[list[BackHop] | int]:
    """Return the result of `hops`, split at layers and at holes that hide boxes: lists of hops, and between them the numbers of
    these steps.
    """
    plan, hiding = lowered.plan, lowered.plan.hiding
    if not plan.moving_layers and not hiding:
        return [hops(lowered)]
    parts: list[tuple[int, ...]] = []
    for indices in plan.hops:
        for n, index in enumerate(indices):  # no groupby: Dynamo cannot trace it
            if n and not any(parts[-1][-1] < step <= index for step in hiding):
                parts[-1] = (*parts[-1], index)
            else:
                parts.append((index,))
    found: list[list[BackHop] | int] = []
    for indices in sorted([*parts, *((index,) for index in hiding)]):
        if indices[0] in (*plan.moving_layers, *hiding):
            found.append(indices[0])
        elif found and isinstance(found[-1], list):
            found[-1].append(_hop(lowered, indices))
        else:
            found.append([_hop(lowered, indices)])
    return found


def forwards(hops: Sequence[BackHop]) -> list[Hop]:
    """Return the inverse hops: the map to each canvas from the one before, and its size."""
    return [(turned(step) if isinstance(step, Tensor) else step.turned(), size) for step, size in hops]


def backwards(lowered: Lowered) -> list[Hop]:
    """Return the path from the result to the input, without cutting at canvases; a single map if there is no field."""
    total = total_src_from_dst(lowered)
    if lowered.plan.bends:
        return [(step, None) for step, _ in reversed(hops(lowered))]
    return [(unmoved(wide_dtype(lowered.device), lowered.device) if total is None else total, None)]


def _hop(lowered: Lowered, indices: Sequence[int]) -> BackHop:
    """Return the map across some warps, at most one of which has a field."""
    total: Tensor | None = None  # since the field, if there was one
    bent: tuple[Tensor, Bend] | None = None
    for index in indices:
        segment = lowered.segment(index)
        assert isinstance(segment, Warp)
        total = segment.src_from_dst if total is None else total @ segment.src_from_dst
        if segment.bend is not None:
            assert bent is None
            bent, total = (total, segment.bend), None
    size = lowered.plan.size_after(indices[-1])
    if bent is None:
        assert total is not None
        return total, size
    src_from_mid, bend = bent
    still = unmoved(src_from_mid.dtype, lowered.device)
    return BentMap(still if total is None else total, bend, src_from_mid), size


def total_src_from_dst(lowered: Lowered) -> Float[Tensor, "b n n"] | None:
    """Return the map from output pixel to input pixel across the whole plan, without fields; None if the plan warps no pictures."""
    if lowered.plan.volumes:
        return total_in_space(lowered)
    total: Tensor | None = None
    for layer in lowered.plan.moving_layers:
        fix = f"record.step(i) has the maps of the steps before it; record.params[{layer}] has its drawn values."
        expected = "transforms that show one picture through one map"
        got = f"one that shows several pictures, which has neither a single matrix nor an inverse (step {layer})"
        raise invalid(f"the map of {type(lowered.plan.steps[layer].transform).__name__}", expected=expected, got=got, fix=fix)
    for group in lowered.plan.groups:
        matrix = lowered.geometry(group).total if isinstance(group, Run) else None
        if matrix is not None:
            total = matrix if total is None else total @ matrix
    return total


def apply_image(
    lowered: Lowered,
    image: Shaped[Tensor, "b c h w"] | Pictures,
    *,
    impl: str,
    dtype: torch.dtype,
    scale: float | None = None,
    over: Overlay | None = None,
) -> Shaped[Tensor, "b c2 h2 w2"]:
    """Send images through every pass.

    Args:
        lowered: the plan and its values.
        image: floating point in [0, 1] units, or uint8; fills are in its own units. Pictures may have several sizes if the first
            pass brings them to one.
        impl: which implementation computes.
        dtype: of the result: floating, or uint8, to which [0, 1] is clipped and rounded.
        scale: 255 if pictures were bytes before earlier passes, so that steps keep to byte levels; default: by the image's dtype.
        over: a sticker over images, which are then floating point. A first pass that is a warp resamples it with the images;
            otherwise it is blended onto them before.
    """
    scale = scale or (255.0 if image.dtype == torch.uint8 else 1.0)
    groups = lowered.plan.groups
    if isinstance(image, Pictures):
        first, groups, computed = groups[0], groups[1:], compute_dtype(image.dtype)
        image = _apply_group(first, lowered, image, scale, impl, computed if groups else dtype)
        if not groups:
            return image
    if lowered.plan.parts and scale == 255.0:
        return _in_parts(lowered.plan.parts, lowered, image, impl, dtype)
    if over is not None and groups and goes_along(groups[0]):
        first, groups = groups[0], groups[1:]
        image = _apply_along(first, lowered, image, over, scale, impl, compute_dtype(image.dtype) if groups else dtype)
    elif over is not None:
        image = over.on(image)
    return _through(groups, lowered, image, scale, impl, dtype)


def _in_parts(
    parts: Sequence[Part], lowered: Lowered, image: Shaped[Tensor, "b c h w"], impl: str, dtype: torch.dtype
) -> Shaped[Tensor, "b c2 h2 w2"]:
    """Send images that came as bytes through parts, some of which round to bytes after each step."""
    levels = torch.uint8 if lowered.taped and not needs_grad(image) else compute_dtype(image.dtype)
    image = in_levels(image, levels)
    for number, part in enumerate(parts, 1):
        if not part.rounds:
            ends = dtype if number == len(parts) else levels
            image = _through(part.groups, lowered, image, 255.0, impl, ends)
            image = image if number == len(parts) else in_levels(image, levels)
            continue
        operations = operations_of(lowered, part, image.shape) if impl != "reference" and levels == torch.uint8 else None
        for group in part.groups if operations is None else ():
            image = in_levels(_through((group,), lowered, image, 255.0, impl, levels), levels)
        image = image if operations is None else bytewise.apply(image, operations)
    return image if not parts[-1].rounds or image.dtype == dtype else as_bytes(in_units(image), dtype)


def _through(
    groups: Sequence[Group], lowered: Lowered, image: Tensor, scale: float, impl: str, dtype: torch.dtype
) -> Shaped[Tensor, "b c2 h2 w2"]:
    """Send images through these passes; the last one writes this dtype."""
    openings = None if lowered.blocks is not None else Openings.of(lowered, image, groups, dtype)
    if openings is not None:
        return apply_sparsely(_apply_group, openings, lowered, image, impl, dtype)
    made = image
    for group, after in pairwise(groups):
        # If a pass only moves bytes and a run or rectangles come next, they stay bytes: a quarter of the memory.
        reads = isinstance(after, Run) or paints_rectangles(lowered.plan, after)
        kept = lowered.taped and made.dtype == torch.uint8 and reads and keeps_levels(lowered.plan, group)
        ends = torch.uint8 if kept else compute_dtype(made.dtype)
        made = _apply_group(group, lowered, made, scale, impl, ends, owned=lowered.taped and is_new(made, image))
    if not groups:
        return as_bytes(in_units(image), dtype)
    return _apply_group(groups[-1], lowered, made, scale, impl, dtype, owned=lowered.taped and is_new(made, image))


def _painted(segment: Patch, lowered: Lowered, image: Tensor, dtype: torch.dtype, impl: str, *, owned: bool) -> Tensor | None:
    """Paint rectangles over bytes, or over other numbers whose memory is our own, if nothing has to be rounded; else None."""
    known = lowered.taped and image.dtype == dtype and dtype in (torch.uint8, torch.float32, torch.float64)
    if not known or not blend.paints(impl, image.device) or needs_grad(image, segment.box, segment.value):
        return None
    if dtype == torch.uint8 and not owned:
        return paint(segment, copy_of(image), impl)
    return paint(segment, image, impl) if owned else None


def _apply_group(
    group: Group,
    lowered: Lowered,
    image: Tensor | Pictures,
    scale: float,
    impl: str,
    dtype: torch.dtype,
    *,
    owned: bool = False,
) -> Tensor:
    """Apply one pass; the result has this dtype. ``owned``: the pass may write to the pictures' memory."""
    found = None if lowered.prepared is None else lowered.prepared(group, lowered, image, scale, dtype)
    if found is not None:
        return found
    if isinstance(group, Space):
        assert isinstance(image, Tensor)
        return apply_space(group, lowered, image, scale, impl, dtype)
    if isinstance(group, Run) and group.settled:
        return _settled(group, lowered, image, scale, impl, dtype)
    if isinstance(group, Run):
        image, resample = _pass_of(group, lowered, image, scale)
        return _passed(group, image, resample.returning(dtype), impl)
    assert isinstance(image, Tensor)
    segment = lowered.single(group.index, image.dtype)
    painted = _painted(segment, lowered, image, dtype, impl, owned=owned) if isinstance(segment, Patch) else None
    if painted is not None:
        return painted
    if isinstance(segment, Layers):
        return _apply_layers(lowered, group.index, image, dtype, impl, scale)
    found = look_up(segment, lowered.plan.segments[group.index], image, scale, impl, dtype) if lowered.taped else None
    if found is not None:
        return found
    if isinstance(segment, Cells):
        image = in_planes(image)
        through = partial(apply_image, impl=impl, dtype=compute_dtype(image.dtype), scale=scale)
        return as_bytes(cell_by_cell(segment, group.index, lowered, image, through), dtype)
    if isinstance(segment, Mixture):
        return as_bytes(_mixture(segment, group.index, lowered, in_planes(image), impl, scale), dtype)
    return apply_alone(segment, image, scale, impl, dtype, lowered.plan.specs[group.index].depth, taped=lowered.taped)


def _apply_layers(
    lowered: Lowered,
    index: int,
    image: Tensor,
    dtype: torch.dtype | None,
    impl: str,
    scale: float = 1.0,
    fill: float | None = None,
    interpolation: str = "bilinear",
) -> Tensor:
    """Apply layers to pictures, or to fields with their own fill."""
    segment, spec = lowered.segment(index), lowered.plan.segments[index]
    assert isinstance(segment, Layers)
    assert isinstance(spec, LayerSpec)
    opacity, box, src_from_dst, paint = segment.opacity, segment.box, segment.src_from_dst, segment.fill
    channels, rows = image.shape[1], torch.arange(len(image), device=image.device)
    paint = paint if isinstance(paint, tuple) else (paint,)
    colors = tuple(number / scale for number in paint) if fill is None else (fill,)
    offset, plane = shown(lowered, index, len(image)) - rows[:, None], None
    if spec.pastes and index in lowered.cutouts:
        soft, hard = lowered.cutouts[index]
        plane = hard.to(soft.dtype) if interpolation == "nearest" else soft
    elif spec.pastes:  # no masks, so no objects to paste
        offset, opacity = offset[:, :1], opacity[:, :1]
    return layers(
        image,
        offset,
        opacity.to(compute_dtype(image.dtype)),
        box,
        None if src_from_dst is None else src_from_dst[:, :, :2],
        plane,
        ground=colors * (channels // len(colors)),
        covers=spec.covers,
        edge=segment.edge,
        dtype=dtype,
        interpolation=interpolation,
        impl=impl,
    )


def shown(lowered: Lowered, index: int, rows: int, frames: int | None = None) -> Int64[Tensor, "b k"]:
    """Return which sample each layer shows, for this many rows; clips are matched frame by frame."""
    spec = lowered.plan.segments[index]
    assert isinstance(spec, LayerSpec)
    return sources(spec, rows, lowered.frames if frames is None else frames, lowered.device)


def _mixture(segment: Mixture, index: int, lowered: Lowered, image: Tensor, impl: str, scale: float) -> Tensor:
    """Apply each chain to the picture by a plan of its own, and add up the picture and the results by their weights."""
    mixture = lowered.plan.steps[index].transform
    assert isinstance(mixture, MixtureTransform)
    share, weights = (part.to(compute_dtype(image.dtype)) for part in (segment.share, segment.weights))
    total, spec = share[:, None, None, None] * in_units(image), ImageSpec(image.shape[1], image.shape[2], image.shape[3])
    for k, (chain, params) in enumerate(zip(mixture.chains, segment.chains, strict=True)):
        same = mixture.chains.index(chain) if is_plain_eager() else k  # equal chains share a plan
        plan = lowered.plan_beside((index, same), chain, spec)
        inside = Lowered(plan, params, lowered.device, lowered.slopes, lowered.frames)
        weight = ((1.0 - share) * weights[:, k])[:, None, None, None]
        total = total + weight * apply_image(inside, image, impl=impl, dtype=total.dtype, scale=scale)
    return total


def _apply_along(run: Group, lowered: Lowered, image: Tensor, over: Overlay, scale: float, impl: str, dtype: torch.dtype) -> Tensor:
    """Apply a run that resamples to a picture with a sticker over it."""
    assert isinstance(run, Run)
    _, resample = _pass_of(run, lowered, over.on(image) if run.pivot else image, scale)
    src_from_dst = lowered.geometry(run).total
    assert src_from_dst is not None
    return over.along(image, resample.returning(dtype), src_from_dst, partial(resize if run.separable else warp, impl=impl))


def _pass_of(run: Run, lowered: Lowered, image: Tensor | Pictures, scale: float) -> tuple[Any, Resample]:
    """Return the pictures in the form that a run's pass reads, and the pass."""
    computed = compute_dtype(image.dtype)
    if run.pivot and image.requires_grad:  # so that gradients of the mean and of the pass are added before they are rounded
        image = in_units(image) if isinstance(image, Tensor) else image.each(in_units)
    frame = lowered.frame(run) if run.framing else None
    image, mean = color.with_mean(image, frame) if run.pivot else (image, None)
    resample = lowered.resample(run, mean, scale, computed)
    if lowered.blocks is not None:  # colours of a part of a volume
        resample = resample._replace(recipe=resample.recipe._replace(size=(image.shape[2], image.shape[3])))
    return image, resample


def _settled(run: Run, lowered: Lowered, image: Tensor | Pictures, scale: float, impl: str, dtype: torch.dtype) -> Tensor:
    """Apply a run of crops and resizes first, and then its colours, which need the mean of the resized picture."""
    computed = compute_dtype(image.dtype)
    (before, after), opened = run.halves, lowered.opened(run, image.shape[1], scale, computed)
    if opened is not None and run.separable and settles(impl, lowered.device):
        return settled(image, opened, dtype)
    moves = lowered.resample(before, None, scale, computed) if opened is None else opened.resample.without_colors()
    made, mean = color.with_mean(_passed(run, image, moves.returning(computed), impl))
    colors = lowered.resample(after, mean, scale, computed) if opened is None else opened.at(mean).without_moves()
    colors = colors.returning(dtype)
    return _colored(made, colors) if implementation(impl, made, colors) == "reference" else warp(made, colors, impl=impl)


def _passed(run: Run, image: Tensor | Pictures, resample: Resample, impl: str) -> Tensor:
    """Apply a run's pass to pictures."""
    if run.separable and run.warps:
        return resize(image, resample, impl=impl)
    if not run.warps and isinstance(image, Tensor) and implementation(impl, image, resample) == "reference":
        return _colored(image, resample)
    # Nearest warps go through `nearest`, which adds the surrogate gradient to their maps.
    return (nearest if run.interpolation == "nearest" else warp)(image, resample, impl=impl)


def _colored(image: Tensor, resample: Resample) -> Tensor:
    """Apply a pass of colours alone, without resampling."""
    image = color.stages(in_units(image), resample.prologue)
    _, matrix, offset, stages, _ = unpack(resample, image.shape[1])
    if matrix is not None:
        image = color.affine(image, matrix, offset)
    return as_bytes(color.stages(image, (*stages, *resample.epilogue)), resample.recipe.dtype or image.dtype)


def apply_field(
    lowered: Lowered,
    field: Shaped[Tensor, "b c h w"],
    *,
    interpolation: str,
    padding_mode: str | None,
    fill: float,
    impl: str,
    groups: Sequence[Group] | None = None,
    masks: bool = False,
) -> Shaped[Tensor, "b c h2 w2"]:
    """Send masks, heatmaps or depth through the geometry alone.

    Args:
        lowered: the plan and its values.
        field: floating point, or integers with ``nearest``.
        interpolation: as in the warp kernel.
        padding_mode: None takes that of the run (with ``fill`` in place of the image's fill); a name overrides it.
        fill: the value outside of the field.
        impl: which implementation computes.
        groups: the passes, if not all of the plan's.
        masks: whether these are masks, for which steps may have a fill, and a value under holes, of their own.

    Gradient:
        field: exact. drawn values: almost everywhere; a surrogate (secant over one pixel) for ``nearest``, as for images, and none
        for integers, which carry no gradient.
    """
    for group in lowered.plan.spaces or lowered.plan.groups if groups is None else groups:
        if isinstance(group, Single) and group.index in lowered.plan.moving_layers:
            kept = field.dtype if field.is_floating_point() else None
            field = _apply_layers(lowered, group.index, field, kept, impl, fill=fill, interpolation=interpolation)
        if masks and isinstance(group, Single) and group.index in lowered.plan.hiding:
            field = _under_holes(lowered, group.index, field)
        if isinstance(group, Space):
            how: dict[str, Any] = {"interpolation": interpolation, "padding_mode": padding_mode, "impl": impl}
            field = field_through(group, lowered, field, fill=fill, masks=masks, **how)
        if not isinstance(group, Run) or not group.warps:
            continue
        geometry = lowered.geometry(group, compute_dtype(field.dtype) if interpolation == "nearest" else None)
        outside = partial(_outside, lowered, fill=fill, masks=masks, like=field)
        field = _warped_field(group, geometry, field, interpolation, padding_mode, outside, impl, lowered.slopes)
    return field


def _under_holes(lowered: Lowered, index: int, field: Tensor) -> Tensor:
    """Set masks to the step's ``mask_fill`` in pixels whose centre lies in one of its rectangles."""
    segment, spec = lowered.segment(index), lowered.plan.segments[index]
    assert isinstance(segment, Patch)
    assert isinstance(spec, BlendSpec)
    if spec.mask_fill is None:
        return field
    holes = cover(segment.box, (field.shape[2], field.shape[3]), 0.0).any(1)
    return torch.where(holes[:, None], torch.full((), spec.mask_fill, dtype=field.dtype, device=field.device), field)


def _outside(lowered: Lowered, layer: Run | Canvas, *, fill: float, masks: bool, like: Tensor) -> Tensor | None:
    """Return the fill of fields: one value, or for masks the ``mask_fill`` of each sample's warp."""
    specs = [(i, lowered.plan.segments[i]) for i in layer.fills] if masks else []
    own = [(i, spec.mask_fill) for i, spec in specs if isinstance(spec, WarpSpec)]
    numbers = [(i, fill if number is None else number) for i, number in own] or [(-1, fill)]
    like = like.new_ones((1, like.shape[1]), dtype=compute_dtype(like.dtype))
    if len({number for _, number in numbers}) == 1:
        return constant((numbers[0][1],) * like.shape[1], like.dtype, like.device)[None] if numbers[0][1] else None
    gates = [(lowered.opened_by_choices(i), number) for i, number in numbers]
    rows = [number * like if gate is None else gate.to(like.dtype)[:, None] * number * like for gate, number in gates]
    return reduce(torch.add, rows)


def _warped_field(
    run: Run,
    geometry: Geometry,
    field: Tensor,
    interpolation: str,
    padding_mode: str | None,
    outside: Callable[[Run | Canvas], Tensor | None],
    impl: str,
    slopes: Tensor | None,
) -> Tensor:
    coordinates = compute_dtype(field.dtype)
    geometry = geometry.to(coordinates)
    assert geometry.src_from_dst is not None
    links = []
    for link, canvas in zip(geometry.links, run.canvases, strict=True):
        mode = padding_mode if padding_mode and canvas.exposes else canvas.padding_mode
        shows = canvas.exposes and mode in FILLED_MODES
        kind = canvas_kind(mode, hard=canvas.hard or interpolation == "nearest")
        links.append(link._replace(kind=kind, fill=outside(canvas) if shows else None))
    followed = padding_mode if run.fills or not links else None
    resample = pack(
        geometry.src_from_dst if run.projective else geometry.src_from_dst[:, :2],
        size=run.size_out,
        interpolation=interpolation,
        padding_mode=followed or run.padding_mode,
        fill=outside(run),
        window=geometry.window,
        links=links,
        slopes=slopes,
    )
    return read(field, resample, impl=impl)


def unwarp(
    image: Tensor, back: list[Tensor | BentMap], canvases_of: list[Size], places: Tensor | None = None, *, impl: str, **options: Any
) -> Tensor:
    """Resample a result back to the input through canvases; zero for pixels that a canvas had cut off.

    Args:
        image: the end of the path.
        back: the maps to each canvas from the one before, first canvas first; their points are read the other way.
        canvases_of: (height, width) of the canvases between.
        places: for a path with a field, where each input pixel lies in the result (`places_of`), solved once for all targets.
        impl: which implementation computes.
        options: as :func:`pellucid.kernels.warp.pack` takes them; the size is the input's.

    Gradient:
        image: exact. back: almost everywhere; a surrogate (secant over one pixel) for ``nearest``, and none for integers.
    """
    if places is not None:
        return read(image, pack(places.new_zeros((1, 2, 3)), field=places, **options), impl=impl)
    src_from_dst, *maps = (each for each in reversed(back) if isinstance(each, Tensor))
    # Hard edges: a canvas ends with its pixels, half a pixel beyond their centres.
    links = [
        Link("hard", m, constant((0.0, 0.0, width - 1.0, height - 1.0), m.dtype, m.device)[None])
        for m, (height, width) in zip(maps, reversed(canvases_of), strict=True)
    ]
    return read(image, pack(src_from_dst, links=links, **options), impl=impl)
