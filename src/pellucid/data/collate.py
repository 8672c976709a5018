"""Turn a list of samples into one augmented batch, in a worker or anywhere else.

Owns: how samples are read, which part of them the pipeline sees, with which key, and how
    much of a picture's resolution its crop can use.
Must not: keep anything between batches.
Read next: ``prefetch.py``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import get_worker_info

from pellucid.boxes.degrees import DEGREES
from pellucid.core.arguments import check_choice
from pellucid.core.compilers import numba_works
from pellucid.core.compilers.ahead import compiled_ahead
from pellucid.data.decoding import BACKENDS, Enough, decode, decode_labels
from pellucid.data.samples import Sample
from pellucid.errors import invalid, wrong_type
from pellucid.kernels.pages import in_shared_memory
from pellucid.kernels.threads import run_split
from pellucid.pipeline import Pipeline
from pellucid.random.key import Key
from pellucid.targets.arrays import as_tensor, is_array
from pellucid.targets.kinds import BOXES, IMAGE, TargetKind, classes_in
from pellucid.targets.options import kind_in
from pellucid.transforms import RandomResizedCrop
from pellucid.transforms.base import as_size
from pellucid.types import Size

__all__ = ["Collate", "collate"]


@dataclass(frozen=True)
class Collate:
    """The function that `collate` makes: a list of samples in, a batch out.

    Args:
        pipeline: augments the batch.
        names, backend, gray, draft: see `collate`.

    Errors:
        As `collate`; InvalidType for samples that are neither pictures nor tuples or dicts of targets, InvalidArgument for a batch
        in which only some samples are numbered.

    Example:
        >>> import torch, pellucid
        >>> from pellucid.data import collate
        >>> pictures = [torch.rand(3, 20, 30), torch.rand(3, 24, 30)]
        >>> collate(pellucid.Pipeline([pellucid.CenterCrop(16)]))(pictures).shape
        torch.Size([2, 3, 16, 16])
    """

    pipeline: Any
    names: Mapping[str, str] = field(default_factory=dict)
    backend: str = "pillow"
    gray: bool = False
    draft: bool = True

    def __call__(self, samples: Sequence[Any]) -> Any:
        """Read the samples, and augment them in one ragged pass."""
        read = self.read(samples)
        numbered = _numbered(read)
        key = _key(_inner(self.pipeline)._seed, numbered) if numbered else None
        worker = get_worker_info() is not None
        with torch.no_grad(), in_shared_memory() if worker else nullcontext():
            return self._augmented([sample.value for sample in numbered] or read, key)

    def warmup(self, samples: Sequence[Any]) -> int:
        """Compile the kernels that batches of samples like these need, before a ``DataLoader`` starts its workers.

        Args:
            samples: a few, as the data set gives them.

        Returns:
            How many kernels were compiled. The pipeline's stream of draws stays where it is.

        Errors:
            As the call.

        Example:
            >>> import torch, pellucid
            >>> augment = pellucid.data.collate(pellucid.Pipeline([pellucid.CenterCrop(16)]))
            >>> _ = augment.warmup([torch.zeros(3, 20, 30), torch.zeros(3, 24, 30)])
        """
        if not numba_works():
            return 0
        read = self.read(samples)
        values = [sample.value for sample in _numbered(read)] or read
        return compiled_ahead(lambda one, step: self._augmented(one, Key(0, step=step)), values, gradients=False)

    @cached_property
    def _drafts(self) -> Drafts:
        return Drafts(self.pipeline)

    def read(self, samples: Sequence[Any]) -> list[Any]:
        """Return the samples with pictures decoded to tensors but not augmented, for a `Prefetcher` to augment.

        Args:
            samples: as in the call.

        Errors:
            As the call.

        Example:
            >>> import numpy, pellucid
            >>> from pellucid.data import collate
            >>> augment = collate(pellucid.Pipeline([pellucid.CenterCrop(16)]))
            >>> [tuple(picture.shape) for picture in augment.read([numpy.zeros((20, 30, 3), numpy.uint8)])]
            [(3, 20, 30)]
        """
        numbered = _numbered(samples)
        if not numbered:
            return self._read_all(samples, [None] * len(samples))
        enough = self._drafts.of(numbered) if self.draft and self.backend != "torchvision" else None
        values = self._read_all([sample.value for sample in numbered], enough or [None] * len(numbered))
        return [sample._replace(value=value) for sample, value in zip(numbered, values, strict=True)]

    def _read_all(self, values: Sequence[Any], least: Sequence[Any]) -> list[Any]:
        """Decode all samples, on as many threads as torch uses: decoders release the interpreter's lock."""
        read: list[Any] = list(values)

        def some(start: int, stop: int) -> None:
            read[start:stop] = map(self._read, values[start:stop], least[start:stop])

        run_split(some, len(values), 1)
        return read

    def _read(self, value: Any, least: Any) -> Any:
        """Decode the pictures of one sample to tensors."""
        if isinstance(value, Mapping):
            named = {self.names.get(key, key): part for key, part in value.items()}
            kinds = {key: self._kind(key, part) for key, part in named.items()}
            return {key: self._part(kinds[key], part, least if _alone(kinds) else None) for key, part in named.items()}
        if isinstance(value, tuple | list):
            picture, *rest = value
            if rest and isinstance(rest[0], Mapping):
                rest = [self._read(rest[0], None), *rest[1:]]
                least = least if _alone({key: self._kind(key, part) for key, part in rest[0].items()}) else None
            return (self._part(IMAGE, picture, least), *rest)
        return self._part(IMAGE, value, least)

    def _kind(self, key: str, value: Any) -> TargetKind | None:
        """The kind of target that an entry, or a list of such entries, is."""
        return kind_in(key, value, _inner(self.pipeline).options)

    def _part(self, kind: TargetKind | None, value: Any, least: Any) -> Any:
        if kind is None or not kind.axes or isinstance(value, Tensor):
            return value
        if is_array(value):
            return as_tensor(kind.name, kind.name, value)
        if kind.move:
            return value if kind.corners else torch.as_tensor(value, dtype=torch.float32)
        if isinstance(value, str | bytes | os.PathLike):
            if kind is not IMAGE:
                return decode_labels(value)
            return decode(value, backend=self.backend, gray=self.gray, least=least)
        fix = "Samples come in lists: DataLoader(batch_size=None) has none."
        expected = "a tensor, an array, a PIL image, a path or a file's content"
        raise wrong_type(kind.name, expected=expected, got=type(value).__name__, fix=fix)

    def _augmented(self, read: list[Any], key: Key | None) -> Any:
        """Augment decoded samples of one form: pictures, tuples that begin with a picture, or dicts."""
        if not read:
            raise invalid("samples", expected="at least one", got="an empty list")
        first = _form(read[0])
        for i, sample in enumerate(read):
            if _form(sample) != first:
                raise invalid(f"sample {i}", expected=f"{first}, like sample 0", got=_form(sample))
        if isinstance(read[0], tuple):
            pictures, *columns = (list(column) for column in zip(*read, strict=True))
            if columns and isinstance(columns[0][0], Mapping):
                return (*self._with_targets(pictures, columns[0], key), *map(_together, columns[1:]))
            _check_labels(columns)
            return (self.pipeline(pictures, key=key), *map(_together, columns))
        return self._of_dicts(read, key) if isinstance(read[0], Mapping) else self.pipeline(read, key=key)

    def _with_targets(self, pictures: list[Any], targets: list[Any], key: Key | None) -> tuple[Any, list[Any]]:
        """Augment pictures and the dict beside each of them; entries that are no targets come back in it unchanged."""
        columns = self._columns(targets)
        pictures, moved = self.pipeline((pictures, _samples(columns.seen, len(targets))), key=key)
        rest = _samples(columns.rest, len(targets))
        return pictures, [{**one, **other} for one, other in zip(moved, rest, strict=True)]

    def _of_dicts(self, samples: list[Any], key: Key | None) -> dict[str, Any]:
        """Augment dicts of targets as one dict of lists; labels of boxes or points are padded where the rows are."""
        columns = self._columns(samples)
        out = self.pipeline(columns.seen, key=key)
        kinds = {name: self._kind(name, column) for name, column in columns.seen.items()}
        moving = [name for name, kind in kinds.items() if kind is not None and kind.move and not kind.whole]
        rows = [(columns.seen[name], out[name]) for name in moving]
        for name, kind in kinds.items():
            if not getattr(kind, "axes", ()):
                out[name] = _labels(out[name], rows)
        return {**out, **{name: _together(column) for name, column in columns.rest.items()}}

    def _columns(self, samples: Sequence[Mapping[str, Any]]) -> _Columns:
        """Turn dicts into lists by name; samples without boxes or points get empty rows."""
        first = samples[0]
        for i, sample in enumerate(samples):
            if sample.keys() != first.keys():
                raise invalid(f"sample {i}", expected=f"the keys of sample 0, {sorted(first)}", got=sorted(sample))
        columns = {name: [sample[name] for sample in samples] for name in first}
        seen = {name: self._of_one_width(name, column) for name, column in columns.items() if self._kind(name, column) is not None}
        return _Columns(seen, {name: column for name, column in columns.items() if name not in seen})

    def _of_one_width(self, key: str, column: list[Any]) -> list[Any]:
        """Give samples without boxes or points empty rows as wide as the other samples' rows."""
        kind = self._kind(key, column)
        if kind is None or not kind.move or kind.corners:
            return column
        form = _inner(self.pipeline).options.box_format_of(key)
        usual = DEGREES.get(form, 4) if kind is BOXES else next(iter(kind.last), 1)
        width = next((rows.shape[-1] for rows in column if rows.dim() > 1), usual)
        return [rows.new_zeros((0, width)) if rows.shape == (0,) else rows for rows in column]


class _Columns(NamedTuple):
    """Dicts as lists by name: the entries that the pipeline augments, and the others."""

    seen: dict[str, list[Any]]
    rest: dict[str, list[Any]]


def collate(
    pipeline: Any, *, names: Mapping[str, str] | None = None, backend: str = "pillow", gray: bool = False, draft: bool = True
) -> Collate:
    """Make the ``collate_fn`` of a ``DataLoader`` that decodes and augments: one ragged pass per batch, in the worker.

    Args:
        pipeline: a `Pipeline`, or a choice among lists of transforms.
        names: new names for the keys of dict samples, such as ``{"jpg": "image", "cls": "label"}``. Keys whose name is no kind of
            target are collected without augmentation.
        backend: the decoder of paths and files' contents; see `decode`.
        gray: decode to one channel.
        draft: let Pillow and OpenCV decode a JPEG at a fraction of its size where the pipeline begins with a crop that shrinks it
            anyway, and the sample has no other targets. The pixels then come from the smaller picture.

    Samples are pictures, tuples that begin with one, such as ``(image, label)``, or dicts of targets. Pictures are tensors, arrays,
    PIL images, paths or files' contents. In pairs ``(picture, target)`` with a dict of targets, each picture gets back a dict of
    its own. The draw of a sample from `Indexed` or `Numbered` depends on the pipeline's seed, the epoch and the sample's number;
    other samples are drawn from the worker's own stream.

    Labels with a number for each row of boxes or keypoints follow those rows: where rows are padded, labels are padded with -1 (0
    where their dtype has no negative numbers); where rows are lists, labels are a list.

    Returns:
        A `Collate`, which can be pickled for workers.

    Gradient:
        None is recorded here: call a pipeline that learns in the training step.

    Errors:
        InvalidArgument for a backend that does not exist; InvalidType where samples are passed instead of the pipeline.

    Example:
        >>> import torch, pellucid
        >>> from torch.utils.data import DataLoader
        >>> from pellucid.data import Indexed, Order, collate
        >>> pictures = [(torch.rand(3, 20 + i, 30), i) for i in range(4)]
        >>> augment = pellucid.Pipeline([pellucid.RandomResizedCrop(16)], seed=0)
        >>> loader = DataLoader(Indexed(pictures), 2, sampler=Order(pictures), collate_fn=collate(augment))
        >>> [tuple(images.shape) for images, labels in loader]
        [(2, 3, 16, 16), (2, 3, 16, 16)]
    """
    if not callable(pipeline):
        fix = "Write collate_fn=collate(pipeline)."
        raise wrong_type("collate.pipeline", expected="a Pipeline", got=type(pipeline).__name__, fix=fix)
    check_choice("backend", backend, BACKENDS)
    return Collate(pipeline, dict(names or {}), backend, gray, draft)


def _numbered(samples: Sequence[Any]) -> list[Sample]:
    """Return the samples if they are numbered, and an empty list if none is."""
    numbered = [sample for sample in samples if isinstance(sample, Sample)]
    if len(numbered) not in (0, len(samples)):
        raise invalid("samples", expected="all of them numbered, or none", got=f"{len(numbered)} of {len(samples)}")
    epochs = {sample.epoch for sample in numbered}
    if len(epochs) > 1:
        raise invalid("samples", expected="one epoch in a batch", got=sorted(epochs))
    return numbered


def _form(sample: Any) -> str:
    """Name the form of a decoded sample, for comparison and messages."""
    if isinstance(sample, tuple):
        return f"a tuple of {len(sample)}"
    return "a dict" if isinstance(sample, Mapping) else "a picture"


def _samples(columns: Mapping[str, list[Any]], count: int) -> list[dict[str, Any]]:
    """Turn lists by name back into a dict for each sample."""
    return [{name: column[i] for name, column in columns.items()} for i in range(count)]


def _check_labels(columns: Sequence[Sequence[Any]]) -> None:
    """Raise for pictures beside targets in a tuple: nothing says what moves them."""
    for column in columns:
        if classes_in(column):
            got = type(column[0]).__name__
            fix = 'A dict moves all of it: (picture, {"mask": mask}), or {"image": picture, "mask": mask}.'
            raise invalid("samples", expected="pictures beside labels, or a dict of targets", got=got, fix=fix)


def _inner(pipeline: Any) -> Any:
    """The pipeline itself, or the one that a choice holds."""
    return getattr(pipeline, "pipeline", pipeline)


def _key(seed: Tensor, samples: Sequence[Sample]) -> Key:
    return Key(seed, samples[0].epoch, torch.tensor([sample.number for sample in samples]))


def _alone(kinds: Mapping[str, TargetKind | None]) -> bool:
    """Whether a sample has no other target that moves with its picture."""
    return not any(kind is not None and kind.axes and kind is not IMAGE for kind in kinds.values())


def _together(column: Sequence[Any]) -> Any:
    """Stack numbers, and tensors of one shape; return all else as a list."""
    values = [
        torch.as_tensor(value) if isinstance(value, int | float) or hasattr(value, "__array__") else value for value in column
    ]
    if all(isinstance(value, Tensor) and value.shape == values[0].shape for value in values):
        return torch.stack(values)
    return list(column)


def _labels(column: list[Any], rows: Sequence[tuple[list[Any], Any]]) -> Any:
    """Collect labels: one for each picture, or one for each row of boxes or points, which are then padded if the rows are.

    Args:
        column: the labels of each picture, in the pipeline's result.
        rows: boxes or points of each picture, as they went in and as they came out.
    """
    counts = [len(one) if isinstance(one, list | tuple) or getattr(one, "ndim", 0) > 0 else None for one in column]
    beside = [out for each, out in rows if counts in ([len(one) for one in each], [len(one) for one in out])]
    if not beside:
        return _together(column)
    values = [torch.as_tensor(one) if _is_numbers(one) else one for one in column]
    if not all(isinstance(value, Tensor) for value in values):
        return list(column)
    dtype = next((value.dtype for value in values if len(value)), torch.int64)
    values = [value.to(dtype) for value in values]
    if not isinstance(beside[0], Tensor):
        return values
    least = 0 if dtype == torch.bool or (not dtype.is_floating_point and torch.iinfo(dtype).min == 0) else -1
    return pad_sequence(values, batch_first=True, padding_value=least)


def _is_numbers(value: Any) -> bool:
    return hasattr(value, "__array__") or (isinstance(value, list | tuple) and all(isinstance(one, int | float) for one in value))


class Drafts:
    """Tells decoders how much of a picture's resolution the pipeline's first crop can use.

    Args:
        pipeline: one whose first transform is a RandomResizedCrop, without learned numbers; with any other, pictures are decoded
            at full size. The crop draws shares of the picture, so the same draw fits a smaller copy.
    """

    def __init__(self, pipeline: Any) -> None:
        first = pipeline.transforms[0] if isinstance(pipeline, Pipeline) and pipeline.transforms else None
        self._crop: RandomResizedCrop | None = None
        if isinstance(first, RandomResizedCrop) and first.antialias and not pipeline.learned.distributions:
            self._crop, self._seed = first, pipeline._seed
            self._alone = Pipeline([first], same_on_batch=pipeline.options.same_on_batch)

    def of(self, samples: Sequence[Sample]) -> list[Enough] | None:
        """For each sample, a function from the picture's size to the size that is enough; None if the pipeline needs full size."""
        if self._crop is None:
            return None
        drawn = self._alone.draw(torch.empty(len(samples), 1, 8, 8), key=_key(self._seed, samples)).params[0]
        size = as_size("size", self._crop.size)
        return [_enough(*pair, size) for pair in zip(drawn["scale"].tolist(), drawn["ratio"].tolist(), strict=True)]


def _enough(scale: float, ratio: float, size: Size) -> Enough:
    def enough(whole: Size) -> Size | None:
        height, width = whole
        area = scale * height * width
        shape = max(min(ratio, width**2 / area), area / height**2)
        larger = min(math.sqrt(area * shape) / size[1], math.sqrt(area / shape) / size[0])
        return (math.ceil(height / larger), math.ceil(width / larger)) if larger >= 2.0 else None

    return enough
