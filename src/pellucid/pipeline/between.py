"""Flow and disparity between two pictures that each went through a map of its own (ADR 77).

Owns: the new end of each vector, and which vectors begin and end at points that both pictures still show.
Must not: draw, or know whole batches.
Read next: ``maps.py``, ``scenes.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pellucid.core.constants import wide_dtype
from pellucid.geometry.paths import inside
from pellucid.geometry.points import pixel_centers
from pellucid.pipeline.applying import inverted, results_of
from pellucid.pipeline.maps import back, forth
from pellucid.pipeline.ragged import RaggedRecord
from pellucid.pipeline.records import Record, record_agrees
from pellucid.targets.arrays import as_given, as_tensor, given_as, is_array
from pellucid.targets.options import Options
from pellucid.targets.parsing import parse

__all__ = ["Field", "moved_between"]

_ROW = 0.5
"""Pixels: a pair of rows further apart than that holds no disparity."""


def moved_between(values: Tensor, known: Tensor, first: Record, second: Record, *, inverse: bool = False) -> tuple[Tensor, Tensor]:
    """Return the vectors from one picture to another after each went through its own map.

    With the maps A and B of the two pictures, pixel p of the first now shows the point A⁻¹ p. Its vector v ended at the point
    A⁻¹ p + v of the second picture, which is now at B(A⁻¹ p + v).

    Args:
        values: flow (b, 2, h, w) or disparity (b, 1, h, w), resampled with the first picture.
        known: (b, h, w), the share of each value that was interpolated from known values.
        first, second: the records of the two pictures, of as many samples, or of one each.
        inverse: go from the augmented pictures back to the input pictures.

    Returns:
        Vectors of the same kind, and a mask (b, h, w) of those that are known and both of whose ends are visible. Disparity is
        known only if the end lies in the same row.

    Gradient:
        values, drawn values of both records: exact.
    """
    size, wide = values.shape[2:], wide_dtype(values.device)
    pixels = pixel_centers((size[0], size[1]), wide, values.device).expand(len(values), -1, 2)
    to_source, onwards = (forth, back) if inverse else (back, forth)
    begin, shown = to_source(first.to(values.device), pixels)
    vectors = values.to(wide).flatten(2).mT  # b n c
    flow = vectors if vectors.shape[-1] == 2 else torch.cat((-vectors, torch.zeros_like(vectors)), -1)
    end, arrived = onwards(second.to(values.device), begin + flow)
    arrived = arrived & inside(begin + flow, second.size_out if inverse else second.size_in)
    found = end - pixels
    valid = shown & arrived & torch.isfinite(found).all(-1) & (known.flatten(1) > 0.999)
    found = torch.where(torch.isfinite(found), found, 0.0)
    if vectors.shape[-1] == 1:
        valid = valid & (found[..., 1].abs() < _ROW)
        found = -found[..., :1]
    return found.mT.reshape(values.shape).to(values.dtype), valid.unflatten(1, size)


class Field:
    """Vectors under one key, each of which leads from one picture to another.

    Args:
        kind: ``flow`` or ``disparity``.
        options: of the pipeline.
    """

    def __init__(self, kind: str, options: Options) -> None:
        self._kind, self._out = kind, options.out
        self._reads = "uv" if kind == "flow" else "depth"  # kinds of that shape whose values no map turns
        mode = options.interpolation[kind]
        self._options = Options(
            impl=options.impl, interpolation={self._reads: mode, "heatmap": mode}, targets={kind: self._reads, "known": "heatmap"}
        )

    def moved(
        self, value: Any, flags: Any, first: Any, second: Any, *, inverse: bool = False, stacked: bool = False
    ) -> tuple[Any, Any]:
        """Return the new vectors and their flags, for a batch or a list; ``stacked``: a list comes back as a batch."""
        given = given_as(value, self._kind, self._out)
        if isinstance(value, list | tuple):
            known = [None] * len(value) if flags is None else flags
            records = (_each(record, len(value)) for record in (first, second))
            some = [self._moved(*one, inverse=inverse) for one in zip(value, known, *records, strict=True)]
            found = [torch.stack(one) if stacked else list(one) for one in zip(*some, strict=True)]
        else:
            found = list(self._moved(value, flags, first, second, inverse=inverse))
        return as_given(found[0], given), as_given(found[1], given and "array")

    def _moved(self, value: Any, flags: Any, first: Record, second: Record, *, inverse: bool) -> tuple[Tensor, Tensor]:
        if is_array(value):
            value = as_tensor(self._kind, self._kind, value)
        parsed = parse({self._kind: value}, self._options, lead=first.lead)
        lead, shape = parsed.lead, value.shape
        if flags is None:
            flags = torch.ones((*shape[:lead], *shape[-2:]), device=value.device)
        both = {self._kind: value, "known": torch.as_tensor(flags).to(torch.float32)}
        parsed = parse(both, self._options, lead=lead)
        record_agrees(parsed, first, inverse=inverse)
        read = (inverted if inverse else results_of)(first, parsed, self._options)
        vectors, known = read[self._kind], read["known"]
        first, second = (record._frames(shape[1]) if lead == 2 else record for record in (first, second))
        channels = vectors.shape[-3] if vectors.dim() - lead == 3 else 1
        flat, size = vectors.reshape(-1, channels, *vectors.shape[-2:]), vectors.shape[-2:]
        found, valid = moved_between(flat, known.reshape(-1, *size), first, second, inverse=inverse)
        return found.reshape(vectors.shape), valid.reshape(known.shape)


def _each(record: Any, count: int) -> list[Record]:
    """Return the record of each picture of a list, without a leading axis."""
    some = [record.part((i,)) if isinstance(record, RaggedRecord) else record[i if len(record) > 1 else 0] for i in range(count)]
    return [replace(one, lead=0) for one in some]
