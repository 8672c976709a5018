"""The record of a call on a list of pictures.

Owns: `RaggedRecord`.
Must not: hold pixels.
Read next: ``reading.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.notebook import record_html, record_text
from pellucid.plan import Plan
from pellucid.record import Record
from pellucid.types import Size

__all__ = ["RaggedRecord", "scattered"]


@dataclass(frozen=True, eq=False)
class RaggedRecord:
    """What was drawn for a list of pictures; see `Record`.

    Args:
        plans: one for each sample: how pictures of its size run.
        params: for each transform its drawn values by name, (B,) or (B, n) tensors, part of the graph.
    """

    plans: tuple[Plan, ...]
    params: Sequence[Mapping[str, Tensor]]

    __repr__, _repr_html_ = record_text, record_html

    @staticmethod
    def of(parts: Sequence[tuple[tuple[int, ...], Record]]) -> RaggedRecord:
        """Put the records of parts together, each with the places of its samples."""
        plans = dict(sorted((i, record.plan) for where, record in parts for i in where))
        if len(parts) == 1:
            return RaggedRecord(tuple(plans.values()), tuple(parts[0][1].params))
        back = torch.tensor([i for where, _ in parts for i in where]).argsort()
        tables = [record.params for _, record in parts]
        params = tuple(
            {name: torch.cat([table[t][name] for table in tables])[back.to(first.device)] for name, first in tables[0][t].items()}
            for t in range(len(tables[0]))
        )
        return RaggedRecord(tuple(plans.values()), params)

    def part(self, where: Sequence[int]) -> Record:
        """The record of samples that share a plan, by their places."""
        return Record(self.plans[where[0]], _rows(self.params, where, len(self)), len(where))

    def parts(self) -> list[tuple[tuple[int, ...], Record]]:
        """All samples that share a plan and their record, for each plan."""
        groups: dict[int, list[int]] = {}
        for i, plan in enumerate(self.plans):
            groups.setdefault(id(plan), []).append(i)
        return [(tuple(where), self.part(where)) for where in groups.values()]

    @property
    def samples(self) -> int:
        """B."""
        return len(self.plans)

    @property
    def lead(self) -> int:
        """A list has one leading axis."""
        return 1

    @property
    def sizes_in(self) -> tuple[Size, ...]:
        """(height, width) before, of each sample."""
        return tuple(plan.size_in for plan in self.plans)

    @property
    def sizes_out(self) -> tuple[Size, ...]:
        """(height, width) after, of each sample."""
        return tuple(plan.size_out for plan in self.plans)

    @property
    def device(self) -> torch.device:
        """Where the drawn values are."""
        return next((value.device for values in self.params for value in values.values()), torch.device("cpu"))

    @property
    def src_from_dst(self) -> Float[Tensor, "b 3 3"]:
        """Output pixel to input pixel, float64; differentiable in the drawn values."""
        return torch.stack(scattered(len(self), [(where, record.src_from_dst) for where, record in self.parts()]))

    @property
    def matrix(self) -> Float[Tensor, "b 3 3"]:
        """Input pixel to output pixel (``dst_from_src``), float64; differentiable in the drawn values."""
        return torch.stack(scattered(len(self), [(where, record.matrix) for where, record in self.parts()]))

    def __len__(self) -> int:
        return len(self.plans)

    def __getitem__(self, item: int | slice | Tensor) -> Any:
        """The record of some of the samples; an int gives the `Record` of a batch of that one."""
        places = range(len(self))
        if isinstance(item, int):
            return self.part([places[item]])
        where = torch.arange(len(self))[item.cpu() if isinstance(item, Tensor) else item].tolist()
        return RaggedRecord(tuple(self.plans[i] for i in where), _rows(self.params, where, len(self)))

    def with_param(self, transform: int, name: str, value: Tensor) -> RaggedRecord:
        """The same record with one drawn value replaced; see `Record.with_param`."""
        return replace(self, params=self._whole().with_param(transform, name, value).params)

    def requires_grad_(self) -> RaggedRecord:
        """The same record with every continuous value a fresh leaf that requires a gradient."""
        return replace(self, params=self._whole().requires_grad_().params)

    def to(self, device: torch.device | str) -> RaggedRecord:
        """The record on another device."""
        return replace(self, params=self._whole().to(device).params)

    def _whole(self) -> Record:
        """The values as a record of one size, for what does not ask for sizes."""
        return Record(self.plans[0], self.params, len(self))


def scattered(count: int, parts: Sequence[tuple[tuple[int, ...], Tensor]]) -> list[Tensor]:
    """The rows of every part, each in its place."""
    rows: dict[int, Tensor] = {}
    for where, values in parts:
        rows.update(zip(where, values.unbind(0), strict=True))
    return [rows[i] for i in range(count)]


def _rows(params: Sequence[Mapping[str, Tensor]], where: Sequence[int], count: int) -> tuple[dict[str, Tensor], ...]:
    if list(where) == list(range(count)):
        return tuple(dict(values) for values in params)
    return tuple({name: value[torch.tensor(where, device=value.device)] for name, value in values.items()} for values in params)
