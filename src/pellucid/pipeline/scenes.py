"""Samples with several pictures: each has draws of its own, and draws that it shares with a group (ADR 77).

Owns: which draws a picture shares, which targets belong to it, and calling the pipeline for each picture.
Must not: draw, or compute on pixels.
Read next: ``module.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor

from pellucid.errors import InvalidArgument, InvalidType, invalid
from pellucid.pipeline.between import Field
from pellucid.pipeline.first_look import Look
from pellucid.pipeline.interface import PipelineLike
from pellucid.pipeline.recipes import Recipes
from pellucid.pipeline.trials import Trial
from pellucid.pipeline.view_draws import is_named, steps_named
from pellucid.random.key import Key
from pellucid.segments import LayerSpec, SegmentSpec, WarpSpec
from pellucid.targets.containers import Form, opened
from pellucid.targets.kinds import IMAGE, VALID, TargetKind, kind_of
from pellucid.targets.options import LEADING, SIDES, Options, kind_in
from pellucid.targets.parsing import sort
from pellucid.transforms.base import ANY_IMAGE, Transform
from pellucid.transforms.choices import Choice, SomeOf, places_of, steps_of

__all__ = ["Scene", "moves", "settings_of"]


class _Parts(NamedTuple):
    """A batch divided by its pictures: the entries of each picture, the entries between two pictures, those of no picture, and the
    form of the batch.
    """

    each: dict[str, Any]
    between: dict[str, Any]
    rest: dict[str, Any]
    form: Form


class Scene:
    """A pipeline whose samples have several pictures: it makes a pipeline for each picture, with draws of its own.

    Args:
        pipeline: gives the seed, step and learned numbers, which all of them use.
    """

    def __init__(self, pipeline: PipelineLike) -> None:
        self._whole, self._alone = pipeline, dict[str, PipelineLike]()
        options = pipeline.options
        for name in ("image", *(key for key, kind in options.targets.items() if kind == "image")):
            self.of(name)  # now, so that no compiled call has to make it
        self._mixes = any(_shows_several(step.transform) for step in pipeline.steps)  # then labels have to be mixed, too
        self._fields = {key: Field(_kind(key, options), options) for key, ends in options.of.items() if len(ends) == 2}

    def of(self, picture: str) -> PipelineLike:
        """Return the pipeline of one picture."""
        if picture not in self._alone:
            whole, one = self._whole, copy(self._whole)
            one.options, one._scene = replace(whole.options, share={}, of={}, only={}), None
            one._look, one._recipes = Look(), Recipes()
            one.transforms = _without(whole.transforms, _skipped(whole.transforms, whole.options.only, picture))
            one.steps = steps_of(one.transforms)
            one._plans = whole._plans.named(one.transforms, _streams(whole.transforms, whole.options.share, picture))
            self._alone[picture] = one
        return self._alone[picture]

    def forward(self, batch: Any, key: Key | None, return_record: bool, gradient_scale: Any) -> Any:
        """`Pipeline.forward`, with a record for each picture."""
        if self._whole.learned.predicts:  # pictures of a group use the numbers predicted from its first picture
            trial = Trial(self._whole, batch, key)
            both = trial.call(trial.values(trial.uniforms()), gradient_scale=gradient_scale)
            return both if return_record else both[0]
        parts = self.parts(batch)
        key = self.key(parts, key)
        recorded = return_record or bool(parts.between)
        found = {
            name: self.of(name)(part, key=key, return_record=recorded, gradient_scale=gradient_scale)
            for name, part in parts.each.items()
        }
        if not recorded:
            return _joined(parts, found)
        results, records = ({name: one[i] for name, one in found.items()} for i in (0, 1))
        result = self.finished(parts, results, records)
        return (result, self.recorded(parts, records)) if return_record else result

    def draw(self, batch: Any, key: Key | None) -> Any:
        """`Pipeline.draw`."""
        if self._whole.learned.predicts:
            trial = Trial(self._whole, batch, key)
            return trial.record(trial.values(trial.uniforms()))
        parts = self.parts(batch)
        key = self.key(parts, key)
        return self.recorded(parts, {name: self.of(name).draw(part, key=key) for name, part in parts.each.items()})

    def replayed(
        self, batch: Any, records: Mapping[str, Any], call: Callable[[PipelineLike, Any, Any], Any], *, inverse: bool = False
    ) -> Any:
        """`Pipeline.apply` or `Pipeline.inverse` for each picture with its record."""
        parts = self.parts(batch, tuple(records))
        ends = (name for key in self._fields if key in parts.between for name in self._whole.options.of[key])
        wanted = dict.fromkeys([*parts.each, *ends])
        missing = [name for name in wanted if name not in records]
        if missing:
            raise invalid("record", expected=f"one for each picture, {', '.join(wanted)}", got=f"none for {missing[0]}")
        found = {name: call(self.of(name), part, records[name]) for name, part in parts.each.items()}
        return self.finished(parts, found, records, inverse=inverse)

    def key_of(self, batch: Any, key: Key | None) -> Key:
        """`Pipeline.key_of`."""
        name, part = next(iter(self.parts(batch).each.items()))
        return self.of(name).key_of(part, key)

    def explain(self, batch: Any) -> str:
        """`Pipeline.explain` of each picture."""
        return "\n\n".join(f"{name}:\n{self.of(name).explain(part)}" for name, part in self.parts(batch).each.items())

    @staticmethod
    def recorded(parts: _Parts, records: dict[str, Any]) -> Any:
        """Return the records by picture; for a single picture without a dict, its record."""
        return records["image"] if parts.form.bare else records

    def finished(self, parts: _Parts, results: dict[str, Any], records: Mapping[str, Any], *, inverse: bool = False) -> Any:
        """Join the results of all pictures with those of flow and disparity between pictures."""
        between: dict[str, Any] = {}
        for key, field in self._fields.items():
            if key in parts.between:
                ends, flags = self._whole.options.of[key], f"{key}_{VALID}"
                if not all(name in records for name in ends):
                    raise invalid(f"batch[{key!r}]", expected=f"both pictures beside it, {' and '.join(ends)}", got="not both")
                stacked = isinstance(results.get(ends[0], {}).get(ends[0]), Tensor)
                between[key], between[flags] = field.moved(
                    parts.between[key],
                    parts.between.get(flags),
                    *(records[name] for name in ends),
                    inverse=inverse,
                    stacked=stacked,
                )
        return _joined(parts, results | {"": between})

    def parts(self, batch: Any, pictures: Sequence[str] = ()) -> _Parts:
        """Divide a batch by its pictures; ``pictures`` are names from a record, whose pictures may be absent here."""
        flat, form = opened(batch)
        if not isinstance(flat, Mapping):
            return _Parts({"image": batch}, {}, {}, form)
        if form.count is not None:
            fix = "Put them into one dict of lists."
            raise invalid("batch", expected="one dict of several pictures and their targets", got="a list of dicts", fix=fix)
        options = self._whole.options
        kinds = {key: kind_in(key, value, options) for key, value in flat.items() if isinstance(key, str)}
        pictures = [*pictures, *(key for key, kind in kinds.items() if kind is IMAGE and key not in pictures)]
        if not pictures:
            sort(flat, options)  # raises for keys of no kind
            raise invalid("batch", expected="at least one image", got=list(flat))
        each: dict[str, Any] = {}
        between: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        for key, value in flat.items():
            kind, alone = kinds.get(key), key in options.passthrough
            owners = () if alone else _owners(key, pictures, options)
            if not owners and not alone and (kind is None or kind.axes or self._mixes):
                raise _homeless(key, kind, pictures)
            (rest if not owners else between if len(owners) > 1 else each.setdefault(owners[0], {}))[key] = value
        _check_counts({name: each[name][name] for name in pictures if name in each.get(name, ())})
        return _Parts(each, between, rest, form)

    def key(self, parts: _Parts, key: Key | None) -> Key:
        """Return one key for all pictures; without the caller's key, take a step of the stream."""
        name, part = next(iter(parts.each.items()))
        return self.of(name).key_of(part) if key is None else key


def _joined(parts: _Parts, results: Mapping[str, Any]) -> Any:
    """Join the results of all pictures in the form of the batch."""
    if parts.form.bare:
        return results["image"]
    everything: dict[str, Any] = {}
    for name, result in results.items():
        everything |= {f"{VALID}{_suffix(name)}" if key == VALID else key: value for key, value in result.items()}
    return parts.form.closed(everything | parts.rest)


def _owners(key: str, pictures: Sequence[str], options: Options) -> tuple[str, ...]:
    """Return the picture that a target belongs to, or the two pictures that it leads between: as declared in ``of``, or the picture
    with the longest name that the key ends or begins with.
    """
    key = key.removesuffix(f"_{VALID}")
    if key in options.of or key in pictures:
        return options.of.get(key, (key,))
    named = [one for one in pictures if key.endswith(_suffix(one)) or key.startswith(f"{one}_")]
    return (max(named, key=len),) if named else tuple(pictures) if len(pictures) == 1 else ()


def _homeless(key: str, kind: TargetKind | None, pictures: Sequence[str]) -> InvalidArgument:
    fix = f"Pass of={{{key!r}: {pictures[0]!r}}}, or name it after its picture, such as mask_{pictures[0]}."
    if kind is not None and kind.name in LEADING:
        fix = f"Pass of={{{key!r}: {tuple(pictures[:2])}}}: where it begins, and where it ends."
    return invalid(
        f"batch[{key!r}]", expected=f"a target of one of {', '.join(pictures)}", got="a name that belongs to none", fix=fix
    )


def _kind(key: str, options: Options) -> str:
    kind = kind_of(key, options.targets)
    assert kind is not None
    return kind.name


def _suffix(picture: str) -> str:
    """Return the ending of the keys of a picture's targets: ``_left`` for ``left`` and ``image_left``, nothing for ``image``."""
    return picture.removeprefix("image") if picture.startswith("image") else f"_{picture}"


def _check_counts(pictures: Mapping[str, Any]) -> None:
    counts = {name: _count(value) for name, value in pictures.items()}
    first = next(iter(counts), "")
    for name, count in counts.items():
        if count != counts[first]:
            raise invalid(f"batch[{name!r}]", expected=f"{counts[first]} samples, as batch[{first!r}] has", got=count)


def _count(picture: Any) -> int:
    """Return the number of samples: one without a batch axis."""
    if isinstance(picture, list | tuple):
        return len(picture)
    shape: Sequence[int] = getattr(picture, "shape", ())
    return shape[0] if len(shape) > 3 else 1


def _streams(transforms: tuple[Transform, ...], share: Mapping[str, Sequence[Sequence[str]]], picture: str) -> tuple[str, ...]:
    """Return for each step the picture whose name its draw depends on: the first of the group, or the picture itself."""
    leads = {name: next((group[0] for group in groups if picture in group), picture) for name, groups in share.items()}
    named = _named(transforms, share, "share")
    found = [leads[named[at]] if at in named else "" for at in range(len(steps_of(transforms)))]
    for i, transform in enumerate(transforms):
        open_ones = [at for at in places_of(transforms, i) if at not in named]
        chosen = {leads.get(side, picture) for side in _sides(transform)}
        if len(chosen) > 1 and open_ones:
            name = type(transform).__name__
            fix = f"Name it: share={{..., {name!r}: [...]}}; an empty list leaves it to each picture."
            expected = f"one group for {name}, which may change both geometry and colour"
            raise invalid("share", expected=expected, got=f"another for each of them, for {picture!r}", fix=fix)
        for at in open_ones:
            (found[at],) = chosen
    return tuple(found)


def _named(transforms: tuple[Transform, ...], table: Mapping[Any, Any], option: str) -> dict[int, Any]:
    """Return, by step, the name in an option that selects it, other than ``colour`` and ``geometry``."""
    also, names = "colour, geometry, or ", [name for name in table if name not in SIDES]
    return {at: name for name in names for at in steps_named(transforms, (name,), option=option, also=also)}


def _skipped(transforms: tuple[Transform, ...], only: Mapping[str | int, Sequence[str]], picture: str) -> set[int]:
    """Return the steps that a picture skips."""
    found = {at: picture not in only[name] for at, name in _named(transforms, only, "only").items()}
    for at, step in enumerate(steps_of(transforms)):
        if at not in found and not isinstance(step.transform, Choice):
            (side,) = _sides(step.transform)
            found[at] = picture not in only.get(side, (picture,))
    return {at for at, skips in found.items() if skips}


_IDLE = SomeOf(((),), n=0, replace=True)
"""A step that draws nothing and does nothing."""


def _without(transforms: tuple[Transform, ...], skipped: set[int], first: int = 0) -> tuple[Transform, ...]:
    """Replace the skipped steps by steps that do nothing, so that the number of steps stays the same."""
    found: list[Transform] = []
    for transform in transforms:
        count = len(steps_of((transform,)))
        if first in skipped:
            found += [_IDLE] * count
        elif isinstance(transform, Choice) and skipped & set(range(first, first + count)):
            at, branches = first + 1, []
            for branch in transform.branches:
                branches.append(_without(branch, skipped, at))
                at += len(steps_of(branch))
            found.append(transform.among(branches))
        else:
            found.append(transform)
        first += count
    return tuple(found)


def _sides(transform: Transform) -> set[str]:
    """Return the sides of a transform: ``geometry``, ``colour``, or both for a choice between them."""
    if isinstance(transform, Choice):
        return {side for branch in transform.branches for one in branch for side in _sides(one)} or {"colour"}
    return {"geometry" if moves(transform) else "colour"}


def moves(transform: Transform) -> bool:
    """Return whether a transform moves points of the picture; all others count as colour."""
    decides = type(transform).decides is not Transform.decides  # its draw decides the size of the result
    return decides or isinstance(_segment(transform), WarpSpec) or _shows_several(transform)


def _shows_several(transform: Transform) -> bool:
    segment = _segment(transform)
    return isinstance(segment, LayerSpec) and segment.moves


def _segment(transform: Transform) -> SegmentSpec | None:
    if isinstance(transform, Choice):
        return None
    try:
        return transform.segment(ANY_IMAGE)
    except (InvalidArgument, InvalidType):
        return None


def settings_of(options: Options, transforms: tuple[Transform, ...]) -> dict[str, Any]:
    """Return the options for other transforms, without entries that name none of them."""
    settings = options.settings()
    named = {name: groups for name, groups in options.share.items() if name in SIDES or is_named(transforms, name)}
    settings["share"] = named or {"colour": ()} if options.share else {}
    settings["only"] = {
        name: one for name, one in options.only.items() if name in SIDES or (isinstance(name, str) and is_named(transforms, name))
    }
    settings["per_frame"] = [name for name in options.per_frame if is_named(transforms, name)]
    return settings
