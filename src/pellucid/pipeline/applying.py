"""Apply a record to every target of a batch, forwards and backwards.

Owns: the way of each kind of target through a plan, dtypes in and out, validity of boxes and keypoints.
Must not: draw or plan.
Read next: ``module.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.boxes import box_area, convert_boxes
from pellucid.core.constants import pinned, wide_dtype
from pellucid.engine.execution import (
    apply_field,
    apply_image,
    backwards,
    forwards,
    hops,
    hops_before,
    stretches,
    total_src_from_dst,
    unwarp,
)
from pellucid.engine.lowering import Lowered
from pellucid.engine.lowering.compose import unmoved
from pellucid.engine.overlays import Overlay
from pellucid.engine.passes import compute_dtype
from pellucid.engine.plan import Plan, Run, Space
from pellucid.engine.space import unwarp_volume
from pellucid.errors import invalid
from pellucid.functional.fills import Factor
from pellucid.functional.reaching import read_scale
from pellucid.geometry.paths import Hop, expanded, follow, places_of
from pellucid.geometry.space import mirrors3, turned
from pellucid.geometry.vectors import mirrors
from pellucid.kernels.several import Pictures
from pellucid.pipeline.records import Record
from pellucid.random.windows import MaskWindow
from pellucid.segments import Warp
from pellucid.targets.arrays import as_given
from pellucid.targets.cameras import check_followed, posed, residuals, turns
from pellucid.targets.dropping import drop_rows
from pellucid.targets.instances import Instances, instances_of
from pellucid.targets.kinds import BOXES, IMAGES, VALID, Entry, turned_along
from pellucid.targets.layers import laid_rows, mixed_labels, rows_beside_holes
from pellucid.targets.options import Options
from pellucid.targets.parsing import Parsed, batch_of, flatten, unflatten
from pellucid.targets.torchvision import wrap_like
from pellucid.transforms.choices import exclude
from pellucid.types import ImageSpec, Size

__all__ = [
    "apply_targets", "dtype_of_result", "exchanged", "field_of", "finished", "image_of", "invert_targets", "inverted", "results_of",
    "targets_seen",
]  # fmt: skip


@pinned
def apply_targets(
    record: Record, parsed: Parsed, options: Options, gradient_scale: Factor = 0.0, over: Overlay | None = None
) -> Any:
    """Replay a record on a batch, perhaps with a sticker over the images; ``gradient_scale`` is that of the call."""
    if options.drop_invalid and parsed.lead and any(entry.kind.move and not entry.kind.whole for entry in parsed.entries):
        fix = "Pass a list of pictures: they then have different numbers of rows."
        raise invalid("drop_invalid", expected="one picture, or a list of them", got="a batch", fix=fix)
    untouched = parsed.untouched
    if record.plan.moving_layers:
        untouched = mixed_labels(_lowered(record, parsed), parsed, options)
    return finished(results_of(record, parsed, options, gradient_scale, over), untouched, parsed, options)


def results_of(
    record: Record,
    parsed: Parsed,
    options: Options,
    gradient_scale: Factor = 0.0,
    over: Overlay | None = None,
    known_images: Mapping[str, Tensor] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the result of each entry by key, and the validity flags; images in ``known_images`` are skipped."""
    plan, lowered = record.plan, _lowered(record, parsed, gradient_scale)
    check_followed(plan, parsed, options)
    known = _known_first(lowered, parsed, options) if plan.moving_layers else {}
    result: dict[str, Any] = {}
    for entry in parsed.entries:
        if entry.key in known_images:
            continue
        flat = flatten(entry, parsed.lead, plan.size_in)
        if entry.key in known or entry.kind.move:
            out, valid = known.get(entry.key) or _rows(lowered, entry, flat, parsed.lead, options)
            if valid is not None and not entry.kind.whole:
                valid = valid[0] if parsed.lead == 0 else valid.unflatten(0, entry.tensor.shape[: parsed.lead])
                valid = valid.unflatten(-1, (-1, entry.points)) if entry.points else valid
                result[f"{entry.key}_valid"] = valid
        elif entry.kind in IMAGES:
            out = image_of(lowered, flat, options, over)
        else:
            out = field_of(lowered, flat, options, entry)
        if turns(entry, options):
            following = _following(lowered, entry, len(flat))
            ways = (backwards(lowered), forwards(hops(following))) if plan.bends or following is not lowered else None
            out = _turned(entry, out, total_src_from_dst(lowered), ways, plan.size_out, options, result)
        result[entry.key] = wrap_like(unflatten(out, entry, parsed.lead, plan.size_out, plan), entry.tensor, plan.size_out)
    if options.return_valid and not parsed.form.bare:
        result["valid"] = _coverage(record, parsed, lowered, lowered.device, options)
    posed(result, parsed, options)
    return result | residuals(lowered, parsed, options)


def _known_first(lowered: Lowered, parsed: Parsed, options: Options) -> dict[str, tuple[Tensor, Tensor | None]]:
    """Return masks of objects, and their boxes with validity, by key. They come first, because they decide what layers paste."""
    found: dict[str, tuple[Tensor, Tensor | None]] = {}
    for masks in instances_of(lowered, parsed, options):
        entry = masks.boxes
        if entry is not None:
            flat = flatten(entry, parsed.lead, lowered.plan.size_in)
            found[entry.key] = _rows(lowered, entry, flat, parsed.lead, options, masks)
        for index in lowered.plan.moving_layers if entry is None else ():
            masks.lay(index, None)
        found[masks.key] = masks.end(), None
        lowered.cutouts |= masks.cutouts
    return found


def finished(result: dict[str, Any], untouched: dict[str, Any], parsed: Parsed, options: Options, count: int | None = None) -> Any:
    """Return a result in the form of the input; with ``drop_invalid``, without the rows that are no longer valid.

    Args:
        result: the transformed entries, by key.
        untouched: the other entries.
        parsed: the input, or the first sample of a list.
        options: of the pipeline.
        count: the number of pictures in a list.
    """
    form = parsed.form
    drop = options.drop_invalid and not form.bare
    result = drop_rows(result, untouched, options, count) if drop else {**result, **untouched}
    return form.closed(handed_back(result, parsed, listed=count is not None and options.out == "same"))


def handed_back(result: dict[str, Any], parsed: Parsed, *, listed: bool) -> dict[str, Any]:
    """Convert results to arrays, PIL images or lists of rows if the inputs were such; ``listed``: each sample by itself."""
    for entry in parsed.entries:
        for key, how in ((entry.key, entry.given), (f"{entry.key}_{VALID}", entry.given and "array")):
            if how and key in result:
                result[key] = as_given(result[key], how, listed=listed)
    return result


def invert_targets(record: Record, parsed: Parsed, options: Options, *, return_valid: bool = False) -> Any:
    """Undo a record's geometry on a batch; with ``return_valid``, also return the share of each pixel that the batch shows."""
    result = inverted(record, parsed, options, return_valid=return_valid)
    closed = parsed.form.closed(handed_back({**result, **parsed.untouched}, parsed, listed=False))
    return (closed, result["valid"]) if return_valid and parsed.form.bare else closed


def inverted(record: Record, parsed: Parsed, options: Options, *, return_valid: bool = False) -> dict[str, Any]:
    """Return each entry, by key, with the record's geometry undone."""
    plan, lowered = record.plan, _lowered(record, parsed)
    device = lowered.device
    src_from_dst = total_src_from_dst(lowered)
    check_followed(plan, parsed, options)
    result: dict[str, Any] = {}
    path = forwards(hops(lowered)) if src_from_dst is not None else []
    places: _Places = {}
    for entry in parsed.entries:
        flat = flatten(entry, parsed.lead, plan.size_out)
        if entry.kind.move:
            out, _ = _moved(entry, flat, backwards(lowered), options)
        elif src_from_dst is None:
            out = flat.clone()
        elif plan.volumes:
            how = "nearest" if options.interpolation_of(entry.kind) in ("nearest", "majority") else "trilinear"
            out = unwarp_volume(lowered, flat, interpolation=how, impl=options.impl)
        else:
            mode = options.interpolation_of(entry.kind)
            out = _unwarp(flat, path, plan.size_in, mode, options, places)
        if src_from_dst is not None and turns(entry, options):
            following = _following(lowered, entry, len(flat))
            ways = (path, backwards(following)) if plan.bends or following is not lowered else None
            out = _turned(entry, out, turned(src_from_dst), ways, plan.size_in, options, result)
        result[entry.key] = wrap_like(unflatten(out, entry, parsed.lead, plan.size_in, plan), entry.tensor, plan.size_in)
    if return_valid:
        samples, frames = batch_of(parsed)
        valid = torch.ones((samples * frames, 1, *plan.specs[-1].size), device=device)
        if plan.volumes:
            valid = unwarp_volume(lowered, valid, interpolation="trilinear", impl=options.impl)
        elif src_from_dst is not None:
            valid = _unwarp(valid, path, plan.size_in, "bilinear", options, places)
        result["valid"] = _led(valid, parsed, plan.specs[0])
    posed(result, parsed, options)
    return result


def _lowered(record: Record, parsed: Parsed, gradient_scale: Factor = 0.0) -> Lowered:
    """Lower the record's values on the device of the batch."""
    device = parsed.entries[0].tensor.device if parsed.entries else record.device
    slopes = _slopes(gradient_scale, parsed, device)
    return Lowered(record.plan, _params(record, parsed, device), device, slopes, batch_of(parsed)[1])


def _slopes(gradient_scale: Factor, parsed: Parsed, device: torch.device) -> Tensor | None:
    """Return the width in pixels of the blur for gradients to drawn values, once per frame."""
    scale, _ = read_scale(gradient_scale, device)
    if scale is None:
        return None
    if any(entry.kind.space for entry in parsed.entries):
        raise invalid("gradient_scale", expected="0 for volumes, whose slopes are not blurred", got=gradient_scale)
    samples, frames = batch_of(parsed)
    if scale.shape[0] not in (1, samples):
        raise invalid("gradient_scale", expected=f"1 or {samples} of them, as there are samples", got=scale.shape[0])
    return scale.repeat_interleave(frames, 0) if scale.shape[0] > 1 else scale


def _params(record: Record, parsed: Parsed, device: torch.device) -> Sequence[Mapping[str, Tensor]]:
    """Return the record's values on the batch's device, once per frame; a record of one sample is repeated for every sample."""
    samples, frames = batch_of(parsed)
    params = record.params if record.device == device else record.to(device).params
    each = samples if record.samples == 1 else 1
    if frames * each == 1 and not record.plan.smooth:
        return params
    if each > 1:
        params = tuple({name: value.repeat_interleave(each, 0) for name, value in values.items()} for values in params)
    return Record(record.plan, params, samples)._frames(frames).params


def image_of(lowered: Lowered, image: Tensor | Pictures, options: Options, over: Overlay | None = None) -> Tensor:
    """Apply the plan to images, or to pictures of several sizes that the first pass brings to one."""
    plan, channels = lowered.plan, image.shape[1]
    if channels != plan.specs[0].channels:
        raise invalid("image", expected=f"{plan.specs[0].channels} channels, as planned", got=f"{channels} channels")
    out = apply_image(lowered, image, impl=options.impl, dtype=dtype_of_result(plan, options, image.dtype), over=over)
    # An empty plan must not hand the input back: results never alias it.
    return out if plan.groups else out.clone()


def dtype_of_result(plan: Plan, options: Options, dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of the result for images of a dtype."""
    if (options.dtype or dtype) != torch.uint8 or not plan.ends_normalised:
        return options.dtype or dtype
    if options.dtype is not None:
        fix = "Leave dtype= out: 8-bit images then come back as float32. Or leave Normalize out."
        expected = "a floating-point dtype for a pipeline that normalises"
        raise invalid("dtype", expected=expected, got="torch.uint8, which holds no negative numbers", fix=fix)
    return torch.float32


def field_of(lowered: Lowered, flat: Tensor, options: Options, entry: Entry) -> Tensor:
    """Apply the plan to masks, labels, heatmaps or depth."""
    mode = options.interpolation_of(entry.kind)
    masks = entry.kind.name in ("mask", "labelmap")
    fill = options.mask_fill if masks else 0.0
    floating = flat.is_floating_point()
    if not floating:
        _check_label("mask_fill", fill, flat.dtype)
    if masks and not floating:
        _check_own_labels(lowered.plan, flat.dtype)
    whole = mode in ("nearest", "majority")
    work = flat if floating or whole else flat.to(torch.float32)
    out = apply_field(lowered, work, interpolation=mode, padding_mode=None, fill=fill, impl=options.impl, masks=masks)
    if not (floating or whole):
        out = torch.round(out)
    movers = lowered.plan.moving_layers or lowered.plan.hiding
    moved = movers or any(isinstance(group, Space) or (isinstance(group, Run) and group.warps) for group in lowered.plan.groups)
    return out.to(flat.dtype) if moved else flat.clone()


def _following(lowered: Lowered, entry: Entry, rows: int) -> Lowered:
    """Return the call for the frames in which vectors end: the same frames, or, if the map changes through a clip and the kind
    reaches the next frame, the next ones (for the last frame, the same).
    """
    frames = lowered.frames
    if frames < 2 or not (entry.kind.reaches and lowered.plan.smooth):
        return lowered
    places = torch.arange(rows, device=lowered.device).unflatten(0, (-1, frames))
    return lowered.of(torch.cat((places[:, 1:], places[:, -1:]), 1).flatten())


def _turned(
    entry: Entry,
    out: Tensor,
    src_from_dst: Tensor | None,
    ways: tuple[list[Hop], list[Hop]] | None,
    size: Size,
    options: Options,
    result: dict[str, Any],
) -> Tensor:
    """Turn vectors by the map, and swap pairs of left and right if it mirrors; validity flags in ``result`` are swapped, too.

    Args:
        ways: with a field or a map that changes through a clip: from pixels of ``out`` to their sources, and from there to the
            pictures in which vectors end.
    """
    if src_from_dst is None:
        return out
    if entry.kind.turn is not None and ways is not None:
        sources, back = ([(expanded(step.to(wide_dtype(out.device)), len(out)), None) for step, _ in way] for way in ways)
        out = turned_along(entry.kind, out, sources, back)
    elif entry.kind.turn is not None:
        out = entry.kind.turn(out, src_from_dst.to(compute_dtype(out.dtype))).to(out.dtype)
    pairs = options.pairs.get(entry.key, ())
    if not pairs:
        return out
    if entry.kind.name == "labelmap":
        return exchanged(out, pairs, mirrors3(src_from_dst))
    rows, flag = out.shape[1], f"{entry.key}_{VALID}"
    count = entry.points or rows
    if max(map(max, pairs)) >= count:
        raise invalid(f"pairs[{entry.key!r}]", expected=f"places below {count}, as many as there are", got=pairs)
    order = list(range(rows))
    for first in range(0, rows, count):
        for left, right in pairs:
            order[first + left], order[first + right] = first + right, first + left
    mirrored = mirrors3(src_from_dst) if entry.kind.space else mirrors(src_from_dst, size)
    if flag in result:
        valid = result[flag]
        result[flag] = _swapped(valid.reshape(-1, rows), order, mirrored).reshape(valid.shape)
    return _swapped(out, order, mirrored)


def exchanged(labels: Tensor, pairs: Sequence[tuple[int, int]], where: Tensor) -> Tensor:
    """Swap the labels of each pair, in the samples that ``where`` selects."""
    found = labels
    for left, right in pairs:
        found = torch.where(labels == left, right, torch.where(labels == right, left, found))
    return torch.where(where.reshape(-1, *[1] * (labels.dim() - 1)), found, labels)


def _swapped(rows: Tensor, order: list[int], where: Tensor) -> Tensor:
    """Reorder the rows of axis 1, in the samples that ``where`` selects."""
    parts = rows.unbind(1)
    return torch.where(where.reshape(-1, *[1] * (rows.dim() - 1)), torch.stack([parts[i] for i in order], 1), rows)


def _check_own_labels(plan: Plan, dtype: torch.dtype) -> None:
    """Raise if the ``mask_fill`` of a step does not fit the masks' dtype."""
    for step, segment in zip(plan.steps, plan.segments, strict=True):
        value = getattr(segment, "mask_fill", None)
        if value is not None:
            _check_label(f"{type(step.transform).__name__}.mask_fill", value, dtype)


def _check_label(name: str, fill: float, dtype: torch.dtype) -> None:
    """Raise if a fill value does not fit the dtype of labels."""
    low, high = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    if not (low <= fill <= high and fill == int(fill)):
        fix = "Convert the mask, for example with .long()."
        raise invalid(name, expected=f"a whole number from {low} to {high}, as masks are {dtype}", got=fill, fix=fix)


def _coverage(record: Record, parsed: Parsed, lowered: Lowered, device: torch.device, options: Options) -> Tensor:
    samples, frames = batch_of(parsed)
    ones = torch.ones((samples * frames, 1, *record.plan.specs[0].size), device=device)
    valid = apply_field(lowered, ones, interpolation="bilinear", padding_mode="zeros", fill=0.0, impl=options.impl)
    return _led(valid, parsed, record.plan.specs[-1])


def _led(fields: Tensor, parsed: Parsed, spec: ImageSpec) -> Tensor:
    """Restore the leading axes of the batch, and the depth axis of volumes."""
    fields = fields.unflatten(2, spec.extent[:2]) if spec.depth else fields
    return fields[0] if parsed.lead == 0 else fields.unflatten(0, batch_of(parsed)[: parsed.lead])


_Places: TypeAlias = dict[tuple[torch.dtype, int], Tensor]
"""Positions of pixels under inverted fields, by dtype and number of samples: solved once in a call."""


def _unwarp(flat: Tensor, path: list[Hop], size: Size, mode: str, options: Options, solved: _Places) -> Tensor:
    """Resample back to the input; zero for pixels that a canvas had cut off."""
    whole = mode == "nearest" and not flat.is_floating_point()
    if not (whole or flat.is_floating_point() or flat.dtype == torch.uint8):
        return torch.round(_unwarp(flat.to(torch.float32), path, size, mode, options, solved)).to(flat.dtype)
    computed, places = compute_dtype(flat.dtype), None
    maps = [step.to(computed) for step, _ in path]
    sizes, dtype = [canvas for _, canvas in path[:-1] if canvas is not None], None if whole else flat.dtype
    if not all(isinstance(step, Tensor) for step in maps):
        kind = computed, len(flat)
        places = solved[kind] = solved[kind] if kind in solved else places_of(maps, sizes, size, len(flat))
    return unwarp(flat, maps, sizes, places, size=size, interpolation=mode, dtype=dtype, levels=True, impl=options.impl)


def _rows(
    lowered: Lowered, entry: Entry, flat: Tensor, lead: int, options: Options, masks: Instances | None = None
) -> tuple[Tensor, Tensor]:
    """Move rows of coordinates from canvas to canvas and through layers, and return which are valid; ``masks`` go along."""
    if entry.kind.whole or entry.kind.scene:
        _check_one_picture(lowered.plan, entry)
        out, valid = _moved(entry, flat, forwards(hops(lowered)), options)
        return out, valid if entry.kind.whole or entry.valid is None else valid & _flags(entry.valid, lead)
    first, *rest = stretches(lowered)
    still: list[Hop] = [(_unmoved(lowered.plan, flat.device), lowered.plan.size_in)]
    out, valid = _moved(entry, flat, (not isinstance(first, int) and forwards(first)) or still, options)
    if entry.valid is not None:
        valid = valid & _flags(entry.valid, lead)
    for index in lowered.plan.centers if entry.kind is BOXES else ():
        valid = valid & _centered(lowered, index, convert_boxes(flat, entry.box_format, "cxcywh")[..., :2])
    for part in rest if not isinstance(first, int) else (first, *rest):
        if part in lowered.plan.hiding:
            out, seen = rows_beside_holes(lowered, part, entry, out, options)
            valid = valid & seen
        elif isinstance(part, int):
            if masks is not None:
                masks.lay(part, valid)
            out, valid = laid_rows(lowered, part, entry, out, valid, options, masks)
        else:
            out, inside = _moved(entry, out, forwards(part), options)
            valid = valid & inside
    return out, valid


def _unmoved(plan: Plan, device: torch.device) -> Tensor:
    """Return the identity map."""
    wide = wide_dtype(device)
    return torch.eye(4, dtype=wide, device=device)[None] if plan.volumes else unmoved(wide, device)


def _check_one_picture(plan: Plan, entry: Entry) -> None:
    """Raise if a step shows several pictures, or several parts of one, in one result."""
    for index in plan.moving_layers:
        fix = f"Leave that step out, or pass passthrough=({entry.key!r},) to leave {entry.key} alone."
        expected = "a pipeline whose results show one picture each, as a whole"
        raise invalid(f"batch[{entry.key!r}]", expected=expected, got=type(plan.steps[index].transform).__name__, fix=fix)


def _flags(valid: Tensor, lead: int) -> Tensor:
    """Return the flags of rows with one batch axis."""
    return valid.to(torch.bool)[None] if lead == 0 else valid.to(torch.bool).flatten(0, lead - 1)


def _centered(lowered: Lowered, index: int, centers: Float[Tensor, "b n 2"]) -> Bool[Tensor, "b n"]:
    """Return which centres lie in the window of a step; all of them if the window is the whole picture."""
    _check_unmoved(lowered.plan, index, lowered.plan.moving_layers)
    path = [(expanded(step, len(centers)), None) for step, _ in forwards(hops_before(lowered, index))]
    centers = follow(centers - 0.5, path)[0] + 0.5 if path else centers
    segment = lowered.segment(index)
    assert isinstance(segment, Warp)
    assert segment.window is not None
    low, high = segment.window[:, None, :2], segment.window[:, None, 2:] + 1.0  # pixels there, their edges here
    height, width = lowered.plan.specs[index].size
    whole = (low <= 0.0) & (high >= high.new_tensor((width, height)))
    return (whole.all(-1) | ((low < centers) & (centers < high)).all(-1)).expand(centers.shape[:-1])


def _check_unmoved(plan: Plan, index: int, movers: Iterable[int]) -> None:
    """Raise if one of the ``movers`` moves boxes before a step that reads them."""
    for at in movers:
        if at < index and not exclude(plan.steps, at, index):
            fix = "Put it first, or into a pipeline of its own, which takes the first one's result."
            expected = "a place before all that moves boxes and labels: it reads those of the batch"
            got = f"one after {type(plan.steps[at].transform).__name__}"
            raise invalid(type(plan.steps[index].transform).__name__, expected=expected, got=got, fix=fix)


def targets_seen(plan: Plan, parsed: Parsed) -> dict[tuple[int, str], dict[str, Tensor]]:
    """Return boxes, masks and spacing for the draws that read them: of all frames of a sample; for shared draws, of all samples."""
    return _masks_seen(plan, parsed) | _boxes_seen(plan, parsed) | _spacing_seen(plan, parsed)


def _spacing_seen(plan: Plan, parsed: Parsed) -> dict[tuple[int, str], dict[str, Tensor]]:
    affine = next((entry for entry in parsed.entries if entry.kind.name == "affine"), None)
    if affine is None:
        return {}
    matrix = affine.tensor if parsed.lead else affine.tensor[None]
    found = {"spacing": torch.linalg.vector_norm(matrix[:, :3, :3].to(wide_dtype(matrix.device)), dim=1)}
    return {(draw.transform, draw.name): found for draw in plan.looking if draw.distribution.spacing}


def _masks_seen(plan: Plan, parsed: Parsed) -> dict[tuple[int, str], dict[str, Tensor]]:
    samples, _ = batch_of(parsed)
    labels = [entry.tensor for entry in parsed.entries if samples and entry.kind.name in ("mask", "labelmap")]
    masks = [tensor.reshape(samples, -1, *plan.size_in) for tensor in labels]
    found: dict[tuple[int, str], dict[str, Tensor]] = {}
    for draw in plan.looking if masks else ():
        if isinstance(draw.distribution, MaskWindow):
            spaces = (i for group in plan.groups if isinstance(group, Space) for i in group.indices)
            _check_unmoved(plan, draw.transform, sorted({*sum(plan.hops, ()), *plan.moving_layers, *spaces}))
            ways = [partial(torch.eq, other=label) for label in draw.distribution.labels] or [partial(torch.ne, other=0)]
            each = torch.stack([torch.stack([way(mask).any(1) for mask in masks]).any(0) for way in ways], 1)
            each = each.any(0, keepdim=True).expand_as(each) if plan.shared[draw.word // 4] else each
            found[draw.transform, draw.name] = {"mask": each}
    return found


def _boxes_seen(plan: Plan, parsed: Parsed) -> dict[tuple[int, str], dict[str, Tensor]]:
    boxes, valid = [], []
    samples, _ = batch_of(parsed)
    for entry in parsed.entries:
        if entry.kind is BOXES:
            rows = convert_boxes(flatten(entry, parsed.lead, plan.size_in), entry.box_format, "xyxy")
            real = torch.isfinite(rows).all(-1) & (box_area(rows) > 0)
            real = real if entry.valid is None else real & _flags(entry.valid, parsed.lead)
            boxes.append(torch.where(real[..., None], rows, 0.0).reshape(samples, -1, 4))
            valid.append(real.reshape(samples, -1))
    looking = [draw for draw in plan.looking if draw.distribution.boxes]
    if not boxes or not samples:
        return {}
    for draw in looking:
        _check_unmoved(plan, draw.transform, sorted({*sum(plan.hops, ()), *plan.moving_layers}))
    each = {"boxes": torch.cat(boxes, 1), "valid": torch.cat(valid, 1)}
    together = {name: rows.flatten(0, 1)[None].expand(samples, -1, *rows.shape[2:]) for name, rows in each.items()}
    return {(draw.transform, draw.name): together if plan.shared[draw.word // 4] else each for draw in looking}


def _moved(entry: Entry, flat: Tensor, path: list[Hop], options: Options) -> tuple[Tensor, Tensor]:
    """Move rows of coordinates along a path, and return which are still valid. A size of None leaves them unclipped."""
    precise = wide_dtype(flat.device)
    path = [(expanded(step.to(precise), flat.shape[0]), size) for step, size in path]
    assert entry.kind.move is not None
    out, valid = entry.kind.move(flat.to(precise), path, entry, options)
    return out.to(flat.dtype), valid
