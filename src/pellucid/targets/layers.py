"""The effect of layers (mixing and pasting samples) and of holes on boxes, points and labels.

Owns: joining the rows of several samples, deciding which rows are covered, and mixing labels.
Must not: touch pixels or draw.
Read next: ``../pipeline/applying.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.boxes import convert_boxes, visible
from pellucid.core.tape import is_plain_eager
from pellucid.engine.execution import shown
from pellucid.engine.lowering import Lowered
from pellucid.errors import invalid, wrong_type
from pellucid.geometry.clipping import clipped, without
from pellucid.geometry.matrices import inverse
from pellucid.geometry.polygons import extents, of_one_length
from pellucid.segments import BlendSpec, Layers, LayerSpec, Patch
from pellucid.targets.instances import Covered, Instances, is_instances
from pellucid.targets.kinds import BOXES, Entry, kind_of
from pellucid.targets.options import Options
from pellucid.targets.parsing import Parsed, batch_of

__all__ = ["laid_rows", "mixed_labels", "rows_beside_holes"]


_ROUNDING = 1e-6  # relative error of areas that are sums over cells


def laid_rows(
    lowered: Lowered,
    index: int,
    entry: Entry,
    rows: Float[Tensor, "b n c"],
    valid: Bool[Tensor, "b n"],
    options: Options,
    masks: Instances | None = None,
) -> tuple[Float[Tensor, "b m c"], Bool[Tensor, "b m"]]:
    """Return the rows of all layers, the lowest layer first, mapped to the common canvas and clipped by their layer's rectangle.

    A row is valid if its layer shows it, and no layer above with an opacity over one half hides it. If objects are pasted, boxes
    with masks (``masks``) are cut by these.
    """
    layer = lowered.segment(index)
    assert isinstance(layer, Layers)
    if index in lowered.plan.pasting:
        _check_has_masks(lowered, index, entry)
        return _pasted(lowered, index, entry, rows, valid, options, masks)
    source, size = shown(lowered, index, rows.shape[0]), lowered.plan.specs[index].size
    whole = rows.new_tensor([0.0, 0.0, size[1], size[0]], dtype=layer.opacity.dtype).expand(rows.shape[0], 4)
    boxes = [whole if layer.box is None else layer.box[:, k] for k in range(source.shape[1])]
    seen = layer.opacity > 0
    found, flags = [], []
    for k, box in enumerate(boxes):
        mine = source[:, k]
        moved, present = rows[mine], valid[mine]
        if layer.src_from_dst is not None:
            assert entry.kind.move is not None
            onto = inverse(layer.src_from_dst[:, k])
            moved, still = entry.kind.move(moved.to(onto.dtype), [(onto, None)], entry, options)
            moved, present = moved.to(rows.dtype), present & still
        moved, inside = _within(moved, box, entry, options)
        present = present & inside & seen[:, k, None]
        for above in range(k + 1, len(boxes)) if layer.box is not None else ():
            opaque = layer.opacity[:, above, None] > 0.5
            moved, hidden = _beneath(moved, boxes[above], opaque, entry)
            present = present & ~hidden
        found.append(moved)
        flags.append(present)
    return torch.cat(of_one_length(found) if entry.kind.corners else found, 1), torch.cat(flags, 1)


def rows_beside_holes(
    lowered: Lowered, index: int, entry: Entry, rows: Float[Tensor, "b n c"], options: Options
) -> tuple[Float[Tensor, "b n c"], Bool[Tensor, "b n"]]:
    """Cut holes (erased rectangles) out of rows, and return the rows and which of them are still visible.

    A box becomes the hull of its visible part. A point, or a rotated box (by its centre), is either hidden or not.
    """
    segment, spec = lowered.segment(index), lowered.plan.segments[index]
    assert isinstance(segment, Patch)
    assert isinstance(spec, BlendSpec)
    if not spec.hides:
        return rows, torch.ones(rows.shape[:2], dtype=torch.bool, device=rows.device)
    if entry.kind.corners:
        return _outside(rows, segment.box.to(rows.dtype), entry, options)
    edges = _edges(rows, entry)
    low, high = (part[:, None] for part in segment.box.to(rows.dtype).split(2, -1))  # b 1 m 2
    if entry.kind is not BOXES or entry.box_format == "cxcywhr":
        at = edges[..., None, :2]
        return rows, ~((at >= low) & (at < high)).all(-1).any(-1)
    # Divide each box into cells, by all coordinates at which the box or a hole begins or ends.
    first, last = edges[..., None, :2], edges[..., None, 2:]
    ends = torch.cat((first, last, *(torch.minimum(torch.maximum(end, first), last) for end in (low, high))), 2)
    ends = ends.sort(2).values  # b n 2m+2 2
    middles, lengths = (ends[..., 1:, :] + ends[..., :-1, :]) / 2, ends.diff(dim=2)
    over = (middles[..., None, :] >= low[:, :, None]) & (middles[..., None, :] < high[:, :, None])  # b n 2m+1 m 2
    hidden = torch.einsum("bnim,bnjm->bnij", *(part.to(rows.dtype) for part in over.unbind(-1))) > 0  # columns by rows
    areas = lengths[..., :, None, 0] * lengths[..., None, :, 1]
    left = torch.where(hidden, 0.0, areas)
    area, before = left.sum((-1, -2)), (edges[..., 2:] - edges[..., :2]).prod(-1)
    seen = torch.stack((left.sum(-1) > 0, left.sum(-2) > 0), -1)  # b n 2m+1 2
    far = torch.full((), torch.inf, dtype=rows.dtype, device=rows.device)
    start, stop = torch.where(seen, ends[..., :-1, :], far).amin(2), torch.where(seen, ends[..., 1:, :], -far).amax(2)
    kept = (area > 0) & (area >= options.min_visibility * before * (1 - _ROUNDING)) & (area >= options.min_area * (1 - _ROUNDING))
    hull = torch.cat((start, stop), -1)
    if options.min_size:
        kept = kept & visible(edges, hull, min_size=options.min_size)
    same = (hull == edges).all(-1) | ~(area > 0)
    return torch.where(same[..., None], rows, convert_boxes(hull, "xyxy", entry.box_format)), kept


def _outside(
    rows: Float[Tensor, "b n v 2"], holes: Float[Tensor, "b m 4"], entry: Entry, options: Options
) -> tuple[Tensor, Tensor]:
    """Cut holes out of polygons and lines, and return which of them stay valid."""
    left, closed = rows, entry.kind.corners != "line"
    for box in holes[:, None].unbind(2):
        hole = ((box[..., 2:] > box[..., :2]).all(-1) & box.isfinite().all(-1))[..., None, None]
        some, same = of_one_length((without(left, torch.where(hole[..., 0], box, 0.0), closed=closed), left))
        left = torch.where(hole, some, same)
    return _seen(rows, left, entry, options)


def _seen(
    before: Float[Tensor, "b n v 2"], after: Float[Tensor, "b n w 2"], entry: Entry, options: Options
) -> tuple[Float[Tensor, "b n w 2"], Bool[Tensor, "b n"]]:
    """Return outlines after a cut, quadrilaterals as they were before it, and which of them stay valid."""
    form = entry.kind.corners
    whole, left = (extents(part, closed=form != "line") for part in (before, after))
    kept = left >= torch.clamp(options.min_visibility * whole, min=options.min_area * (form != "line")) * (1 - _ROUNDING)
    return before if form == "quad" else after, (left > 0) & kept


def _check_has_masks(lowered: Lowered, index: int, entry: Entry) -> None:
    """Raise for polygons under a pasting layer: it cuts objects out by masks."""
    if entry.kind.corners:
        fix = "Pass 'masks': functional.rasterize(polygons, size) > 0.5."
        got = f"{entry.kind.name} beside {type(lowered.plan.steps[index].transform).__name__}"
        raise invalid(f"batch[{entry.key!r}]", expected="masks, to know what covers what", got=got, fix=fix)


def _pasted(
    lowered: Lowered, index: int, entry: Entry, rows: Tensor, valid: Tensor, options: Options, masks: Instances | None
) -> tuple[Tensor, Tensor]:
    """Return the picture's own rows, cut by the pasted objects, and then the partner's rows, valid if they are pasted."""
    mine = shown(lowered, index, rows.shape[0])[:, 1]
    theirs, present = rows[mine], valid[mine]
    if masks is not None:
        covered = masks.covered[index]
        rows, kept = _less(rows, covered, entry, options)
        return torch.cat((rows, theirs), 1), torch.cat((valid & kept, covered.pasted & present), 1)
    if index not in lowered.cutouts:
        return torch.cat((rows, theirs), 1), torch.cat((valid, torch.zeros_like(present)), 1)
    hard = lowered.cutouts[index].hard
    own, other = (_at(hard, _edges(one, entry)[..., :2]) for one in (rows, theirs))
    return torch.cat((rows, theirs), 1), torch.cat((valid & ~own, present & other), 1)


def _less(rows: Tensor, covered: Covered, entry: Entry, options: Options) -> tuple[Tensor, Tensor]:
    """Cut boxes to the visible part of their masks, and return which of them stay valid."""
    before, after = covered.before, covered.after
    untouched = after == before
    kept = (after > 0) & (after >= options.min_visibility * before) & (after >= options.min_area)
    if entry.box_format == "cxcywhr":  # rotated boxes are not cut
        return rows, untouched | kept
    edges, hull = _edges(rows, entry), covered.hull.to(rows.dtype)
    low, high = torch.maximum(edges[..., :2], hull[..., :2]), torch.minimum(edges[..., 2:], hull[..., 2:])
    same = untouched | ~(high > low).all(-1)  # a mask may lie beside its box
    left = convert_boxes(torch.cat((low, high), -1), "xyxy", entry.box_format)
    return torch.where(same[..., None], rows, left), untouched | kept


def _at(plane: Bool[Tensor, "b h w"], edges: Float[Tensor, "b n 2"]) -> Bool[Tensor, "b n"]:
    """Read a plane at points in pixel-edge coordinates; False outside of the picture and for points that are not finite."""
    height, width = plane.shape[1:]
    column, row = torch.floor(torch.where(edges.isfinite(), edges, -1.0)).to(torch.int64).unbind(-1)
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    place = torch.where(inside, row * width + column, 0)
    return inside & plane.flatten(1).expand(len(place), -1).gather(1, place)


def _edges(rows: Tensor, entry: Entry) -> Tensor:
    """Return upright boxes as ``xyxy``, and points and rotated boxes (by their centre) as boxes of size 0; in pixel edges."""
    if entry.kind is BOXES and entry.box_format != "cxcywhr":
        return convert_boxes(rows, entry.box_format, "xyxy")
    at = rows[..., :2] + (0.0 if entry.kind is BOXES else 0.5)
    return torch.cat((at, at), -1)


def _within(rows: Tensor, box: Tensor, entry: Entry, options: Options) -> tuple[Tensor, Tensor]:
    """Clip rows to a rectangle, and return which have a part in it; a point, or a rotated box's centre, is in it or not."""
    if entry.kind.corners:
        return _seen(rows, clipped(rows, box.to(rows.dtype)[:, None], closed=entry.kind.corners != "line"), entry, options)
    edges, box = _edges(rows, entry), box.to(rows.dtype)[:, None]
    low, high = box[..., :2], box[..., 2:]
    if entry.kind is not BOXES or entry.box_format == "cxcywhr":
        return rows, ((edges[..., :2] >= low) & (edges[..., :2] < high)).all(-1)
    cut = torch.cat((torch.maximum(edges[..., :2], low), torch.minimum(edges[..., 2:], high)), -1)
    valid = visible(edges, cut, **options.least)
    inside = (cut == edges).all(-1, keepdim=True)
    return torch.where(inside, rows, convert_boxes(torch.where(valid[..., None], cut, 0.0), "xyxy", entry.box_format)), valid


def _beneath(rows: Tensor, box: Tensor, opaque: Tensor, entry: Entry) -> tuple[Tensor, Tensor]:
    """Return what opaque rectangles leave of rows, and which rows they hide.

    An upright box gets shorter if the rectangle covers one of its sides from end to end. If it covers a corner or the middle, the
    hull of the visible part is the box itself.
    """
    if entry.kind.corners:
        closed = entry.kind.corners != "line"
        some, same = of_one_length((without(rows, box.to(rows.dtype)[:, None], closed=closed), rows))
        left = torch.where(opaque[..., None, None], some, same)
        return rows if entry.kind.corners == "quad" else left, extents(left, closed=closed) == 0
    edges, box = _edges(rows, entry), box.to(rows.dtype)[:, None]
    low, high = box[..., :2], box[..., 2:]
    first, last = edges[..., :2], edges[..., 2:]
    over = (low <= first) & (high >= last)  # along x, along y
    hidden = opaque & over.all(-1) & ((high > first) if entry.kind is not BOXES else (high > low)).all(-1)
    if entry.kind is not BOXES or entry.box_format == "cxcywhr":
        return rows, hidden
    across = over.flip(-1) & opaque[..., None]
    start = torch.where(across & (low <= first) & (high > first) & (high < last), high, first)
    stop = torch.where(across & (high >= last) & (low < last) & (low > first), low, last)
    left = torch.cat((start, stop), -1)
    same = (left == edges).all(-1, keepdim=True)
    return torch.where(same, rows, convert_boxes(left, "xyxy", entry.box_format)), hidden


def mixed_labels(lowered: Lowered, parsed: Parsed, options: Options) -> dict[str, Any]:
    """Return the untransformed entries with their labels mixed as the layers mix samples.

    Labels with a number for each row of boxes or points are joined like those rows; labels of pictures become shares of classes.
    """
    rows = [entry.tensor.shape[: -2 if entry.kind.corners else -1] for entry in parsed.entries if entry.kind.move]
    rows += [entry.tensor.shape[:-2] for entry in parsed.entries if is_instances(lowered.plan, entry, parsed)]
    result = dict(parsed.untouched)
    for key, value in parsed.untouched.items():
        kind = None if key in options.passthrough else kind_of(key, options.targets)
        if kind is not None and kind.name in ("labels", "keypoint_labels"):
            result[key] = _labels(key, value, rows, lowered, parsed)
    return result


def _labels(key: str, value: object, rows: Sequence[torch.Size], lowered: Lowered, parsed: Parsed) -> Tensor:
    if not isinstance(value, Tensor):
        fix = f"Leave it alone by passthrough=({key!r},)."
        raise wrong_type(f"batch[{key!r}]", expected="a tensor of labels, which are mixed", got=type(value).__name__, fix=fix)
    lead, follows = parsed.lead, value.shape in rows
    samples, frames = batch_of(parsed)
    flat = value[None] if lead == 0 else value.flatten(0, 1) if follows and lead == 2 else value
    if flat.shape[:1] != (samples * frames if follows else samples,):
        raise invalid(f"batch[{key!r}]", expected=f"labels of {samples} samples", got=f"shape {tuple(value.shape)}")
    for index in lowered.plan.moving_layers:
        if follows:
            source = shown(lowered, index, samples * frames)
            flat = torch.cat([flat[mine] for mine in source.unbind(1)], 1)
        else:
            flat = _shares(key, flat, index, lowered, samples, frames)
    return flat[0] if lead == 0 else flat.unflatten(0, (samples, frames)) if follows and lead == 2 else flat


def _shares(key: str, labels: Tensor, index: int, lowered: Lowered, samples: int, frames: int) -> Tensor:
    layer, spec = lowered.segment(index), lowered.plan.segments[index]
    assert isinstance(layer, Layers)
    assert isinstance(spec, LayerSpec)
    if layer.share is None:
        return labels
    share = layer.share[::frames]
    if not labels.is_floating_point():
        name, shape = type(lowered.plan.steps[index].transform).__name__, tuple(labels.shape)
        if spec.num_classes is None or labels.dim() != 1:
            fix = f"Say {name}(num_classes=...), or leave them alone by passthrough=({key!r},)."
            expected = "shares of classes (B, num_classes), class numbers (B,), or a label for each row of boxes or keypoints"
            got = f"whole numbers of shape {shape}" + (", and no num_classes" if labels.dim() == 1 else "")
            raise invalid(f"batch[{key!r}]", expected=expected, got=got, fix=fix)
        beyond = labels >= spec.num_classes
        if labels.is_cpu and is_plain_eager() and bool(beyond.any()):
            raise invalid(f"batch[{key!r}]", expected=f"class numbers below {spec.num_classes}", got=f"{int(labels.max())}")
        classes = torch.arange(spec.num_classes, device=labels.device)
        labels = (labels[:, None] == classes).to(torch.get_default_dtype())
        labels = labels.masked_fill(beyond[:, None], torch.nan)  # where nobody looks at values
    source = shown(lowered, index, samples, frames=1)
    share = share.expand(samples, -1).to(labels.dtype).reshape(*source.shape, *[1] * (labels.dim() - 1))
    return (share * labels[source]).sum(1)
