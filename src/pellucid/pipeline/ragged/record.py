"""The record of a call on a list of pictures.

Owns: `RaggedRecord`.
Must not: hold pixels.
Read next: ``reading.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.engine.plan import Plan
from pellucid.errors import invalid
from pellucid.pipeline.notebook import record_html, record_text
from pellucid.pipeline.records import Record, of_each
from pellucid.types import Size

__all__ = ["RaggedRecord", "scattered"]


@dataclass(frozen=True, eq=False)
class RaggedRecord:
    """The draws for a list of pictures; ``device``, ``with_param``, ``requires_grad_`` and ``to`` are those of `Record`.

    Args:
        plans: one for each sample, for pictures of its size.
        params: for each transform its drawn values by name, (B,) or (B, n) tensors, part of the graph.

    Example:
        >>> pictures = [torch.zeros(3, 8, 6), torch.zeros(3, 4, 6), torch.zeros(3, 8, 6)]
        >>> record = pellucid.Pipeline([pellucid.RandomRotation((90.0, 90.0))]).draw(pictures)
        >>> record.samples, record.lead, record.device, record.sizes_in == record.sizes_out
        (3, 1, device(type='cpu'), True)
        >>> record.matrix.shape, record.src_from_dst.shape
        (torch.Size([3, 3, 3]), torch.Size([3, 3, 3]))
    """

    plans: tuple[Plan, ...]
    params: Sequence[Mapping[str, Tensor]]

    __repr__, _repr_html_ = record_text, record_html
    device, with_param, requires_grad_, to = Record.device, Record.with_param, Record.requires_grad_, Record.to

    @staticmethod
    def of(parts: Sequence[tuple[tuple[int, ...], Record]]) -> RaggedRecord:
        """Return the record of all samples, joined from the records of parts.

        Args:
            parts: each with the places of its samples, as :meth:`parts` gives them.

        Example:
            >>> record = pellucid.Pipeline([pellucid.RandomRotation(15)]).draw([torch.zeros(3, 8, n) for n in (6, 4, 6)])
            >>> again = pellucid.RaggedRecord.of(record.parts())
            >>> torch.equal(again.params[0]["degrees"], record.params[0]["degrees"])
            True
        """
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
        """Return the record of samples that share a plan.

        Args:
            where: their places.

        Example:
            >>> record = pellucid.Pipeline([pellucid.RandomRotation(15)]).draw([torch.zeros(3, 8, n) for n in (6, 4, 6)])
            >>> record.part([0, 2]).size_in
            (8, 6)
        """
        return Record(self.plans[where[0]], _rows(self.params, where, len(self)), len(where))

    def parts(self) -> list[tuple[tuple[int, ...], Record]]:
        """Return, for each plan, the places of the samples that share it and their record.

        Example:
            >>> record = pellucid.Pipeline([pellucid.RandomRotation(15)]).draw([torch.zeros(3, 8, n) for n in (6, 4, 6)])
            >>> [where for where, _ in record.parts()]
            [(0, 2), (1,)]
        """
        groups: dict[int, list[int]] = {}
        for i, plan in enumerate(self.plans):
            groups.setdefault(id(plan), []).append(i)
        return [(tuple(where), self.part(where)) for where in groups.values()]

    @property
    def samples(self) -> int:
        """The number of samples, B."""
        return len(self.plans)

    @property
    def lead(self) -> int:
        """The number of leading axes: 1 for a list."""
        return 1

    @property
    def sizes_in(self) -> tuple[Size, ...]:
        """(height, width) of each sample's input."""
        return tuple(plan.size_in for plan in self.plans)

    @property
    def sizes_out(self) -> tuple[Size, ...]:
        """(height, width) of each sample's output."""
        return tuple(plan.size_out for plan in self.plans)

    @property
    def src_from_dst(self) -> Float[Tensor, "b 3 3"]:
        """The maps from output pixels to input pixels, float64.

        Gradient:
            drawn values: exact.
        """
        return torch.stack(scattered(len(self), [(where, record.src_from_dst) for where, record in self.parts()]))

    @property
    def matrix(self) -> Float[Tensor, "b 3 3"]:
        """The maps from input pixels to output pixels (``dst_from_src``), float64.

        Gradient:
            drawn values: exact.
        """
        return torch.stack(scattered(len(self), [(where, record.matrix) for where, record in self.parts()]))

    def map_points(self, points: list[Float[Tensor, "n 2"]] | tuple[Float[Tensor, "n 2"], ...]) -> list[Float[Tensor, "n 2"]]:
        """Send points (x, y) of each picture, in pixel-centre coordinates, to its output; see `Record.map_points`.

        Args:
            points: (x, y), a tensor (n, 2) for each picture; n may differ.

        Returns:
            A tensor (n, 2) for each picture.

        Gradient:
            points, drawn values: exact.

        Errors:
            InvalidArgument unless there are points for every picture.

        Example:
            >>> pictures = [torch.zeros(3, 4, 10), torch.zeros(3, 6, 6)]
            >>> record = pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)]).draw(pictures)
            >>> record.map_points([torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0, 1.0], [5.0, 0.0]])])
            [tensor([[9., 2.]]), tensor([[4., 1.],
                    [0., 0.]])]
        """
        if not isinstance(points, list | tuple) or len(points) != len(self):
            got = f"{len(points)} of them" if isinstance(points, list | tuple) else type(points).__name__
            raise invalid("points", expected=f"a list of {len(self)} tensors (n, 2)", got=got)
        return [self.part([i]).map_points(one[None])[0] for i, one in enumerate(points)]

    def flow(self) -> list[Float[Tensor, "2 h w"]]:
        """Return, for each picture, the displacement from each output pixel to the input pixel that it reads; see `Record.flow`.

        Returns:
            A tensor (2, h, w) for each picture, float64.

        Gradient:
            drawn values: exact.

        Example:
            >>> pictures = [torch.zeros(3, 1, 2), torch.zeros(3, 1, 3)]
            >>> record = pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)]).draw(pictures)
            >>> [flow[0].tolist() for flow in record.flow()]
            [[[1.0, -1.0]], [[2.0, 0.0, -2.0]]]
        """
        return [self.part([i]).flow()[0] for i in range(len(self))]

    def __len__(self) -> int:
        return len(self.plans)

    def __getitem__(self, item: int | slice | Tensor) -> Any:
        """Return the record of some of the samples; an int gives the `Record` of a batch with that sample."""
        places = range(len(self))
        if isinstance(item, int):
            return self.part([places[item]])
        where = torch.arange(len(self))[item.cpu() if isinstance(item, Tensor) else item].tolist()
        return RaggedRecord(tuple(self.plans[i] for i in where), _rows(self.params, where, len(self)))


def scattered(count: int, parts: Sequence[tuple[tuple[int, ...], Tensor]]) -> list[Tensor]:
    """Put the rows of all parts into the list's order."""
    rows: dict[int, Tensor] = {}
    for where, values in parts:
        rows.update(zip(where, values.unbind(0), strict=True))
    return [rows[i] for i in range(count)]


def _rows(params: Sequence[Mapping[str, Tensor]], where: Sequence[int], count: int) -> tuple[dict[str, Tensor], ...]:
    if list(where) == list(range(count)):
        return tuple(dict(values) for values in params)
    return of_each(params, lambda value: value[torch.tensor(where, device=value.device)])
