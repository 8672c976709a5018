"""A call as a function of its random words: for a batch, for a list, and for samples with several pictures.

Owns: `Trial`: the words of a call, the pictures that share them, and the result and record at given words.
Must not: search, estimate, or know losses.
Read next: ``worst_draws.py``, ``estimators/site.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.engine.drawing import DrawnParams, draw_uniforms, drawn_at
from pellucid.engine.plan import Draw, Plan
from pellucid.errors import invalid
from pellucid.pipeline.applying import apply_targets
from pellucid.pipeline.interface import PipelineLike
from pellucid.pipeline.ragged import applied_list, planned_list, recorded_list, scattered
from pellucid.pipeline.records import Record
from pellucid.pipeline.view_draws import View
from pellucid.random.key import Key
from pellucid.random.numbers import Raw
from pellucid.random.stream import fold_in

__all__ = ["Drawn", "Trial"]


class Drawn(NamedTuple):
    """A drawn value, listed once even if several pictures share it.

    Args:
        at: (transform, name); if not all pictures have it, the name of the first one that has comes before.
        draw: with its place among the words of the trial.
        shared: all samples have the same value.
        raw: the unbounded tensors behind its numbers, () or (B,).
    """

    at: tuple[Any, ...]
    draw: Draw
    shared: bool
    raw: Raw


@dataclass(frozen=True)
class _Part:
    """Samples that go through the passes together.

    Args:
        picture: the picture's name.
        plan, index, lead: of the call.
        raw: the inputs of its draws besides words.
        where: the samples' places in the list; None for all samples.
        columns: the columns of its words in the trial's words; None for all, in order.
    """

    picture: str
    plan: Plan
    index: Tensor
    lead: int
    raw: Mapping[tuple[int, str], Mapping[str, Tensor]]
    where: Tensor | None = None
    columns: list[int] | None = None

    def of(self, rows: Tensor) -> Tensor:
        """Select this part's rows of a tensor with a row for each sample."""
        return rows if self.where is None or rows.dim() == 0 else rows[self.where.to(rows.device)]


class _Calls(NamedTuple):
    """The parts of one picture, functions that join their records and compute the result, and the seed and step to draw with."""

    parts: list[_Part]
    record: Callable[[list[Record]], Any]
    result: Callable[[list[Record], Any], Any]
    seed: Tensor
    step: Tensor
    samples: int


class Trial:
    """A call whose random words can be replaced.

    Args:
        pipeline: to call.
        batch, key: as in the call; this takes a step of the stream if the call would.
    """

    def __init__(self, pipeline: PipelineLike, batch: Any, key: Key | None) -> None:
        scene = self._scene = pipeline._scene
        if scene is None:
            self._calls = {"": _calls(pipeline, batch, key)}
        else:
            pieces = self._pieces = scene.parts(batch)
            key = scene.key(pieces, key)
            self._calls = {name: _calls(scene.of(name), part, key, name) for name, part in pieces.each.items()}
        first = next(iter(self._calls.values()))
        self._seed, self._step, self.samples = first.seed, first.step, first.samples
        parts = [part for call in self._calls.values() for part in call.parts]
        self.device = parts[0].index.device
        if pipeline.learned.predicts and scene is not None:
            parts = _of_leads(pipeline, parts, self.samples)
        self._parts, self._width, self._places = _laid_out(parts)
        self.drawn = self._drawn()

    def uniforms(self, other: int | Tensor = 0) -> Float[Tensor, "b words"]:
        """Return the words of the call, as uniforms; ``other`` is XORed with the seed for an independent draw."""
        seed = self._seed ^ other
        found = [draw_uniforms(part.plan, seed, self._step, part.index) for part in self._parts]
        if len(found) == 1:
            return found[0]
        u = found[0].new_full((self.samples, self._width), 0.5)
        for part, own in zip(self._parts, found, strict=True):
            where = torch.arange(self.samples, device=u.device) if part.where is None else part.where
            u = u.index_put((where[:, None], torch.tensor(part.columns, device=u.device)), own)
        return u

    def values(self, u: Float[Tensor, "b words"], *, still: bool = False) -> list[DrawnParams]:
        """Return the drawn values of each part at these words; ``still``: without the graph of learned numbers."""
        found = []
        for part in self._parts:
            own = part.of(u)
            raw = {at: {n: t.detach() for n, t in one.items()} for at, one in part.raw.items()} if still else part.raw
            drawn = drawn_at(part.plan, own if part.columns is None else own[:, part.columns], raw)
            found.append(drawn if still else tuple(drawn))
        return found

    def call(
        self, values: Sequence[DrawnParams], changed: Mapping[Any, Tensor] = MappingProxyType({}), gradient_scale: Any = 0.0
    ) -> tuple[Any, Any]:
        """Return (result, record) at drawn values; ``changed`` replaces some of them, by `Drawn.at`."""
        parts = self._records(values, changed)
        records = {name: call.record(parts[name]) for name, call in self._calls.items()}
        results = {name: call.result(parts[name], gradient_scale) for name, call in self._calls.items()}
        if self._scene is None:
            return results[""], records[""]
        return self._scene.finished(self._pieces, results, records), self._scene.recorded(self._pieces, records)

    def views(self, n: int, same: Sequence[int]) -> tuple[View, ...]:
        """Return n views; the first is the call itself, and the steps in ``same`` have its draws in all views."""
        first = self.uniforms()
        kept = torch.zeros(first.shape[1], dtype=torch.bool)
        for one in self.drawn:
            kept[one.draw.word : one.draw.word + one.draw.distribution.words] = one.draw.transform in same
        others = (self.uniforms(fold_in(0, "view", view)) for view in range(1, n))
        kept = kept.to(first.device)
        return tuple(View(*self.call(self.values(u))) for u in (first, *(torch.where(kept, first, u) for u in others)))

    def record(self, values: Sequence[DrawnParams]) -> Any:
        """Return the record at drawn values."""
        parts = self._records(values, {})
        records = {name: call.record(parts[name]) for name, call in self._calls.items()}
        return records[""] if self._scene is None else self._scene.recorded(self._pieces, records)

    def _records(self, values: Sequence[DrawnParams], changed: Mapping[Any, Tensor]) -> dict[str, list[Record]]:
        records: dict[str, list[Record]] = {name: [] for name in self._calls}
        for part, own in zip(self._parts, values, strict=True):
            if changed:
                own = made = tuple(dict(one) for one in own)
                for at, value in changed.items():
                    if at in self._places[part.picture]:
                        transform, name = self._places[part.picture][at]
                        made[transform][name] = part.of(value)
            records[part.picture].append(Record(part.plan, own, len(part.index), part.lead))
        return records

    @property
    def draws(self) -> dict[str, Draw]:
        """The draws by name, such as ``0.degrees``."""
        return {".".join(map(str, one.at)): one.draw for one in self.drawn}

    def _drawn(self) -> tuple[Drawn, ...]:
        """List every draw once."""
        found: dict[tuple[Any, ...], Drawn] = {}
        for part in self._parts:
            plain = {place: at for at, place in self._places[part.picture].items()}
            for draw in part.plan.draws:
                at = plain[draw.transform, draw.name]
                if at not in found:
                    word = draw.word if part.columns is None else part.columns[draw.word]
                    same = [one for one in self._parts if one.picture == part.picture]
                    names = draw.distribution.learned()
                    raw = {name: _in_order(same, (draw.transform, draw.name), name, self.samples) for name in names}
                    found[at] = Drawn(at, replace(draw, word=word), part.plan.shared[draw.word // 4], raw)
        return tuple(found.values())


def _in_order(parts: Sequence[_Part], at: tuple[int, str], name: str, samples: int) -> Tensor:
    """Return a learned number of one picture's draw, () or with a row for every sample."""
    own = [part.raw[at][name] for part in parts]
    if parts[0].where is None or own[0].dim() == 0:
        return own[0]
    where = [tuple(part.where.tolist()) for part in parts if part.where is not None]
    return torch.stack(scattered(samples, list(zip(where, own, strict=True))))


def _calls(pipeline: PipelineLike, batch: Any, key: Key | None, picture: str = "") -> _Calls:
    parsed, key = pipeline._apart(batch, key)
    if parsed is not None:
        plan, seed, step, index = pipeline._at(parsed, key)
        part = _Part(picture, plan, index, parsed.lead, pipeline._raw(parsed, plan))

        def result(records: list[Record], scale: Any) -> Any:
            return apply_targets(records[0], parsed, pipeline.options, scale)

        return _Calls([part], itemgetter(0), result, seed, step, index.shape[0])
    ragged, plans, seed, step, index = planned_list(pipeline, batch, key)
    parts = []
    for one, plan in zip(ragged.parts, plans, strict=True):
        where = torch.tensor(one.where, device=index.device)
        parts.append(_Part(picture, plan, index[where], one.parsed.lead, pipeline._raw(one.parsed, plan), where))
    record, result = partial(recorded_list, ragged), partial(applied_list, pipeline, ragged)
    return _Calls(parts, record, result, seed, step, index.shape[0])


def _laid_out(parts: list[_Part]) -> tuple[list[_Part], int, dict[str, dict[tuple[Any, ...], tuple[int, str]]]]:
    """Return the parts with the columns of their words, the number of columns, and for each picture the names of its values.

    Draws with the same slot of the hash share a column.
    """
    columns: dict[tuple[int, int], int] = {}
    owners: dict[int, dict[str, None]] = {}
    places: dict[str, dict[tuple[Any, ...], tuple[int, str]]] = {part.picture: {} for part in parts}
    words = [[columns.setdefault((slot, lane), len(columns)) for slot in part.plan.slots for lane in range(4)] for part in parts]
    for part, own in zip(parts, words, strict=True):
        for draw in part.plan.draws:
            owners.setdefault(own[draw.word], {})[part.picture] = None
    for part, own in zip(parts, words, strict=True):
        for draw in part.plan.draws:
            plain, pictures = (draw.transform, draw.name), owners[own[draw.word]]
            places[part.picture][plain if len(pictures) == len(places) else (next(iter(pictures)), *plain)] = plain
    laid = [replace(part, columns=own) for part, own in zip(parts, words, strict=True)]
    return (parts if len(parts) == 1 else laid), len(columns), places


def _of_leads(pipeline: PipelineLike, parts: list[_Part], samples: int) -> list[_Part]:
    """Return the parts with the numbers of shared draws predicted from the first picture of their group."""
    scene = pipeline._scene
    assert scene is not None
    pictures = {part.picture: [one for one in parts if one.picture == part.picture] for part in parts}
    found = []
    for part in parts:
        raw = dict(part.raw)
        for at in pipeline.learned.distributions:
            lead = scene.of(part.picture)._plans.streams[at[0]]
            if lead not in pictures:
                fix = f"Name the picture first that every sample has, or pass share={{..., [...]}} without {lead!r}."
                expected = f"{lead!r}, from which the numbers of its group are predicted"
                raise invalid("batch", expected=expected, got=", ".join(pictures), fix=fix)
            raw[at] = {name: part.of(_in_order(pictures[lead], at, name, samples)) for name in part.raw[at]}
        found.append(replace(part, raw=raw))
    return found
