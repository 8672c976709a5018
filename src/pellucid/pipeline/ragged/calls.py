"""The calls of a pipeline on lists of pictures: one draw, then the passes of each size.

Owns: the order of those steps, and `images_together`: passes that are lowered once for all sizes.
Must not: give other bits than the call with one picture alone.
Read next: ``../module.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from pellucid.core.compilers import numba_works
from pellucid.core.tape import TapeError, is_plain_eager
from pellucid.engine.drawing import draw_each, draw_params
from pellucid.engine.lowering import Lowered, may_close, together
from pellucid.engine.plan import Plan, Run
from pellucid.errors import invalid
from pellucid.kernels.several import Pictures
from pellucid.pipeline.applying import finished, handed_back, image_of, inverted, results_of
from pellucid.pipeline.interface import PipelineLike
from pellucid.pipeline.ragged.reading import Part, Ragged, ends_static, gather, parts_of, read_ragged
from pellucid.pipeline.ragged.record import RaggedRecord, scattered
from pellucid.pipeline.recipes import ListRecipe
from pellucid.pipeline.records import Record, record_is_of
from pellucid.random.key import Key
from pellucid.targets.kinds import IMAGE
from pellucid.targets.options import Options, check_no_scale
from pellucid.targets.parsing import Parsed

__all__ = [
    "applied_list", "apply_lists", "draw_lists", "forward_lists", "invert_lists", "key_of_list", "planned_list", "recorded_list",
    "valid_masks",
]  # fmt: skip

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _eager(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Run a function outside of compiled graphs; torch's compiler is imported only if it is running."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not torch.compiler.is_compiling():
            return function(*args, **kwargs)
        torch._dynamo.graph_break("lists of pictures run eagerly: their sizes decide what runs; stack what has one size")
        return torch.compiler.disable(function)(*args, **kwargs)

    return call


@_eager
def forward_lists(pipeline: PipelineLike, batch: Any, key: Key | None, return_record: bool, kind: tuple[Any, ...] | None) -> Any:
    """`Pipeline.forward` for lists; ``kind`` is the result of `kind_of_call`."""
    ragged, records = _drawn(pipeline, batch, key, unpacked=return_record)
    result = applied_list(pipeline, ragged, records)
    if kind is not None and len(records) == 1 and not pipeline.learned.distributions and pipeline._look.saw(ragged.samples[0]):
        recipe = ListRecipe.of(records[0].plan, ragged.parts[0].parsed, pipeline.options, result)
        pipeline._recipes.keep(kind, None if pipeline._settles else recipe)
    return (result, recorded_list(ragged, records)) if return_record else result


@_eager
def draw_lists(pipeline: PipelineLike, batch: Any, key: Key | None) -> RaggedRecord:
    """`Pipeline.draw` for lists."""
    return recorded_list(*_drawn(pipeline, batch, key, unpacked=True))


@_eager
def apply_lists(pipeline: PipelineLike, batch: Any, record: RaggedRecord) -> Any:
    """`Pipeline.apply` with the record of a list."""
    ragged = _read(pipeline, batch, record)
    return applied_list(pipeline, ragged, [record.part(part.where) for part in ragged.parts])


def invert_lists(pipeline: PipelineLike, batch: Any, record: RaggedRecord) -> Any:
    """`Pipeline.inverse` with the record of a list; pictures come back as a list."""
    ragged = _read(pipeline, batch, record, inverse=True)
    results = [inverted(record.part(part.where), part.parsed, pipeline.options) for part in ragged.parts]
    result = gather(ragged, results, {}, stacked=False, padded=_padded(pipeline, ragged), sizes=record.sizes_in)
    return ragged.form.closed(handed_back({**result, **ragged.untouched}, ragged.samples[0], listed=pipeline.options.out == "same"))


def valid_masks(record: RaggedRecord, valid_mask: Callable[[Record], Tensor]) -> list[Tensor]:
    """`Pipeline.valid_mask` of each sample."""
    return scattered(len(record), [(where, valid_mask(part)) for where, part in record.parts()])


def key_of_list(pipeline: PipelineLike, batch: Any, key: Key | None) -> Key:
    """`Pipeline.key_of` for lists."""
    ragged = _read(pipeline, batch)
    return Key(*pipeline._key_parts(ragged.parts[0].parsed, key, len(ragged.samples)))


def _read(pipeline: PipelineLike, batch: Any, record: RaggedRecord | None = None, *, inverse: bool = False) -> Ragged:
    ragged = read_ragged(batch, pipeline.options, record=record, inverse=inverse)
    if record is not None:
        record_is_of(record.plans[0], pipeline.transforms)
        _check_apart(record.plans[0])
    return ragged


def _check_apart(plan: Plan) -> None:
    """Raise if a step mixes samples, which may differ in size here."""
    for index in plan.moving_layers:
        fix = "Bring them to one size in a first pipeline, and pass its batch to a second one that mixes."
        expected = f"one batch for {type(plan.steps[index].transform).__name__}, which puts pictures or parts of them together"
        raise invalid("batch", expected=expected, got="a list of pictures", fix=fix)


def planned_list(pipeline: PipelineLike, batch: Any, key: Key | None) -> tuple[Ragged, list[Plan], Tensor, Tensor, Tensor]:
    """Return a list divided into parts that each end in one size, the parts' plans, and (seed, step, index) to draw with."""
    ragged = _read(pipeline, batch)
    seed, step, whole = pipeline._key_parts(ragged.parts[0].parsed, key, len(ragged.samples))
    settled = pipeline._settled([pipeline._spec(sample) for sample in ragged.samples], seed, step, whole)
    ragged = ragged if settled is None else replace(ragged, parts=parts_of(ragged.samples, settled))
    plans = [pipeline._planned(part.parsed, settled[part.where[0]] if settled else None) for part in ragged.parts]
    _check_apart(plans[0])
    return ragged, plans, seed, step, whole


def _drawn(pipeline: PipelineLike, batch: Any, key: Key | None, *, unpacked: bool) -> tuple[Ragged, list[Record]]:
    """Draw once for all samples, and return the list and a record for each part."""
    ragged, plans, seed, step, whole = planned_list(pipeline, batch, key)
    learned = [pipeline._raw(part.parsed, plan) for part, plan in zip(ragged.parts, plans, strict=True)]
    places = torch.tensor([i for part in ragged.parts for i in part.where], device=whole.device)
    index = whole[places].split([len(part.where) for part in ragged.parts])
    if any(learned):  # learned numbers and targets differ between parts
        params = [draw_params(plan, seed, step, some, raw) for plan, some, raw in zip(plans, index, learned, strict=True)]
    else:
        params = draw_each(plans, seed, step, index)
    return ragged, [
        Record(plan, tuple(values) if unpacked else values, len(some), part.parsed.lead)
        for part, plan, some, values in zip(ragged.parts, plans, index, params, strict=True)
    ]


def recorded_list(ragged: Ragged, records: Sequence[Record]) -> RaggedRecord:
    """Join the records of all parts into one."""
    return RaggedRecord.of([(part.where, record) for part, record in zip(ragged.parts, records, strict=True)])


def applied_list(pipeline: PipelineLike, ragged: Ragged, records: Sequence[Record], gradient_scale: Any = 0.0) -> Any:
    """Apply the records of all parts to a list."""
    check_no_scale(gradient_scale)
    images = images_together(records, ragged.parts, pipeline.options)
    results = [
        results_of(record, part.parsed, pipeline.options, known_images=images)
        for record, part in zip(records, ragged.parts, strict=True)
    ]
    sizes = dict(sorted((i, record.plan.size_out) for record, part in zip(records, ragged.parts, strict=True) for i in part.where))
    stacked = _stacked(ragged, [record.plan for record in records])
    result = gather(ragged, results, images, stacked=stacked, padded=_padded(pipeline, ragged), sizes=tuple(sizes.values()))
    return finished(result, ragged.untouched, ragged.samples[0], pipeline.options, len(ragged.samples))


def _stacked(ragged: Ragged, plans: Sequence[Plan]) -> bool:
    """Return whether pictures come back as one batch: if a batch came in, or the transforms end in one size for all inputs."""
    sizes = {plan.size_out for plan in plans}
    if ragged.batched and len(sizes) > 1:
        fix = "Hand over a list, list(batch), end in a Resize or a crop, or give the transforms same_on_batch=True."
        expected = "draws that end in one size for all samples of a batch"
        raise invalid("batch", expected=expected, got=", ".join("x".join(map(str, size)) for size in sorted(sizes)), fix=fix)
    unlike = {id(plan.transforms): plan for plan in plans}.values()
    return ragged.batched or (len(sizes) == 1 and all(ends_static(plan.transforms, plan.specs[0]) for plan in unlike))


def _padded(pipeline: PipelineLike, ragged: Ragged) -> bool:
    """Return whether rows come back as one batch: not if each picture has a dict of its own, or rows are dropped."""
    return pipeline.options.pad_targets and ragged.form.count is None and not pipeline.options.drop_invalid


def images_together(records: Sequence[Record], parts: Sequence[Part], options: Options) -> dict[str, Tensor]:
    """Return the results of a list's pictures, by key, if one lowering serves several sizes; else an empty dict.

    That requires that the first pass brings all pictures to one size, and that the sizes' segments differ in numbers alone.

    Args:
        records: of each part.
        parts: of the list.
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
    except TapeError:  # the sizes take different branches
        return {}
    if len(found) == 1:
        return found[0]
    order = torch.tensor([place for some in kinds.values() for place in sorted(place for k in some for place in parts[k].where)])
    return {key: torch.cat([each[key] for each in found])[order.argsort()] for key in found[0]}


def _goes_together(record: Record) -> bool:
    """Return whether the first pass of a plan brings pictures to their final size."""
    plan = record.plan
    if record.device.type != "cpu":
        return False
    first = plan.groups[0] if plan.groups else None
    if not isinstance(first, Run) or not first.warps or plan.bends or plan.moving_layers or plan.smooth:
        return False
    return first.size_out == plan.size_out


def _is_plain(parsed: Parsed) -> bool:
    """Return whether these are batches of plain CPU tensors."""
    return (
        parsed.lead == 1
        and all(entry.depth is None for entry in parsed.entries)
        and all(type(image) is Tensor and image.is_cpu and image.data_ptr() % image.itemsize == 0 for image in _images(parsed))
    )


def _images(parsed: Parsed) -> list[Tensor]:
    return [entry.tensor for entry in parsed.entries if entry.kind is IMAGE]


def _of_one_kind(records: Sequence[Record], parts: Sequence[Part], options: Options) -> dict[str, Tensor]:
    """Compute the pictures of parts whose plans differ in sizes alone, by key, in the order of their places."""
    ranks = {place: rank for rank, place in enumerate(sorted(place for part in parts for place in part.where))}
    places = tuple(tuple(ranks[place] for place in part.where) for part in parts)
    params, device = together([record.params for record in records], places), torch.device("cpu")
    each = [(Lowered(record.plan, record.params, device), where) for record, where in zip(records, places, strict=True)]
    lowered = Lowered(records[0].plan, params, device, parts=each)
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
