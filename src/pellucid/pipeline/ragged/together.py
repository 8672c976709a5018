"""Pictures of several sizes through passes that are lowered once for all of them.

Owns: `images_together`, and where that can be.
Must not: differ in a bit from the call with one picture alone.
Read next: ``../../kernels/several.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pellucid.core.compilers import numba_works
from pellucid.core.tape import TapeError, is_plain_eager
from pellucid.engine.lowering import Lowered, may_close, together
from pellucid.engine.plan import Run
from pellucid.kernels.several import Pictures
from pellucid.pipeline.applying import image_of
from pellucid.pipeline.ragged.reading import Part
from pellucid.pipeline.records import Record
from pellucid.targets.kinds import IMAGE
from pellucid.targets.options import Options
from pellucid.targets.parsing import Parsed

__all__ = ["images_together"]


def images_together(records: Sequence[Record], parts: Sequence[Part], options: Options) -> dict[str, Tensor]:
    """What becomes of the pictures of a list, by key, where one lowering serves many of its sizes; else nothing.

    So it is where the first pass brings all pictures to one size, and what the steps lower to differs in numbers alone.

    Args:
        records: of each part.
        parts: all of the list.
        options: of the pipeline.
    """
    kinds: dict[int, list[int]] = {}  # parts whose plans differ in sizes alone
    for k, record in enumerate(records):
        kinds.setdefault(id(record.plan.owner), []).append(k)
    if (
        len(kinds) == len(parts)
        or not is_plain_eager()
        or not numba_works()
        or not all(map(_goes_together, records))
        or not all(_is_plain(part.parsed) for part in parts)
    ):
        return {}
    if len({record.plan.size_out for record in records}) > 1:
        return {}
    try:
        found = [_of_one_kind([records[k] for k in some], [parts[k] for k in some], options) for some in kinds.values()]
    except TapeError:  # sizes that go different ways
        return {}
    if len(found) == 1:
        return found[0]
    order = torch.tensor([place for some in kinds.values() for place in sorted(place for k in some for place in parts[k].where)])
    return {key: torch.cat([each[key] for each in found])[order.argsort()] for key in found[0]}


def _goes_together(record: Record) -> bool:
    """Whether the first pass of a plan brings pictures to the size that they end in."""
    plan = record.plan
    if record.device.type != "cpu":
        return False
    first = plan.groups[0] if plan.groups else None
    if not isinstance(first, Run) or not first.warps or plan.bends or plan.moving_layers or plan.smooth:
        return False
    return first.size_out == plan.size_out


def _is_plain(parsed: Parsed) -> bool:
    """Whether these are batches of pictures in memory."""
    return (
        parsed.lead == 1
        and all(entry.depth is None for entry in parsed.entries)
        and all(type(image) is Tensor and image.is_cpu and image.data_ptr() % image.itemsize == 0 for image in _images(parsed))
    )


def _images(parsed: Parsed) -> list[Tensor]:
    return [entry.tensor for entry in parsed.entries if entry.kind is IMAGE]


def _of_one_kind(records: Sequence[Record], parts: Sequence[Part], options: Options) -> dict[str, Tensor]:
    """The pictures of parts whose plans differ in sizes alone, by key, in the order of their places."""
    ranks = {place: rank for rank, place in enumerate(sorted(place for part in parts for place in part.where))}
    places = tuple(tuple(ranks[place] for place in part.where) for part in parts)
    params, device = together([record.params for record in records], places), torch.device("cpu")
    apart = [(Lowered(record.plan, record.params, device), where) for record, where in zip(records, places, strict=True)]
    lowered = Lowered(records[0].plan, params, device, parts=apart)
    if any(image.dtype == torch.uint8 for part in parts for image in _images(part.parsed)):
        if lowered.plan.parts:
            raise TapeError("bytes have passes of their own")
        if lowered.taped and may_close(lowered, lowered.plan.groups):
            raise TapeError("passes over bytes leave out the samples that they do not change")
    return {
        entry.key: image_of(lowered, Pictures(tuple(part.parsed.entries[e].tensor for part in parts), places), options)
        for e, entry in enumerate(parts[0].parsed.entries)
        if entry.kind is IMAGE
    }
