"""Masks of objects, one channel each, under layers that mix or paste samples.

Owns: which masks have a channel for each object, cutting out and pasting objects, and what stays visible of the other objects.
Must not: change pictures: they are pasted elsewhere, by the cutouts from here.
Read next: ``layers.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64, Shaped, UInt8
from torch import Tensor

from pellucid.engine.execution import apply_field, shown
from pellucid.engine.lowering import Cutout, Lowered
from pellucid.engine.passes import compute_dtype
from pellucid.engine.plan import Plan, Single
from pellucid.errors import invalid
from pellucid.geometry.rectangles import cover
from pellucid.kernels.convolve import separable
from pellucid.kernels.convolve.gaussian import gaussian
from pellucid.kernels.layers import layers
from pellucid.random.patterns import uniform_field
from pellucid.segments import Layers, LayerSpec
from pellucid.targets.kinds import BOXES, Entry
from pellucid.targets.options import Options
from pellucid.targets.parsing import Parsed, flatten

__all__ = ["Covered", "Instances", "instances_of", "is_instances"]


class Covered(NamedTuple):
    """The effect of a pasting layer on objects with boxes.

    Args:
        pasted: which of the partner's objects are pasted.
        before, after: the number of visible pixels of each of the picture's own objects, before and after pasting.
        hull: the rectangle (pixel edges) around the pixels that are still visible.
    """

    pasted: Bool[Tensor, "b n"]
    before: Int64[Tensor, "b n"]
    after: Int64[Tensor, "b n"]
    hull: Float[Tensor, "b n 4"]


def is_instances(plan: Plan, entry: Entry, parsed: Parsed) -> bool:
    """Return whether masks have a channel for each object: their key begins with ``masks``, and the batch has boxes with as many
    rows or a step pastes objects.
    """
    if not plan.moving_layers or not entry.key.startswith("masks") or entry.tensor.dim() - parsed.lead != 3:
        return False
    return bool(plan.pasting) or _beside(entry, parsed) is not None


def _beside(masks: Entry, parsed: Parsed) -> Entry | None:
    """Return the boxes of the masks' objects: ``boxes_left`` belong to ``masks_left``."""
    rest, rows = masks.key.partition("_")[1:], masks.tensor.shape[:-2]
    same = (one for one in parsed.entries if one.kind is BOXES and one.key.partition("_")[1:] == rest)
    return next((one for one in same if one.tensor.shape[:-1] == rows), None)


def instances_of(lowered: Lowered, parsed: Parsed, options: Options) -> list[Instances]:
    """Return the masks of objects of a batch; raise if a step pastes objects and the masks do not match the boxes."""
    plan = lowered.plan
    found = [Instances(lowered, entry, parsed, options) for entry in parsed.entries if is_instances(plan, entry, parsed)]
    if plan.pasting:
        beside = {one.boxes.key for one in found if one.boxes is not None}
        rest = [entry for entry in parsed.entries if entry.kind is BOXES and entry.key not in beside]
        if len(found) > 1 or rest:
            raise invalid(
                f"the batch of {type(plan.steps[plan.pasting[0]].transform).__name__}",
                expected="'masks' (B, N, H, W) of objects, one for each box, once",
                got=", ".join(
                    f"{one.key!r} {tuple(one.tensor.shape)}" for one in parsed.entries if one.kind is BOXES or "masks" in one.key
                ),
            )
    return found


class Instances:
    """Masks of objects that go from layer to layer: call `lay` once for each layer, in the plan's order, and then `end`.

    Args:
        lowered: the plan and its values.
        entry: the masks.
        parsed, options: of the call.
    """

    def __init__(self, lowered: Lowered, entry: Entry, parsed: Parsed, options: Options) -> None:
        self.key, self.boxes = entry.key, _beside(entry, parsed)
        self._lowered, self._impl, self._mode = lowered, options.impl, options.interpolation_of(entry.kind)
        flat = flatten(entry, parsed.lead, lowered.plan.size_in)
        self._dtype = flat.dtype
        self._masks = flat if flat.is_floating_point() or self._mode == "nearest" else flat.to(torch.float32)
        self._groups = list(lowered.plan.groups)
        self.cutouts: dict[int, Cutout] = {}
        self.covered: dict[int, Covered] = {}

    def lay(self, index: int, valid: Bool[Tensor, "b n"] | None) -> None:
        """Warp the masks up to a layer and apply it; ``valid`` says which objects are real rather than padding."""
        at = next(i for i, group in enumerate(self._groups) if isinstance(group, Single) and group.index == index)
        self._lead(at)
        self._groups = self._groups[1:]
        segment, spec = self._lowered.segment(index), self._lowered.plan.segments[index]
        assert isinstance(segment, Layers)
        assert isinstance(spec, LayerSpec)
        source = shown(self._lowered, index, len(self._masks))
        if spec.pastes:
            self._paste(index, segment, source[:, 1], valid)
        else:
            reads = [_read(self._masks, segment, source, k, self._mode, self._impl) for k in range(source.shape[1])]
            self._masks = torch.cat(reads, 1)

    def _paste(self, index: int, segment: Layers, source: Int64[Tensor, "b"], valid: Tensor | None) -> None:
        """Stack the picture's own masks, without covered pixels, and the partner's masks, which are empty unless pasted."""
        assert segment.objects is not None
        words, share = segment.objects
        masks, opaque = self._masks, segment.opacity[:, 1]
        number = uniform_field(words, (1, 1, masks.shape[1]), torch.float64)[:, 0, 0]
        pasted = (number < share[:, None]) & (opaque > 0)[:, None]
        pasted = pasted if valid is None else pasted & valid[source]
        theirs = masks[source] * pasted[..., None, None].to(masks.dtype)
        plane, hard = _union(theirs), (opaque > 0.5)[:, None, None]
        hard = hard & (plane > 0.5)
        left = masks * (~hard)[:, None].to(masks.dtype)
        if valid is not None:
            before = _opaque(masks)
            after = before * (~hard)[:, None].to(torch.uint8)
            self.covered[index] = Covered(pasted, _pixels(before), _pixels(after), _hull(after))
        self.cutouts[index] = Cutout(_softened(plane, segment.sigma, self._impl), hard)
        self._masks = torch.cat((left, theirs), 1)

    def end(self) -> Tensor:
        """Return the masks of the result, in their original dtype."""
        self._lead(len(self._groups))
        whole = not self._dtype.is_floating_point and self._mode != "nearest"
        return (torch.round(self._masks) if whole else self._masks).to(self._dtype)

    def _lead(self, to: int) -> None:
        """Apply the passes before this one."""
        before, self._groups = self._groups[:to], self._groups[to:]
        how = {"interpolation": self._mode, "padding_mode": None, "fill": 0.0, "impl": self._impl, "masks": True}
        self._masks = apply_field(self._lowered, self._masks, groups=before, **how)  # type: ignore[arg-type]


def _opaque(masks: Shaped[Tensor, "b n h w"]) -> UInt8[Tensor, "b n h w"]:
    """Return which pixels belong to an object, as bytes 1 and 0: torch reduces bytes faster than booleans."""
    return (masks > 0.5 if masks.is_floating_point() else masks != 0).to(torch.uint8)


def _read(masks: Tensor, segment: Layers, source: Tensor, k: int, mode: str, impl: str) -> Shaped[Tensor, "b n h w"]:
    """Return the visible masks of layer k: inside of its rectangle, and not under a layer above with an opacity over one half."""
    if masks.shape[1] == 0:
        return masks
    rows, size = torch.arange(len(masks), device=masks.device), (masks.shape[-2], masks.shape[-1])
    one = slice(k, k + 1)
    opacity, box, maps = segment.opacity, segment.box, segment.src_from_dst
    read = layers(
        masks,
        source[:, one] - rows[:, None],
        (opacity[:, one] > 0).to(compute_dtype(masks.dtype)).expand(len(masks), 1),
        None if box is None else box[:, one].expand(len(masks), 1, 4),
        None if maps is None else maps[:, one, :2].expand(len(masks), 1, 2, 3),
        ground=(0.0,) * masks.shape[1],
        dtype=masks.dtype if masks.is_floating_point() else None,
        interpolation=mode,
        impl=impl,
    )
    if box is None:
        return read
    for above in range(k + 1, source.shape[1]):
        hidden = (cover(box[:, above], size, 0.0) > 0.5) & (opacity[:, above, None, None] > 0.5)
        read = torch.where(hidden[:, None], torch.zeros_like(read), read)
    return read


def _union(masks: Shaped[Tensor, "b n h w"]) -> Float[Tensor, "b h w"]:
    """Return the largest opacity of all objects at each pixel."""
    if not masks.is_floating_point():
        masks = _opaque(masks)
    if masks.shape[1] == 0:
        masks = masks.new_zeros((len(masks), 1, *masks.shape[2:]))
    plane = masks.amax(1)
    return torch.clamp(plane, 0.0, 1.0) if plane.is_floating_point() else plane.to(torch.float32)


def _softened(plane: Float[Tensor, "b h w"], sigma: float, impl: str) -> Float[Tensor, "b h w"]:
    """Blur a plane by a Gaussian with a reach of three sigmas, or of the picture's shorter side."""
    reach = min(math.ceil(3.0 * sigma), min(plane.shape[1:]) - 1)
    if reach <= 0:
        return plane
    taps = gaussian(plane.new_full((1,), sigma), 2 * reach + 1)
    return separable(plane[:, None], taps, taps, impl=impl)[:, 0]


def _pixels(present: UInt8[Tensor, "b n h w"]) -> Int64[Tensor, "b n"]:
    """Return the number of pixels of each object."""
    return present.sum(3, dtype=torch.int32).sum(2)


def _hull(present: UInt8[Tensor, "b n h w"]) -> Float[Tensor, "b n 4"]:
    """Return the rectangles, in pixel edges, around the pixels of each object; of size 0 for an object without pixels."""
    ends: list[Sequence[Tensor]] = []
    for axis in (2, 3):  # columns, then rows
        seen = present.amax(axis)
        place = torch.arange(seen.shape[-1], device=seen.device, dtype=torch.float64)
        last = (place + 1.0) * seen
        first = float(seen.shape[-1]) - (float(seen.shape[-1]) - place) * seen
        high = last.amax(-1)
        ends.append((torch.minimum(first.amin(-1), high), high))
    (x0, x1), (y0, y1) = ends
    return torch.stack((x0, y0, x1, y1), -1)
