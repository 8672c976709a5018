"""The worst draw of a pipeline for each sample of a batch.

Owns: what a search evaluates: the loss of a batch at uniforms.
Must not: search (``worst_search.py`` does) or draw by itself.
Read next: ``worst_search.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pellucid.engine.drawing import draw_uniforms, params_of
from pellucid.engine.plan import Plan
from pellucid.errors import invalid, wrong_type
from pellucid.pipeline.applying import apply_targets
from pellucid.pipeline.ragged.calls import applied_lists, planned_lists, read_lists
from pellucid.pipeline.ragged.record import RaggedRecord
from pellucid.pipeline.records import Record
from pellucid.pipeline.worst_search import Found, Search, search_cube, untouched
from pellucid.random.arguments import check_flag
from pellucid.random.key import Key
from pellucid.random.stream import fold_in

if TYPE_CHECKING:
    from pellucid.pipeline import Pipeline

__all__ = ["worst_draw"]


def worst_draw(
    pipeline: Pipeline,
    loss_fn: Callable[[Any], Tensor],
    batch: Any,
    *,
    draws: int | Mapping[str, int] = 16,
    steps: int = 8,
    search: str = "gradient",
    restarts: int = 2,
    key: Key | None = None,
    return_found: bool = False,
) -> tuple[Any, Record | RaggedRecord] | tuple[Any, Record | RaggedRecord, Found]:
    """Search for the draw of each sample under which its loss is largest; `Pipeline.worst` is this.

    Args:
        pipeline: whose distributions are searched.
        loss_fn: takes the augmented batch, returns (B,) losses, one per sample. The model behind it stays as it was: no gradient is
            left in its parameters, its buffers and torch's generator are restored.
        batch: as in the pipeline's call. The losses of a list of pictures stand in its order.
        draws: how many starts, the plain draw of this key among them; or how many places on the scale of each number, such as
            ``{"degrees": 31, "translate_x": 5, "translate_y": 5}``.
        steps: signed steps up the slope of each number, of a length that shrinks.
        search: ``random`` (the starts are draws), ``grid`` (they are a grid with the ends of every range; gates, choices and what
            else has no scale are drawn anew at each point), ``gradient`` (that grid, then the steps).
        restarts: the steps begin at so many of a sample's best starts.
        key: as in the pipeline's call.
        return_found: also return a `Found`: the losses, those of the plain draw, and how often the batch was evaluated.

    Returns:
        (result, record), or (result, record, found). A sample's loss is never less than under the plain draw.

    Where all draws are shared by the batch, it is the mean loss that is largest. What the search does not see it does not find:
    `docs/worst-case.md` has figures.

    Gradient:
        result: to images and learned ranges, at the worst draw.
    Errors:
        InvalidArgument where there is not one loss per sample, where losses change with the draws of other samples (seen by an
        evaluation at the first call with a loss), where only some of the transforms share a draw, and for lists whose sizes the
        draws decide.
    Source:
        Engstrom et al., "Exploring the landscape of spatial robustness", ICML 2019: grids, random and first-order search.

    Example:
        >>> import torch, pellucid
        >>> shine = pellucid.Pipeline([pellucid.RandomBrightness((0.5, 1.5))], seed=0)
        >>> out, record = shine.worst(lambda x: x.mean((1, 2, 3)), torch.full((2, 3, 4, 4), 0.4))
        >>> record.params[0]["brightness"].round(decimals=3)
        tensor([1.5000, 1.5000], dtype=torch.float64)
    """
    how = Search(draws, steps, search, restarts)
    check_flag("return_found", return_found)
    if not callable(loss_fn):
        raise wrong_type("loss_fn", expected="a function of the augmented batch to (B,) losses", got=repr(loss_fn))
    asked = _of_list(pipeline, batch, key) if pipeline._is_ragged(batch) else _of_batch(pipeline, batch, key)
    plan = asked.plan
    if any(plan.shared) and not all(plan.shared):
        fix = "Say same_on_batch=True of the pipeline, or of none of its transforms."
        raise invalid("worst", expected="draws that all samples share, or none", got="some of each", fix=fix)
    still = [{at: {name: value.detach() for name, value in raw.items()} for at, raw in one.items()} for one in asked.learned]
    seed, step, index = asked.key

    def losses(u: Tensor) -> Tensor:
        return loss_fn(asked.apply(asked.records(u, still)))

    def drawn(k: int) -> Tensor:
        return draw_uniforms(plan, seed ^ fold_in(0, "worst", k) if k else seed, step, index)

    check = pipeline._losses.new(loss_fn)
    with untouched(asked.device):
        found = search_cube(plan, losses, drawn, how, whole=all(plan.shared) and bool(plan.shared), check=check)
    records = asked.records(found.at, asked.learned)
    record, result = asked.joined(records), asked.apply(records)
    return (result, record, found) if return_found else (result, record)


@dataclass(frozen=True)
class _Asked:
    """A batch that a search evaluates: of one size, or a list in parts of one size each.

    Args:
        plan: of the first part; the draws of all are alike.
        key: seed, step and the index of each sample.
        learned: what the draws of each part read beside random words.
        device: of the pictures.
        records: of each part, from the uniforms of all samples and what is learned.
        apply: the result, from the records.
        joined: one record of all.
    """

    plan: Plan
    key: tuple[Tensor, Tensor, Tensor]
    learned: list[Any]
    device: torch.device
    records: Callable[[Tensor, list[Any]], list[Record]]
    apply: Callable[[list[Record]], Any]
    joined: Callable[[list[Record]], Any]


def _of_batch(pipeline: Pipeline, batch: Any, key: Key | None) -> _Asked:
    parsed = pipeline._parse(batch)
    plan, seed, step, index = pipeline._at(parsed, key)

    def records(u: Tensor, learned: list[Any]) -> list[Record]:
        return [Record(plan, params_of(plan, u, learned[0]), index.shape[0], parsed.lead)]

    def apply(found: list[Record]) -> Any:
        return apply_targets(found[0], parsed, pipeline.options)

    device = parsed.entries[0].tensor.device
    return _Asked(plan, (seed, step, index), [pipeline._raw(parsed, plan)], device, records, apply, lambda found: found[0])


def _of_list(pipeline: Pipeline, batch: Any, key: Key | None) -> _Asked:
    listed = read_lists(pipeline, batch)
    ragged, plans, at = planned_lists(pipeline, listed, key)
    if ragged is not listed:
        fix = "Leave these transforms out of the search, or give each picture alone."
        raise invalid("batch", expected="transforms whose draws leave sizes alone", got="some that decide sizes", fix=fix)
    places = [torch.tensor(part.where, device=at[2].device) for part in ragged.parts]

    def records(u: Tensor, learned: list[Any]) -> list[Record]:
        rows = [u[where] for where in places]
        return [
            Record(plan, params_of(plan, some, raw), len(some), part.parsed.lead)
            for plan, some, raw, part in zip(plans, rows, learned, ragged.parts, strict=True)
        ]

    def joined(found: list[Record]) -> RaggedRecord:
        return RaggedRecord.of([(part.where, record) for part, record in zip(ragged.parts, found, strict=True)])

    learned = [pipeline._raw(part.parsed, plan) for part, plan in zip(ragged.parts, plans, strict=True)]
    device = ragged.parts[0].parsed.entries[0].tensor.device
    return _Asked(plans[0], at, learned, device, records, lambda found: applied_lists(pipeline, ragged, found), joined)
