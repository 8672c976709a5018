"""Read lists of pictures of different sizes, and join the results in the list's order.

Owns: `Ragged`, and the division into samples that go through the passes together.
Must not: draw or compute on pixels.
Read next: ``calls.py``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pellucid.engine.plan import ends_of
from pellucid.errors import InvalidArgument, InvalidType, invalid, wrong_type
from pellucid.geometry.clipping import trimmed
from pellucid.geometry.polygons import of_one_length
from pellucid.kernels.pixels import stacked_pictures
from pellucid.pipeline.ragged.record import RaggedRecord, scattered
from pellucid.pipeline.records import size_agrees
from pellucid.targets.arrays import is_array
from pellucid.targets.containers import Form, opened
from pellucid.targets.kinds import IMAGE, Entry
from pellucid.targets.options import Options, kind_in
from pellucid.targets.parsing import Parsed, Sorted, is_rows, parse_sorted, sort
from pellucid.targets.torchvision import wrap_like
from pellucid.transforms.base import Transform
from pellucid.types import ImageSpec, Size

__all__ = ["Part", "Ragged", "ends_static", "gather", "is_ragged", "parts_of", "read_ragged"]


@dataclass(frozen=True)
class Part:
    """Samples that go through the passes together: their pictures have one size.

    Args:
        parsed: the samples as one batch; boxes and keypoints are padded to the largest number, and flagged.
        where: the places of the samples in the list.
    """

    parsed: Parsed
    where: tuple[int, ...]


@dataclass(frozen=True)
class Ragged:
    """A list of samples after reading.

    Args:
        parts: the samples grouped by size.
        samples: each sample by itself.
        untouched: labels and passthrough entries of the whole list.
        form: of the list.
        batched: whether the input was a batch, not a list, whose samples need separate passes.
    """

    parts: tuple[Part, ...]
    samples: tuple[Parsed, ...]
    untouched: dict[str, Any]
    form: Form
    batched: bool = False


def is_ragged(batch: object, options: Options) -> bool:
    """Return whether this is a list of pictures, or a dict in which a target is a list."""
    batch, _ = opened(batch)
    if isinstance(batch, Mapping):
        lists = [key for key, value in batch.items() if isinstance(value, list | tuple) and isinstance(key, str)]
        kinds = {key: kind_in(key, batch[key], options) for key in lists}
        others = [key for key in batch if isinstance(key, str) and key not in lists]
        if any(_is_one(batch[key]) for key in others if kind_in(key, batch[key], options) is IMAGE):
            return False
        return any(kind and kind.axes and not (kind.move and is_rows(batch[key])) for key, kind in kinds.items())
    return isinstance(batch, list | tuple)


def _is_one(image: object) -> bool:
    """Return whether this is one picture: lists of targets that come with it are not lists of pictures."""
    return is_array(image) or (isinstance(image, Tensor) and image.dim() == 3)


def read_ragged(batch: object, options: Options, *, record: RaggedRecord | None = None, inverse: bool = False) -> Ragged:
    """Check a list, sample by sample, and group the samples that go through the passes together.

    Args:
        batch: a list of pictures, or a dict of lists or of tensors.
        record: the record to replay, if any.
        inverse: whether the record is undone.
    """
    named = sort(batch, options)
    batched = not any(isinstance(value, list | tuple) for value in named.values.values())
    opens = batched or record is not None
    lists = {key: _list(key, value, named, opens) for key, value in named.values.items()}
    flags = {key: _list(f"{key}_valid", value, named, opens) for key, value in named.flags.items()}
    first, count = next(((key, len(values)) for key, values in lists.items()))
    for key, values in [*lists.items(), *((f"{key}_valid", values) for key, values in flags.items())]:
        if len(values) != count:
            raise invalid(f"batch[{key!r}]", expected=f"{count} entries, like batch[{first!r}]", got=len(values))
    if count == 0:
        name = "batch" if named.form.bare else f"batch[{first!r}]"
        raise invalid(name, expected="at least one picture", got="an empty list")
    if record is not None and count != len(record):
        raise invalid("batch", expected=f"{len(record)} samples, as in the record", got=count, fix="Slice the record: record[i:j].")
    samples: list[Parsed] = []
    for i in range(count):
        one = {key: values[i] for key, values in lists.items()}
        flag = {key: values[i] for key, values in flags.items()}
        try:
            samples.append(parse_sorted(Sorted(one, named.kinds, flag, {}, named.form), options, lead=0))
            _check(samples[i], samples[0])
            if record is not None:
                size_agrees(samples[i], record.plans[i], inverse=inverse)
        except (InvalidArgument, InvalidType) as error:
            _at(i, error, _advice(lists[first]) if named.form.bare else "")
    kinds = [id(plan) for plan in record.plans] if record is not None else [None] * count
    return Ragged(parts_of(samples, kinds), tuple(samples), named.untouched, named.form, batched)


def _at(i: int, error: InvalidArgument | InvalidType, advice: str = "") -> NoReturn:
    """Raise the error again, with the sample's number in front."""
    raise type(error)(f"sample {i}: {error}{advice}") from None


def _advice(pictures: Sequence[Any]) -> str:
    """Say how to pass what looks like samples with targets, and not like a list of pictures."""
    if isinstance(pictures[0], Mapping | list | tuple):
        return " Samples with targets are joined first, {'image': [...], 'boxes': [...]}, or by the DataLoader."
    alike = len({tuple(getattr(one, "shape", ()))[:-2] for one in pictures}) == 1
    return "" if alike or len(pictures) != 2 else " A picture with its target is (picture, {'mask': target})."


def _list(key: str, value: Any, named: Sorted, opens: bool) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    if opens and isinstance(value, Tensor) and value.dim():
        return value.unbind(0)
    other = next(k for k, v in named.values.items() if isinstance(v, list | tuple))
    fix = "A tensor of the whole batch becomes one by list(tensor)."
    raise wrong_type(f"batch[{key!r}]", expected=f"a list, like batch[{other!r}]", got=type(value).__name__, fix=fix)


_ALIKE = "Convert them alike first, as image.convert('RGB') does, or decode(path)."


def _check(sample: Parsed, first: Parsed) -> None:
    """Raise unless a sample is one picture of at least one pixel, with the channels, dtypes and devices of the first sample."""
    for entry, model in zip(sample.entries, first.entries, strict=True):
        name = entry.key
        if sample.lead:
            raise invalid(name, expected="one picture (C, H, W)", got=f"shape {tuple(entry.tensor.shape)}")
        shape, wanted = entry.tensor.shape, model.tensor.shape
        axes = 3 if entry.kind.space else 2
        if not entry.kind.move and 0 in (shape if entry.kind.name != "mask" else shape[-2:]):
            raise invalid(name, expected="at least one row and column", got=f"shape {tuple(shape)}")
        if not entry.kind.move and entry.kind.name != "mask" and shape[:-axes] != wanted[:-axes]:
            expected = f"{_channels(wanted[:-axes])} channels, like sample 0"
            raise invalid(name, expected=expected, got=_channels(shape[:-axes]), fix=_ALIKE)
        if entry.kind.move and shape[-1] != wanted[-1]:
            raise invalid(name, expected=f"{wanted[-1]} numbers each, like sample 0", got=shape[-1])
        for what, other in ((entry.tensor.dtype, model.tensor.dtype), (entry.tensor.device, model.tensor.device)):
            if what != other:
                raise invalid(name, expected=f"{other}, like sample 0", got=what)


def _channels(lead: Sequence[int]) -> object:
    return lead[-1] if lead else "no"


def parts_of(samples: Sequence[Parsed], kinds: Sequence[Hashable]) -> tuple[Part, ...]:
    """Group the samples of one size and one kind, which go through the passes together."""
    groups: dict[Any, list[int]] = {}
    for i, sample in enumerate(samples):
        like = tuple(
            (entry.size, entry.box_format, entry.degrees, entry.valid is None, _objects(entry)) for entry in sample.entries
        )
        groups.setdefault((like, kinds[i]), []).append(i)
    return tuple(Part(_stacked([samples[i] for i in where]), tuple(where)) for where in groups.values())


def _objects(entry: Entry) -> Sequence[int]:
    """Return the number of a sample's masks, which may differ between samples (one mask for each object)."""
    return entry.tensor.shape[:-2] if entry.kind.name == "mask" else ()


def _stacked(samples: list[Parsed]) -> Parsed:
    """Stack samples of one size into a batch."""
    return replace(samples[0], entries=tuple(map(_joined, zip(*(sample.entries for sample in samples), strict=True))), lead=1)


def _joined(entries: tuple[Entry, ...]) -> Entry:
    tensors = [entry.tensor.as_subclass(Tensor) for entry in entries]
    first = entries[0]
    if len(entries) == 1:
        return replace(first, tensor=tensors[0][None], valid=None if first.valid is None else first.valid[None])
    if not first.kind.move:
        return replace(first, tensor=stacked_pictures(tensors) if first.kind is IMAGE else torch.stack(tensors))
    tensors = of_one_length(tensors) if first.kind.corners else tensors
    flags = [t.new_ones(len(t), dtype=torch.bool) if e.valid is None else e.valid for t, e in zip(tensors, entries, strict=True)]
    return replace(first, tensor=pad_sequence(tensors, batch_first=True), valid=pad_sequence(flags, batch_first=True))


def gather(
    ragged: Ragged,
    results: Sequence[Mapping[str, Any]],
    images: Mapping[str, Tensor],
    *,
    stacked: bool,
    padded: bool,
    sizes: Sequence[Size],
) -> dict[str, Any]:
    """Put the results of the parts together, in the list's order.

    Args:
        ragged: the input.
        results: of each part.
        images: results of pictures that were computed together, by key.
        stacked: return pictures, and masks if all samples have equally many, as one batch; else as lists.
        padded: return boxes and keypoints as one batch; else as lists.
        sizes: (height, width) of each sample's result.
    """
    inputs = [{entry.key: entry.tensor for entry in sample.entries} for sample in ragged.samples]
    points = {entry.key for entry in ragged.samples[0].entries if entry.kind.move}
    cornered = {entry.key for entry in ragged.samples[0].entries if entry.kind.corners}
    together: dict[str, Any] = {}
    for key in (entry.key for entry in ragged.samples[0].entries if entry.key in images):
        together[key] = wrap_like(images[key], inputs[0][key], sizes[0]) if stacked else list(images[key].unbind(0))
    for key in results[0]:
        of = key if key in inputs[0] else key.removesuffix("_valid")
        parts = [(part.where, result[key]) for part, result in zip(ragged.parts, results, strict=True)]
        if of not in points and stacked and len({result.shape[1:] for _, result in parts}) == 1:
            value = parts[0][1] if len(parts) == 1 else torch.stack(scattered(len(inputs), parts))
        else:
            value = scattered(len(inputs), parts)
        if of in points:
            value = [row[: len(one[of])] for row, one in zip(value, inputs, strict=True)]
            value = (of_one_length(value) if padded else [trimmed(row) for row in value]) if key in cornered else value
            value = pad_sequence(value, batch_first=True) if padded else value
        if isinstance(value, Tensor):
            together[key] = wrap_like(value, inputs[0].get(key), sizes[0]) if stacked else value
        else:
            together[key] = [wrap_like(row, one.get(key), size) for row, one, size in zip(value, inputs, sizes, strict=True)]
    return together


def ends_static(transforms: Sequence[Transform], spec: ImageSpec) -> bool:
    """Return whether the result's size does not depend on the input's size, by trying larger sizes of several proportions."""
    sizes = {ends_of(transforms, spec).extent}
    for up, along in ((2, 2), (2, 3), (3, 2)):
        with suppress(InvalidArgument):  # a transform may refuse such a size
            *depth, height, width = spec.extent
            larger = spec.resized((*(up * along * d for d in depth), up * height, along * width))
            sizes.add(ends_of(transforms, larger).extent)
    return len(sizes) == 1
