"""The record of a call: the drawn values of each sample, enough to replay, invert and differentiate the call.

Owns: `Record`, and the checks whether a batch fits a record.
Must not: hold pixels.
Read next: ``module.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.core.arguments import whole_number
from pellucid.core.constants import wide_dtype
from pellucid.engine.execution import total_src_from_dst
from pellucid.engine.lowering import Lowered, Replayed, opened
from pellucid.engine.plan import Plan, keeps_partners, make_plan
from pellucid.errors import invalid, wrong_type
from pellucid.geometry.points import pixel_centers
from pellucid.geometry.space import turned
from pellucid.pipeline.maps import ViewMap, back, forth
from pellucid.pipeline.notebook import record_html, record_text
from pellucid.pipeline.record_files import read_parts, write_parts
from pellucid.segments import LayerSpec, WarpSpec
from pellucid.targets.parsing import Parsed, batch_of
from pellucid.transforms.base import Transform, as_size
from pellucid.transforms.choices import Apply, steps_of
from pellucid.transforms.resize import Resize
from pellucid.types import Size

__all__ = ["Record", "of_each", "read_record", "record_agrees", "record_is_of", "size_agrees"]

_CPU = torch.device("cpu")


class _Values(Protocol):
    """A record with drawn values by transform and name: of a batch, or of a list."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def params(self) -> Sequence[Mapping[str, Tensor]]:
        """The drawn values."""


_Drawn = TypeVar("_Drawn", bound=_Values)


@dataclass(frozen=True, eq=False)
class Record:
    """The draw of each sample.

    Args:
        plan: holds the transforms, the image kind and the passes.
        params: for each transform its drawn values by name, (B,) or (B, n) tensors, part of the graph.
        samples: the number of samples, B.
        lead: how many leading axes the batch had: 0 (one sample), 1 (batch), 2 (video).

    Change a value with :meth:`with_param`; ``pipeline.apply(images, record)`` then differentiates to it.

    Example:
        >>> record = pellucid.Pipeline([pellucid.CenterCrop(4)], seed=0).draw(torch.zeros(2, 3, 8, 6))
        >>> record.size_in, record.size_out, record.device
        ((8, 6), (4, 4), device(type='cpu'))
        >>> record.matrix[0, :, 2]  # the crop moves pixels by (-1, -2)
        tensor([-1., -2.,  1.], dtype=torch.float64)
        >>> record.src_from_dst[0, :, 2]
        tensor([1., 2., 1.], dtype=torch.float64)
    """

    plan: Plan
    params: Sequence[Mapping[str, Tensor]]
    samples: int
    lead: int = 1

    __repr__, _repr_html_ = record_text, record_html

    @property
    def size_in(self) -> Size:
        """(height, width) of the input."""
        return self.plan.size_in

    @property
    def size_out(self) -> Size:
        """(height, width) of the output."""
        return self.plan.size_out

    @property
    def device(self) -> torch.device:
        """The device of the drawn values."""
        if isinstance(self.params, Replayed):
            return _CPU
        return next((value.device for values in self.params for value in values.values()), _CPU)

    def frames(self, count: int) -> Record:
        """Return the record of all frames of clips as single pictures: values under `Smooth` change from frame to frame.

        Args:
            count: the number of frames of each clip.

        Returns:
            A record of ``samples * count`` pictures, frame by frame within each clip.

        Gradient:
            drawn values: as `Smooth` declares.

        Errors:
            InvalidArgument for no frames.

        Example:
            >>> turn = pellucid.RandomRotation(pellucid.Smooth(pellucid.Uniform(-10.0, 10.0)))
            >>> pellucid.Pipeline([turn], seed=0).draw(torch.zeros(2, 9, 3, 8, 8)).frames(9).matrix.shape
            torch.Size([18, 3, 3])
        """
        return self._frames(whole_number("count", count, 1, 1 << 24))

    def _frames(self, count: int) -> Record:
        """Do the same as `frames` without a check: a clip may be empty."""
        params = of_each(self.params, lambda value: value.repeat_interleave(count, 0))
        for at, name, moving in self._knots():
            params[at][name] = moving.each(self.params[at][name], count)
        return Record(self.plan, params, self.samples * count)

    def _knots(self) -> list[tuple[int, str, Any]]:
        """Return (transform, name, distribution) of values that change through a clip and are stored for whole clips."""
        drawn: list[tuple[int, str, Any]] = [(draw.transform, draw.name, draw.distribution) for draw in self.plan.smooth]
        return [one for one in drawn if self.params[one[0]][one[1]].dim() == one[2].axes]

    def _check_still(self) -> None:
        """Raise if a value of a map changes through a clip: each frame then has a map of its own."""
        for at, name, _ in self._knots():
            if not isinstance(self.plan.segments[at], WarpSpec | LayerSpec | None):
                continue  # it changes no map
            what = f"one value of {type(self.plan.steps[at].transform).__name__}.{name} for each sample"
            fix = "record.frames(count) has a map for each frame."
            raise invalid("record", expected=what, got="one that changes through a clip", fix=fix)

    def _check_pictures(self, name: str, fix: str) -> None:
        """Raise if this is the record of volumes."""
        if self.plan.volumes:
            raise invalid(f"record.{name}", expected="the record of pictures", got="one of volumes", fix=fix)

    def _lowered(self) -> Lowered:
        """Return the values in the form from which maps are computed."""
        self._check_still()
        return Lowered(self.plan, self._frames(1).params if self.plan.smooth else self.params, self.device)

    @property
    def src_from_dst(self) -> Float[Tensor, "b 3 3"]:
        """The maps from output pixels to input pixels, float64.

        Gradient:
            drawn values: exact.

        Errors:
            InvalidArgument if a field displaces pixels, or samples are mixed: no matrix describes the whole map.
        """
        if self.plan.bends:
            found = ", ".join(type(self.plan.steps[i].transform).__name__ for i in self.plan.bends)
            fix = "Use record.map_points(points), or record.flow() for every pixel."
            raise invalid("record.matrix", expected="transforms that each have a matrix", got=found, fix=fix)
        matrix = total_src_from_dst(self._lowered())
        if matrix is None:
            matrix = torch.eye(3, dtype=wide_dtype(self.device), device=self.device)[None]
        return matrix.expand(self.samples, *matrix.shape[1:])

    @property
    def matrix(self) -> Float[Tensor, "b 3 3"]:
        """The maps from input pixels to output pixels (``dst_from_src``), float64.

        Gradient:
            drawn values: exact.

        Errors:
            As ``src_from_dst``.
        """
        return turned(self.src_from_dst)

    def map_points(self, points: Float[Tensor, "b_or_1 n 2"]) -> Float[Tensor, "b n 2"]:
        """Send points (x, y) of the input, in pixel-centre coordinates, to the output; NaN for points without an image there.
        In volumes they are (x, y, z).

        Nothing is cut off: points outside of the picture are mapped, too.

        Args:
            points: (x, y), of one picture or of each sample.

        Returns:
            Of the dtype of ``points``.

        Gradient:
            points, drawn values: exact; also under fields, which Newton's method inverts (first and second derivatives).

        Errors:
            InvalidArgument for points of another shape, and if samples are mixed.

        Example:
            >>> record = pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)]).draw(torch.zeros(1, 3, 4, 10))
            >>> record.map_points(torch.tensor([[[0.0, 2.0]]]))
            tensor([[[9., 2.]]])
        """
        axes = 3 if self.plan.volumes else 2
        fits = isinstance(points, Tensor) and points.ndim == 3 and points.shape[-1] == axes and points.shape[0] in (1, self.samples)
        if not fits:
            got = tuple(points.shape) if isinstance(points, Tensor) else type(points).__name__
            raise invalid("points", expected=f"a tensor ({self.samples}, n, {axes})", got=got)
        wide = points.to(self.device, wide_dtype(self.device)).expand(self.samples, -1, axes)
        return forth(self, wide)[0].to(points.dtype)

    def flow(self) -> Float[Tensor, "b 2 h w"]:
        """Return the displacement from each output pixel to the input pixel that it reads, x then y, float64; NaN if it reads none.

        Returns:
            (B, 2, H, W) in pixels, of the output's size.

        Gradient:
            drawn values: exact.

        Errors:
            InvalidArgument if samples are mixed: each output pixel then reads several pixels.

        Example:
            >>> record = pellucid.Pipeline([pellucid.RandomTranslate(((0.2, 0.2), (0.0, 0.0)))]).draw(torch.zeros(1, 3, 4, 10))
            >>> record.flow()[0, :, 0, 0]
            tensor([-2.,  0.], dtype=torch.float64)
        """
        self._check_pictures("flow", "record.map_points has where points go.")
        pixels = pixel_centers(self.size_out, wide_dtype(self.device), self.device)
        moved, _ = back(self, pixels.expand(self.samples, -1, 2))
        return (moved - pixels).mT.unflatten(2, self.size_out)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, item: int | slice | Tensor) -> Record:
        """Return the record of some of the samples; an int keeps the batch axis, with one sample."""
        if isinstance(item, int):
            if not -self.samples <= item < self.samples:
                raise IndexError(f"sample {item} of a record of {self.samples}")
            item = slice(item % self.samples, item % self.samples + 1)
        params = of_each(self.params, lambda value: value[item])
        kept = torch.arange(self.samples)[item.cpu() if isinstance(item, Tensor) else item]
        _check_partners("record[...]", self.plan, self.samples, kept)
        return replace(self, params=params, samples=len(kept), lead=max(self.lead, 1))

    @staticmethod
    def cat(records: Sequence[Record]) -> Record:
        """Return the record of the concatenated batches, as ``torch.cat`` concatenates their pictures.

        Args:
            records: at least one, all of one plan.

        Errors:
            InvalidArgument for no records, for records of different pipelines or sizes, and if samples that are mixed with one
            another would be separated.

        Example:
            >>> augment = pellucid.Pipeline([pellucid.RandomHorizontalFlip()], seed=0)
            >>> len(pellucid.Record.cat([augment.draw(torch.zeros(n, 3, 8, 8)) for n in (2, 3)]))
            5
        """
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
        """Return the record of a batch of samples that were drawn one by one, as ``torch.stack`` stacks their pictures.

        Args:
            records: at least one, of one sample each and all of one plan.

        Errors:
            InvalidArgument for records of several samples, and as :meth:`cat`.

        Example:
            >>> augment = pellucid.Pipeline([pellucid.RandomHorizontalFlip()], seed=0)
            >>> len(pellucid.Record.stack([augment.draw(torch.zeros(3, 8, 8)) for _ in range(4)]))
            4
        """
        if any(read_record(record).samples != 1 for record in records):
            raise invalid("Record.stack", expected="records of one sample", got=[record.samples for record in records])
        return Record.cat(records)

    def repeat(self, times: int) -> Record:
        """Return the record of the repeated batch, as ``Tensor.repeat`` repeats its pictures.

        Args:
            times: the number of repetitions; 0 gives a record without samples.

        Errors:
            InvalidType or InvalidArgument for anything but a number of times.

        Example:
            >>> record = pellucid.Pipeline([pellucid.RandomInvert()], seed=0).draw(torch.zeros(2, 3, 8, 8)).repeat(2)
            >>> torch.equal(record.params[0]["gate"][:2], record.params[0]["gate"][2:])
            True
        """
        times = whole_number("times", times, 0, 1 << 31)
        return self[torch.arange(self.samples).repeat(times)]

    def where(self, mask: Bool[Tensor, "b"], other: Record) -> Record:
        """Return, for each sample, this record's draw if the mask is True, and the other's if not.

        Args:
            mask: one per sample.
            other: of the same plan and as many samples.

        Gradient:
            drawn values: exact, to the selected ones.

        Errors:
            InvalidArgument for a mask of another shape or dtype, and for a record of another plan or number of samples.

        Example:
            >>> record = pellucid.Pipeline([pellucid.RandomRotation(45)]).draw(torch.zeros(2, 3, 8, 8))
            >>> a, b = (record.with_param(0, "degrees", torch.full((2,), degrees)) for degrees in (10.0, 20.0))
            >>> a.where(torch.tensor([True, False]), b).params[0]["degrees"]
            tensor([10., 20.])
        """
        _alike("where", [self, other])
        if mask.dtype != torch.bool or tuple(mask.shape) != (self.samples,) or other.samples != self.samples:
            got = f"{mask.dtype} {tuple(mask.shape)} and {other.samples} samples"
            raise invalid("where", expected=f"a boolean ({self.samples},) mask and a record of as many", got=got)

        def chosen(own: Tensor, theirs: Tensor) -> Tensor:
            return torch.where(mask.to(own.device).reshape(-1, *[1] * (own.dim() - 1)), own, theirs)

        params = tuple(
            {name: chosen(value, theirs[name]) for name, value in ours.items()}
            for ours, theirs in zip(self.params, other.params, strict=True)
        )
        return replace(self, params=params)

    def bounds(self) -> dict[str, tuple[float, float]]:
        """Return, by step and name, the bounds that each drawn value keeps, whatever is learned.

        Example:
            >>> pellucid.Pipeline([pellucid.RandomRotation(15)]).draw(torch.zeros(2, 3, 8, 8)).bounds()
            {'0.degrees': (-15.0, 15.0)}
        """
        return {f"{draw.transform}.{draw.name}": draw.distribution.span() for draw in self.plan.draws}

    def map_to(self, other: Record) -> ViewMap:
        """Return the map from the pixels of this view to those of another view of the same pictures.

        Args:
            other: the record of the other view.

        Returns:
            A `ViewMap`, which maps points and tells which pixels both views show.

        Errors:
            InvalidArgument if the records are of pictures of different sizes, or of different numbers of pictures.

        Example:
            >>> x = torch.rand(1, 3, 8, 8)
            >>> a = pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)]).draw(x)
            >>> b = pellucid.Pipeline([pellucid.CenterCrop(4)]).draw(x)
            >>> a.map_to(b).points(torch.tensor([[1.0, 3.0]]))
            tensor([[[4., 1.]]])
            >>> a.map_to(b).valid((1, 4)).tolist()
            [[[False, True, True, False]]]
        """
        self._check_pictures("map_to", "Both records' src_from_dst lead from voxel to voxel.")
        return ViewMap(self, read_record(other))

    def at(self, size: int | Size, *, out: int | Size | None = None) -> Record:
        """Return the same draw for pictures of another resolution: on feature maps, logits, or a larger original.

        A resize is put before the plan, and one after it, unless that size is unchanged. They are steps, so other steps get new
        numbers.

        Args:
            size: (height, width) of the input, instead of ``size_in``.
            out: of the output; default ``size_out`` in the same proportion.

        Errors:
            InvalidArgument if ``size_out`` in that proportion is not a whole number.

        Example:
            >>> augment = pellucid.Pipeline([pellucid.CenterCrop(16)])
            >>> record = augment.draw(torch.rand(1, 3, 32, 32)).at(8)
            >>> augment.apply({"heatmap": torch.rand(1, 5, 8, 8)}, record)["heatmap"].shape
            torch.Size([1, 5, 4, 4])
        """
        self._check_pictures("at", "Draw for volumes of that size under the same key.")
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
        per_frame = tuple(i + len(ends[0]) for i in plan.per_frame)
        plan = make_plan(transforms, plan.specs[0].resized(size), fuse=plan.fuse, canvas=plan.canvas, per_frame=per_frame)
        empty: tuple[dict[str, Tensor], ...] = ({},)
        params = (*empty * len(ends[0]), *self.params, *empty * len(ends[1]))
        return replace(self, plan=plan, params=params)

    def with_param(self: _Drawn, transform: int, name: str, value: Tensor) -> _Drawn:
        """Return the same record with one drawn value replaced, for instance by a tensor that requires a gradient.

        Args:
            transform: its place; negative ones count from the end.
            name: of the drawn value, as in ``params``.
            value: of the shape of the value it replaces; floating-point if that is, otherwise of the same dtype.

        Gradient:
            value: as the transform declares, once the record is applied.

        Errors:
            InvalidArgument for a value that was not drawn, and for another shape or kind of number.

        Example:
            >>> augment, images = pellucid.Pipeline([pellucid.RandomRotation(15)]), torch.rand(1, 3, 8, 8)
            >>> degrees = torch.tensor([5.0], requires_grad=True)
            >>> augment.apply(images, augment.draw(images).with_param(0, "degrees", degrees)).sum().backward()
            >>> degrees.grad.shape
            torch.Size([1])
        """
        if not -len(self.params) <= transform < len(self.params) or name not in self.params[transform]:
            known = [f"{i}: {', '.join(values)}" for i, values in enumerate(self.params) if values]
            got = f"transform {transform}, {name!r}"
            raise invalid("with_param", expected=f"one of the drawn values ({'; '.join(known)})", got=got)
        drawn = self.params[transform][name]
        if value.shape != drawn.shape:
            raise invalid(f"with_param({name!r})", expected=f"shape {tuple(drawn.shape)}", got=tuple(value.shape))
        if value.dtype != drawn.dtype and not (value.is_floating_point() and drawn.is_floating_point()):
            expected = "floating-point numbers" if drawn.is_floating_point() else str(drawn.dtype)
            raise invalid(f"with_param({name!r})", expected=expected, got=value.dtype)
        transform %= len(self.params)
        params = tuple({**values, name: value} if i == transform else values for i, values in enumerate(self.params))
        return replace(self, params=params)

    def requires_grad_(self: _Drawn) -> _Drawn:
        """Return the same record with every continuous value a fresh leaf that requires a gradient.

        Example:
            >>> record = pellucid.Pipeline([pellucid.RandomRotation(15)]).draw(torch.zeros(1, 3, 8, 8)).requires_grad_()
            >>> record.params[0]["degrees"].requires_grad
            True
        """
        leaves = of_each(self.params, lambda value: value.detach().clone().requires_grad_() if value.is_floating_point() else value)
        return replace(self, params=leaves)

    def to(self: _Drawn, device: torch.device | str) -> _Drawn:
        """Return the record on another device.

        Args:
            device: where the drawn values go.

        Example:
            >>> pellucid.Pipeline([pellucid.RandomRotation(15)]).draw(torch.zeros(1, 3, 8, 8)).to("cpu").device
            device(type='cpu')
        """
        return replace(self, params=of_each(self.params, lambda value: value.to(device)))

    def step(self, transform: int) -> Record:
        """Return the record of one transform alone, as a pipeline of that transform would have made it.

        For a choice, it includes all of its branches. For a transform inside of a choice, it is the record of
        ``Apply([transform])``, with the gate that the choice gave.

        Args:
            transform: its place in the plan; negative ones count from the end.

        Errors:
            InvalidArgument for a place that the plan does not have.

        Example:
            >>> augment = pellucid.Pipeline([pellucid.RandomRotation(15), pellucid.CenterCrop(4)])
            >>> record = augment.draw(torch.zeros(1, 3, 8, 8))
            >>> record.step(0).size_out, record.step(1).size_out
            ((8, 8), (4, 4))
        """
        transform = self._place("step", transform)
        alone, params = self.plan.steps[transform].transform, list(self.params[transform : transform + self._extent(transform)])
        changing = {at for at, *_ in self._knots()} & {gate.choice for gate in self.plan.steps[transform].gates}
        if changing:
            what = type(self.plan.steps[max(changing)].transform).__name__
            fix = f"record.frames(count).step({transform}) has one for each."
            raise invalid("step", expected=f"one choice of {what} for all frames", got="one for each frame", fix=fix)
        gate = opened(self.plan, self.params, transform)
        if gate is not None:
            alone, params = Apply((alone,)), [{"gate": gate}, *params]
        inner = range(transform, transform + self._extent(transform))
        per_frame = tuple(i - transform + (gate is not None) for i in self.plan.per_frame if i in inner)
        plan = make_plan((alone,), self.plan.specs[transform], canvas=self.plan.canvas, per_frame=per_frame)
        return replace(self, plan=plan, params=tuple(params))

    def _place(self, name: str, transform: int) -> int:
        """Return the place of a transform, counted from the start."""
        if not isinstance(transform, int) or not -len(self.params) <= transform < len(self.params):
            raise invalid(name, expected=f"one of {len(self.params)} transforms, by its place", got=repr(transform))
        return transform % len(self.params)

    def _extent(self, step: int) -> int:
        """Return the number of steps of a transform: one, or for a choice also all steps inside of it."""
        inside = [step == gate.choice for one in self.plan.steps for gate in one.gates]
        return 1 + sum(inside)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file in PyTorch's format, atomically.

        Args:
            path: of the file; any name that does not end in ``.safetensors``.

        Errors:
            InvalidArgument for a name with that ending, and for transforms that no file can hold.

        Example:
            >>> import tempfile, torch, pellucid
            >>> record = pellucid.Pipeline([pellucid.RandomRotation(15)], seed=0).draw(torch.zeros(2, 3, 8, 8))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     record.save(f"{folder}/record.pt")
            ...     again = pellucid.Record.load(f"{folder}/record.pt")
            >>> torch.equal(again.params[0]["degrees"], record.params[0]["degrees"])
            True
        """
        write_parts(path, self.plan, self.params, self.samples, self.lead)

    @staticmethod
    def load(path: str | os.PathLike[str], *, allow: Sequence[str] = ()) -> Record:
        """Return the record that :meth:`save` wrote. Loads tensors and plain values only, never code.

        Args:
            path: of the file.
            allow: the modules that transforms of your own may be imported from, as in `Pipeline.load`.

        Errors:
            InvalidArgument for a file that is damaged, of another version, or no record, and for modules that are not allowed.

        Example:
            >>> import tempfile, torch, pellucid
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     pellucid.Pipeline([pellucid.CenterCrop(4)]).draw(torch.zeros(2, 3, 8, 8)).save(f"{folder}/record.pt")
            ...     pellucid.Record.load(f"{folder}/record.pt").size_out
            (4, 4)
        """
        return Record(*read_parts(path, allow))


def of_each(params: Sequence[Mapping[str, Tensor]], function: Callable[[Tensor], Tensor]) -> tuple[dict[str, Tensor], ...]:
    """Apply a function to every drawn value."""
    return tuple({name: function(value) for name, value in values.items()} for values in params)


def _fitted(size: Size, target: Size) -> tuple[Transform, ...]:
    """Return a resize to a size, without antialiasing; nothing if pictures have that size already."""
    return () if size == target else (Resize(target, antialias=False),)


def _alike(name: str, records: Sequence[Record]) -> Record:
    """Check that records can be joined, and return the first."""
    if not records:
        raise invalid(name, expected="at least one record", got="none")
    first = read_record(records[0])
    for record in records:
        if read_record(record).plan != first.plan:
            expected = f"records of one pipeline and one size of pictures ({first.plan}, {first.size_in})"
            raise invalid(name, expected=expected, got=f"{record.plan}, {record.size_in}")
    return first


def _check_partners(name: str, plan: Plan, samples: int, kept: Tensor) -> None:
    """Check that samples which are mixed with one another stay together."""
    if not keeps_partners(plan, samples, kept):
        fix = "Take whole groups in their order, such as record[0:4] where every sample meets the one beside it."
        raise invalid(name, expected="samples together with those they are mixed with", got=f"{len(kept)} of {samples}", fix=fix)


def read_record(record: object) -> Record:
    """Check that this is a record."""
    if not isinstance(record, Record):
        fix = "out, record = pipeline(batch, return_record=True)."
        raise wrong_type("record", expected="the Record of an earlier call", got=repr(record), fix=fix)
    return record


def record_is_of(plan: Plan, transforms: Sequence[Transform]) -> None:
    """Check that a record's plan has these transforms, at any size; an empty pipeline replays any record."""
    made, asked = ([type(step.transform).__name__ for step in steps] for steps in (plan.steps, steps_of(transforms)))
    places = range(len(made) - len(asked) + 1)  # `Record.at` may have put a resize before the others, and after them
    if not any(made[i : i + len(asked)] == asked and {*made[:i], *made[i + len(asked) :]} <= {"Resize"} for i in places) and asked:
        fix = "Replay it with the pipeline that made it; Pipeline([]) replays any record."
        expected = f"one of this pipeline's: {', '.join(asked)}"
        raise invalid("record", expected=expected, got=f"one of {', '.join(made) or 'an empty pipeline'}", fix=fix)


def record_agrees(parsed: Parsed, record: Record, *, inverse: bool) -> None:
    """Check that a batch fits the record to be replayed."""
    samples, _ = batch_of(parsed)
    if parsed.entries and samples != record.samples != 1:
        fix = "Slice the record: record[i:j]."
        raise invalid("batch", expected=f"{record.samples} samples, as in the record", got=samples, fix=fix)
    size_agrees(parsed, record.plan, inverse=inverse)


def size_agrees(parsed: Parsed, plan: Plan, *, inverse: bool) -> None:
    """Check that pictures have the plan's input size (or, with ``inverse``, its output size)."""
    size = plan.size_out if inverse else plan.size_in
    for entry in parsed.entries:
        if entry.size not in (None, size):
            fix = "" if inverse or len(size) != 2 else f"record.at({entry.size}) is the same draw for that size."
            raise invalid(f"batch[{entry.key!r}]", expected=f"height and width {size}, as in the record", got=entry.size, fix=fix)
