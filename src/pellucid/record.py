"""The record of a call: what was drawn for each sample, enough to replay, invert and differentiate it.

Owns: `Record`, and whether a batch fits one.
Must not: hold pixels.
Read next: ``pipeline.py``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.constants import wide_dtype
from pellucid.errors import invalid, wrong_type
from pellucid.execute import total_src_from_dst
from pellucid.geometry.matrices import inverse
from pellucid.geometry.points import pixel_centers
from pellucid.kinds import has_matrices
from pellucid.lowering import Lowered, Replayed, opened
from pellucid.maps import ViewMap, back, forth
from pellucid.notebook import record_html, record_text
from pellucid.plan import CANVAS_RULES, Plan, keeps_partners, make_plan
from pellucid.random.arguments import check_choice, whole_number
from pellucid.serialize import transforms_from_list, transforms_to_list
from pellucid.targets import Parsed, batch_of
from pellucid.transforms.base import Transform, as_size
from pellucid.transforms.choices import Apply
from pellucid.transforms.resize import Resize
from pellucid.types import ImageSpec, Size
from pellucid.writing import whole

__all__ = ["Record", "read_record", "record_agrees", "size_agrees"]

_VERSION = 1
_CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Record:
    """What was drawn, per sample.

    Args:
        plan: how it runs; holds the transforms and the image kind.
        params: for each transform its drawn values by name, (B,) or (B, n) tensors, part of the graph.
        samples: B.
        lead: how many leading axes the batch had: 0 (one sample), 1 (batch), 2 (video).

    Change a value with :meth:`with_param`; ``pipeline.apply(images, record)`` then differentiates to it.
    """

    plan: Plan
    params: Sequence[Mapping[str, Tensor]]
    samples: int
    lead: int = 1

    __repr__, _repr_html_ = record_text, record_html

    @property
    def size_in(self) -> Size:
        """(height, width) before."""
        return self.plan.size_in

    @property
    def size_out(self) -> Size:
        """(height, width) after."""
        return self.plan.size_out

    @property
    def device(self) -> torch.device:
        """Where the drawn values are."""
        if isinstance(self.params, Replayed):
            return _CPU
        return next((value.device for values in self.params for value in values.values()), _CPU)

    @property
    def src_from_dst(self) -> Float[Tensor, "b 3 3"]:
        """Output pixel to input pixel, float64; differentiable in the drawn values. Raises where a field moves pixels."""
        has_matrices(self.plan, "record.matrix", "Use record.map_points(points), or record.flow() for every pixel.")
        matrix = total_src_from_dst(Lowered(self.plan, self.params, self.device))
        if matrix is None:
            matrix = torch.eye(3, dtype=wide_dtype(self.device), device=self.device)[None]
        return matrix.expand(self.samples, 3, 3)

    @property
    def matrix(self) -> Float[Tensor, "b 3 3"]:
        """Input pixel to output pixel (``dst_from_src``), float64; differentiable in the drawn values."""
        return inverse(self.src_from_dst)

    def map_points(self, points: Float[Tensor, "b_or_1 n 2"]) -> Float[Tensor, "b n 2"]:
        """Send points (x, y) of the input, in pixel-centre coordinates, to the output; NaN for those that have no image there.

        Nothing is cut off: a point outside of the picture is a point all the same.

        Gradient:
            points, drawn values: exact; under fields, too, which Newton's method inverts (first and second derivatives).

        Example:
            >>> import torch, pellucid
            >>> record = pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)]).draw(torch.zeros(1, 3, 4, 10))
            >>> record.map_points(torch.tensor([[[0.0, 2.0]]]))
            tensor([[[9., 2.]]])
        """
        if not isinstance(points, Tensor) or points.ndim != 3 or points.shape[-1] != 2 or points.shape[0] not in (1, self.samples):
            got = tuple(points.shape) if isinstance(points, Tensor) else type(points).__name__
            raise invalid("points", expected=f"a tensor ({self.samples}, n, 2)", got=got)
        wide = points.to(self.device, wide_dtype(self.device)).expand(self.samples, -1, 2)
        return forth(self, wide)[0].to(points.dtype)

    def flow(self) -> Float[Tensor, "b 2 h w"]:
        """How far from each output pixel the input pixel lies that it reads, x then y, float64; NaN where it reads nowhere.

        Gradient:
            drawn values: exact.

        Example:
            >>> import torch, pellucid
            >>> record = pellucid.Pipeline([pellucid.RandomTranslate(((0.2, 0.2), (0.0, 0.0)))]).draw(torch.zeros(1, 3, 4, 10))
            >>> record.flow()[0, :, 0, 0]
            tensor([-2.,  0.], dtype=torch.float64)
        """
        pixels = pixel_centers(self.size_out, wide_dtype(self.device), self.device)
        moved, _ = back(self, pixels.expand(self.samples, -1, 2))
        return (moved - pixels).mT.unflatten(2, self.size_out)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, item: int | slice | Tensor) -> Record:
        """The record of some of the samples; an int keeps the batch axis, with one sample."""
        if isinstance(item, int):
            if not -self.samples <= item < self.samples:
                raise IndexError(f"sample {item} of a record of {self.samples}")
            item = slice(item % self.samples, item % self.samples + 1)
        params = tuple({name: value[item] for name, value in values.items()} for values in self.params)
        kept = torch.arange(self.samples)[item.cpu() if isinstance(item, Tensor) else item]
        _check_partners("record[...]", self.plan, self.samples, kept)
        return replace(self, params=params, samples=len(kept), lead=max(self.lead, 1))

    @staticmethod
    def cat(records: Sequence[Record]) -> Record:
        """The record of batches put one after the other, as ``torch.cat`` puts their pictures; all of one plan."""
        first = _alike("Record.cat", records)
        samples = list(accumulate(map(len, records), initial=0))
        for start, stop in pairwise(samples):
            _check_partners("Record.cat", first.plan, samples[-1], torch.arange(start, stop))
        params = tuple(
            {name: torch.cat([record.params[at][name] for record in records]) for name in values}
            for at, values in enumerate(first.params)
        )
        return replace(first, params=params, samples=samples[-1], lead=max(first.lead, 1))

    @staticmethod
    def stack(records: Sequence[Record]) -> Record:
        """The record of a batch of samples that were drawn one by one, as ``torch.stack`` stacks their pictures."""
        if any(read_record(record).samples != 1 for record in records):
            raise invalid("Record.stack", expected="records of one sample", got=[record.samples for record in records])
        return Record.cat(records)

    def repeat(self, times: int) -> Record:
        """The record of a batch that repeats itself so many times, as ``Tensor.repeat`` repeats its pictures."""
        times = whole_number("times", times, 0, 1 << 31)
        return self[torch.arange(self.samples).repeat(times)]

    def where(self, mask: Bool[Tensor, "b"], other: Record) -> Record:
        """For each sample this draw where the mask says so, the other's elsewhere."""
        _alike("where", [self, other])
        if mask.dtype != torch.bool or tuple(mask.shape) != (self.samples,) or other.samples != self.samples:
            got = f"{mask.dtype} {tuple(mask.shape)} and {other.samples} samples"
            raise invalid("where", expected=f"a boolean ({self.samples},) mask and a record of as many", got=got)

        def chosen(here: Tensor, there: Tensor) -> Tensor:
            return torch.where(mask.to(here.device).reshape(-1, *[1] * (here.dim() - 1)), here, there)

        params = tuple(
            {name: chosen(value, theirs[name]) for name, value in ours.items()}
            for ours, theirs in zip(self.params, other.params, strict=True)
        )
        return replace(self, params=params)

    def bounds(self) -> dict[str, tuple[float, float]]:
        """Between which numbers each drawn value is certain to lie, whatever learns, by step and name: ``"0.degrees"``."""
        return {f"{draw.transform}.{draw.name}": draw.distribution.span() for draw in self.plan.draws}

    def map_to(self, other: Record) -> ViewMap:
        """From the pixels of this view to those of another of the same pictures; see `ViewMap`.

        Errors:
            InvalidArgument where the records are of pictures of different sizes, or of different numbers of them.

        Example:
            >>> import torch, pellucid
            >>> x = torch.rand(1, 3, 8, 8)
            >>> a = pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)]).draw(x)
            >>> b = pellucid.Pipeline([pellucid.CenterCrop(4)]).draw(x)
            >>> a.map_to(b).points(torch.tensor([[1.0, 3.0]]))
            tensor([[[4., 1.]]])
            >>> a.map_to(b).valid((1, 4)).tolist()
            [[[False, True, True, False]]]
        """
        return ViewMap(self, read_record(other))

    def at(self, size: int | Size, *, out: int | Size | None = None) -> Record:
        """The same draw for pictures of another resolution: on feature maps, logits, or a larger original.

        Args:
            size: (height, width) of what goes in, instead of ``size_in``.
            out: of what comes out; default ``size_out`` in the same proportion.

        The plan lies between two resizes, one where a size is as it was. They are steps, so the others' numbers move.

        Errors:
            InvalidArgument where ``size_out`` in that proportion is no whole number.

        Example:
            >>> import torch, pellucid
            >>> augment = pellucid.Pipeline([pellucid.CenterCrop(16)])
            >>> record = augment.draw(torch.rand(1, 3, 32, 32)).at(8)
            >>> augment.apply({"heatmap": torch.rand(1, 5, 8, 8)}, record)["heatmap"].shape
            torch.Size([1, 5, 4, 4])
        """
        size = as_size("size", size)
        if out is None:
            shares = [new * after / before for new, after, before in zip(size, self.size_out, self.size_in, strict=True)]
            if any(share != int(share) for share in shares):
                fix = "Say out=(height, width) of what comes out."
                raise invalid("size", expected=f"one that makes {self.size_out} whole numbers, too", got=size, fix=fix)
            out = (int(shares[0]), int(shares[1]))
        out = as_size("out", out)
        plan = self.plan
        ends = (_fitted(size, self.size_in), _fitted(self.size_out, out))
        transforms = (*ends[0], *plan.transforms, *ends[1])
        plan = make_plan(transforms, plan.specs[0].resized(size), fuse=plan.fuse, canvas=plan.canvas)
        empty: tuple[dict[str, Tensor], ...] = ({},)
        params = (*empty * len(ends[0]), *self.params, *empty * len(ends[1]))
        return replace(self, plan=plan, params=params)

    def with_param(self, transform: int, name: str, value: Tensor) -> Record:
        """The same record with one drawn value replaced, for instance by a tensor that requires a gradient."""
        if not -len(self.params) <= transform < len(self.params) or name not in self.params[transform]:
            known = [f"{i}: {', '.join(values)}" for i, values in enumerate(self.params) if values]
            raise invalid(
                "with_param", expected=f"one of the drawn values ({'; '.join(known)})", got=f"transform {transform}, {name!r}"
            )
        if value.shape != self.params[transform][name].shape:
            raise invalid(
                f"with_param({name!r})", expected=f"shape {tuple(self.params[transform][name].shape)}", got=tuple(value.shape)
            )
        transform %= len(self.params)
        params = tuple({**values, name: value} if i == transform else values for i, values in enumerate(self.params))
        return replace(self, params=params)

    def requires_grad_(self) -> Record:
        """The same record with every continuous value a fresh leaf that requires a gradient."""
        params = tuple(
            {n: v.detach().clone().requires_grad_() if v.is_floating_point() else v for n, v in values.items()}
            for values in self.params
        )
        return replace(self, params=params)

    def to(self, device: torch.device | str) -> Record:
        """The record on another device."""
        return replace(self, params=tuple({n: v.to(device) for n, v in values.items()} for values in self.params))

    def step(self, transform: int) -> Record:
        """The record of one transform on its own, as a pipeline of that transform would have made it.

        Of a choice it is the whole of it. Inside of a choice it is that of ``Apply([transform])``, with the gate that was open.
        """
        transform %= len(self.params)
        alone, params = self.plan.steps[transform].transform, list(self.params[transform : transform + self._extent(transform)])
        gate = opened(self.plan, self.params, transform)
        if gate is not None:
            alone, params = Apply((alone,)), [{"gate": gate}, *params]
        plan = make_plan((alone,), self.plan.specs[transform], canvas=self.plan.canvas)
        return replace(self, plan=plan, params=tuple(params))

    def _extent(self, step: int) -> int:
        """How many steps a transform is: one, or a choice and all that lies in it."""
        inside = [step == gate.choice for one in self.plan.steps for gate in one.gates]
        return 1 + sum(inside)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file in PyTorch's format, whole or not at all."""
        target = Path(path)
        if target.suffix == ".safetensors":
            raise invalid("path", expected="a name for a PyTorch file, such as record.pt", got=target.name)
        spec = self.plan.specs[0]
        state: dict[str, Any] = {
            "pellucid_record": _VERSION,
            "transforms": transforms_to_list(self.plan.transforms),
            "image": [spec.channels, spec.height, spec.width],
            "fuse": self.plan.fuse,
            "canvas": self.plan.canvas,
            "samples": self.samples,
            "lead": self.lead,
            "params": [{name: value.detach().cpu() for name, value in values.items()} for values in self.params],
        }
        with whole(target) as draft, draft.open("wb") as file:
            torch.save(state, file)

    @staticmethod
    def load(path: str | os.PathLike[str], *, allow: Sequence[str] = ()) -> Record:
        """Read what :meth:`save` wrote. Loads tensors and plain values only, never code.

        ``allow`` names the modules that transforms of your own may be imported from, as in `Pipeline.load`.
        """
        try:
            state = torch.load(path, weights_only=True)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # a damaged file raises what its first wrong byte leads to
            raise invalid(str(path), expected="a whole record, as Record.save writes it", got=_first_line(error)) from error
        if not isinstance(state, dict) or state.get("pellucid_record") != _VERSION:
            got = state.get("pellucid_record") if isinstance(state, dict) else f"a {type(state).__name__}"
            raise invalid(str(path), expected=f"a record of version {_VERSION}", got=got)
        missing = [name for name in _FIELDS if name not in state]
        if missing:
            raise invalid(str(path), expected=f"a record with {', '.join(_FIELDS)}", got=f"none of {', '.join(missing)}")
        channels, height, width = _whole_numbers(path, "image", state["image"], 3)
        (samples,) = _whole_numbers(path, "samples", [state["samples"]], 1)
        rule = state.get("canvas", "image")  # which was the only one when records did not say
        check_choice(f"{path}: canvas", rule, CANVAS_RULES)
        transforms = transforms_from_list(state["transforms"], allow=allow)
        plan = make_plan(transforms, ImageSpec(channels, height, width), fuse=bool(state["fuse"]), canvas=rule)
        _check_params(path, plan, state["params"], samples)
        if state["lead"] not in (0, 1, 2):
            raise invalid(f"{path}: lead", expected="0, 1 or 2", got=state["lead"])
        return Record(plan, tuple(state["params"]), samples, state["lead"])


_FIELDS = ("transforms", "image", "fuse", "samples", "lead", "params")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")


def _whole_numbers(path: str | os.PathLike[str], name: str, values: Any, count: int) -> list[int]:
    if not isinstance(values, list) or len(values) != count or any(type(value) is not int or value < 0 for value in values):
        raise invalid(f"{path}: {name}", expected=f"{count} whole number{'s' * (count > 1)}", got=values)
    return values


def _check_params(path: str | os.PathLike[str], plan: Plan, params: Any, samples: int) -> None:
    """Every drawn value the plan wants, with a row per sample."""
    if not isinstance(params, list) or len(params) != len(plan.steps):
        raise invalid(f"{path}: params", expected=f"a list of {len(plan.steps)} tables", got=type(params).__name__)
    for i, values in enumerate(params):
        wanted = {draw.name for draw in plan.draws if draw.transform == i}
        if not isinstance(values, dict) or values.keys() != wanted:
            got = sorted(map(str, values)) if isinstance(values, dict) else type(values).__name__
            raise invalid(f"{path}: params[{i}]", expected=f"the drawn values {sorted(wanted)}", got=got)
        for name, value in values.items():
            if not isinstance(value, Tensor) or value.dim() == 0 or value.shape[0] != samples:
                shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise invalid(f"{path}: params[{i}].{name}", expected=f"{samples} rows", got=shape)


def _fitted(size: Size, target: Size) -> tuple[Transform, ...]:
    """What brings pictures to a size, read in one place; nothing where they have it."""
    return () if size == target else (Resize(target, antialias=False),)


def _alike(name: str, records: Sequence[Record]) -> Record:
    """Check that records can be put together; returns the first."""
    if not records:
        raise invalid(name, expected="at least one record", got="none")
    first = read_record(records[0])
    for record in records:
        if read_record(record).plan != first.plan:
            raise invalid(
                name,
                expected=f"records of one pipeline and one size of pictures ({first.plan}, {first.size_in})",
                got=f"{record.plan}, {record.size_in}",
            )
    return first


def _check_partners(name: str, plan: Plan, samples: int, kept: Tensor) -> None:
    """Check that samples which are mixed stay together."""
    if not keeps_partners(plan, samples, kept):
        raise invalid(
            name,
            expected="samples together with those they are mixed with",
            got=f"{len(kept)} of {samples}",
            fix="Take whole groups in their order, such as record[0:4] where every sample meets the one beside it.",
        )


def read_record(record: object) -> Record:
    """Check that this is a record."""
    if not isinstance(record, Record):
        raise wrong_type(
            "record",
            expected="the Record of an earlier call",
            got=repr(record),
            fix="out, record = pipeline(batch, return_record=True).",
        )
    return record


def record_agrees(parsed: Parsed, record: Record, *, inverse: bool) -> None:
    """Check that a batch fits the record it is replayed with."""
    samples, _ = batch_of(parsed)
    if parsed.entries and samples != record.samples != 1:
        raise invalid(
            "batch", expected=f"{record.samples} samples, as in the record", got=samples, fix="Slice the record: record[i:j]."
        )
    size_agrees(parsed, record.plan, inverse=inverse)


def size_agrees(parsed: Parsed, plan: Plan, *, inverse: bool) -> None:
    """Check that pictures are of the size that a plan begins with, or ends with."""
    size = plan.size_out if inverse else plan.size_in
    for entry in parsed.entries:
        if entry.size not in (None, size):
            raise invalid(f"batch[{entry.key!r}]", expected=f"height and width {size}, as in the record", got=entry.size)
