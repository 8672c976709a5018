"""Volumes larger than memory: compute the result block by block, reading only the part of the volume that a block needs.

Owns: `blocks` of a pipeline, and which pipelines can be computed in blocks.
Must not: draw.
Read next: ``../kernels/volume/blocks.py``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from pellucid.core.arguments import whole_number
from pellucid.core.constants import pinned
from pellucid.engine.execution import total_src_from_dst
from pellucid.engine.lowering import Lowered
from pellucid.engine.plan import Group, Plan, Run, Single, Space
from pellucid.engine.space import blocks_of
from pellucid.errors import invalid, wrong_type
from pellucid.geometry.space import mirrors3
from pellucid.pipeline.applying import apply_targets, exchanged, field_of, image_of
from pellucid.pipeline.records import Record
from pellucid.random.key import Key
from pellucid.segments import CurveSpec
from pellucid.targets.kinds import IMAGES, Entry
from pellucid.targets.options import Options
from pellucid.targets.parsing import Parsed, flatten, parse, unflatten
from pellucid.transforms.choices import steps_of
from pellucid.types import Size3

__all__ = ["Blocks", "blocks"]


class Blocks:
    """The result of a pipeline on one volume, block by block: :meth:`pellucid.Pipeline.blocks` makes it.

    Iterating gives pairs (place, result): three slices along depth, height and width, and that part of the call's result, in the
    structure of the batch. Iterating again computes again.

    Args:
        sources: the arrays or tensors that voxels are read from, by key.
        parsed: the batch, without voxels.
        record: of the draw.
        edges: (depth, height, width) of a block.
        options: of the pipeline.

    ``record`` is an attribute, as are ``size``, (depth, height, width) of the whole result, and ``others``: for a dict, the results
    of points, cuboids and the affine.

    Errors:
        InvalidArgument for transforms that need more than a map reads.

    Example:
        >>> turn, volume = pellucid.Pipeline([pellucid.RandomAffine3(20)], seed=0), torch.rand(1, 8, 8, 8)
        >>> blocks = turn.blocks(volume, 4)
        >>> len(blocks), blocks.size
        (8, (8, 8, 8))
        >>> whole = turn.apply(volume, blocks.record)
        >>> all(torch.equal(part, whole[(..., *place)]) for place, part in blocks)
        True
    """

    def __init__(self, sources: Mapping[str, Any], parsed: Parsed, record: Record, edges: Size3, options: Options) -> None:
        self.record, self._sources, self._parsed, self._edges, self._options = record, sources, parsed, edges, options
        plan = record.plan
        if any(entry.kind in IMAGES for entry in parsed.entries):
            for group in plan.groups:
                _check_by_voxel(plan, group)
        self.size = cast(Size3, plan.specs[-1].extent)
        moves = tuple(entry for entry in parsed.entries if entry.kind.move)
        rest = replace(parsed, entries=moves)
        self.others: dict[str, Any] = {} if parsed.form.bare else apply_targets(record, rest, options)

    def __len__(self) -> int:
        return math.prod(-(-length // edge) for length, edge in zip(self.size, self._edges, strict=True))

    def __iter__(self) -> Iterator[tuple[tuple[slice, slice, slice], Any]]:
        for z, y, x in itertools.product(*(range(0, length, edge) for length, edge in zip(self.size, self._edges, strict=True))):
            d, h, w = (min(edge, length - at) for at, edge, length in zip((z, y, x), self._edges, self.size, strict=True))
            made = {entry.key: self._made(entry, (z, y, x), (d, h, w)) for entry in self._parsed.entries if not entry.kind.move}
            yield (slice(z, z + d), slice(y, y + h), slice(x, x + w)), self._parsed.form.closed(made)

    def _made(self, entry: Entry, first: Size3, size: Size3) -> Tensor:
        """Compute a block of the result of one volume."""
        plan, picture = self.record.plan, entry.kind in IMAGES
        lowered = Lowered(plan, self.record.params, self.record.device)
        lowered.blocks, (corner, held) = blocks_of(plan.groups if picture else plan.spaces, lowered, first, size)
        place = tuple(slice(at, at + length) for at, length in zip(corner, held, strict=True))
        read = _read(self._sources[entry.key], place, picture)
        flat = flatten(parse({entry.key: read}, self._options, lead=0).entries[0], 0, (0, 0))
        out = (image_of if picture else field_of)(lowered, flat, self._options, *(() if picture else (entry,)))
        total = total_src_from_dst(lowered)
        if (pairs := self._options.pairs.get(entry.key, ())) and total is not None:
            out = exchanged(out, pairs, mirrors3(total))
        return unflatten(out, entry, 0, size[:2], plan)


@pinned
def blocks(self: Any, batch: Any, size: Any = 128, *, record: Record | None = None, key: Key | None = None) -> Blocks:
    """Compute the result for one volume block by block, for volumes larger than memory: a block reads only what it needs.

    Args:
        batch: a volume (C, D, H, W), or a dict of one volume's targets. Volumes and labels are tensors, or anything with
            ``shape``, ``dtype`` and slices, such as memory-mapped arrays, HDF5 and Zarr; in volumes, integers other than bytes
            become float32 when they are read.
        size: of a block: a number of voxels, or (depth, height, width); the last blocks along an axis may be smaller.
        record: of an earlier draw for volumes of this size; default a new one.
        key: as in the call, if there is no record.

    Returns:
        The blocks in order, each computed when it is asked for. On the CPU they equal the call's result bit for bit.

    Gradient:
        As the call. Each block has its own graph from ``record.params`` on, so calls of ``backward`` after each block add up. The
        position of a window after a field gets no gradient.

    Errors:
        As the call; InvalidArgument, with their name, for transforms that read more than a map does: statistics, blurs, noise,
        ``RandomCrop3(foreground=...)``.

    Example:
        >>> augment = pellucid.Pipeline([pellucid.RandomFlip3("x", p=1.0)])
        >>> [part.shape for _, part in augment.blocks(torch.rand(1, 4, 4, 6), (4, 4, 3))]
        [torch.Size([1, 4, 4, 3]), torch.Size([1, 4, 4, 3])]
    """
    if self._scene is not None or self.learned.predicts:
        raise invalid("blocks", expected="a pipeline without share and predicted numbers", got="one with them")
    for step in (each.transform for each in steps_of(self.transforms)):
        if getattr(step, "foreground", 0.0):
            fix = "Leave it out, or find a window by a small copy of the labels."
            expected = "draws that do not look at all labels, for blocks"
            raise invalid(type(step).__name__, expected=expected, got="foreground", fix=fix)
    given = dict(batch) if isinstance(batch, Mapping) else {"": batch}
    stand = {name: _stand_in(value) for name, value in given.items()}
    parsed = self._parse(stand if isinstance(batch, Mapping) else stand[""], record)
    if parsed.lead:
        raise invalid(
            "batch", expected="one volume, (C, D, H, W)", got=f"{parsed.lead} leading axis", fix="Call with one at a time."
        )
    entries = [entry for entry in parsed.entries if not entry.kind.move]
    if not entries or not entries[0].kind.space:
        raise invalid("batch", expected="a volume or labels of one", got=[entry.kind.name for entry in parsed.entries])
    several = tuple(size) if isinstance(size, tuple | list) else (size, size, size)
    if len(several) != 3:
        raise invalid("size", expected="a number of voxels, or (depth, height, width)", got=repr(size))
    depth, height, width = (whole_number("size", length, 1, 1 << 24) for length in several)
    drawn = self._draw(parsed, key) if record is None else record
    sources = given if isinstance(batch, Mapping) else {entries[0].key: batch}
    return Blocks(sources, parsed, drawn, (depth, height, width), self.options)


def _stand_in(value: Any) -> Any:
    """Replace a volume by a tensor of its shape without memory for voxels, floating point or bytes; keep smaller values."""
    shape = getattr(value, "shape", None)
    if shape is None or len(shape) < 3:
        return value
    if not hasattr(value, "dtype"):
        raise wrong_type("batch", expected="tensors, or arrays with a shape and a dtype", got=type(value).__name__)
    one = (
        value.new_zeros(())
        if isinstance(value, Tensor)
        else torch.from_numpy(np.zeros((), value.dtype).astype(_native(value.dtype)))
    )
    whole = not one.is_floating_point() and one.dtype != torch.uint8
    return (one.to(torch.float32) if whole else one).expand(tuple(shape))


def _native(dtype: Any) -> Any:
    return np.dtype(dtype).newbyteorder("=")


def _read(value: Any, place: tuple[slice, ...], picture: bool) -> Tensor:
    """Read a part of a volume; integers other than bytes become float32 in pictures."""
    part = value[(..., *place)]
    if not isinstance(part, Tensor):
        part = torch.from_numpy(np.array(part, dtype=_native(part.dtype)))
    whole = picture and not part.is_floating_point() and part.dtype != torch.uint8
    return part.to(torch.float32) if whole else part


def _check_by_voxel(plan: Plan, group: Group) -> None:
    """Raise for passes that read more of a volume than a map does: statistics, neighbours, noise."""
    if isinstance(group, Space) or (isinstance(group, Run) and not (group.warps or group.pivot or group.settled)):
        return
    spec = plan.segments[group.index] if isinstance(group, Single) else None
    if isinstance(spec, CurveSpec) and spec.alone:
        return
    name = type(plan.steps[group.indices[0]].transform).__name__
    fix = "Give it to the blocks or patches that follow, in a pipeline of its own."
    raise invalid(name, expected="maps, and colours of a voxel alone, for blocks", got="one that needs all of a volume", fix=fix)
